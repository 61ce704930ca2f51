"""Tiny models of seeded random weights in the published layouts, and sentences to read with them.

`benchmarks/peers/make_reference.py` runs the original programs on these files; the tests run
elmokit on them. So nothing here may use elmokit: the layouts are those that the programs read.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Array = np.ndarray[Any, Any]

SENTENCES = [
    "He has a gift for music .",
    "배 를 타 고 여행 을 가 다",
    "Señor Ðuro's naïve café 🎉",
    "a",
    # Cut after 48 bytes, in the middle of a syllable; and a token that is a boundary.
    "국립중앙박물관에서는국립중앙박물관에서는 <S> " + "x" * 60,
    "! ? 3.14",
]
PROTEIN = ["M K T A Y I A K Q R", "G S H M", "X", "B Z U O", "A A A A A", "W"]
VOCAB = ["</S>", "<S>", "<UNK>", "a", "gift", "for", "music", "배", "를", "."]
SCORED = "He has a gift for 배"


def sentences(name: str) -> list[list[str]]:
    """What a model of that name reads."""
    return [text.split() for text in (PROTEIN if name == "seqvec" else SENTENCES)]


def _options(**changes: Any) -> dict[str, Any]:
    lstm = {"use_skip_connections": True, "projection_dim": 4, "cell_clip": 3, "proj_clip": 3}
    cnn = {
        "activation": "relu",
        "filters": [[1, 4], [2, 4], [3, 8]],
        "n_highway": 1,
        "embedding": {"dim": 4},
        "n_characters": 262,
        "max_characters_per_token": 50,
    }
    lstm |= {"dim": 8, "n_layers": 2} | changes.pop("lstm", {})
    return {"lstm": lstm, "char_cnn": cnn | changes.pop("char_cnn", {}), **changes}


OFFICIAL: dict[str, dict[str, Any]] = {
    "one highway layer": _options(),
    "two highway layers": _options(char_cnn={"n_highway": 2}),
    # Limits that cut often: their order matters.
    "three layers, tanh, tight clipping": _options(
        lstm={"n_layers": 3, "cell_clip": 0.4, "proj_clip": 0.2},
        char_cnn={"activation": "tanh", "n_highway": 2},
    ),
    "no skip connections": _options(lstm={"use_skip_connections": False}),
    "seqvec": _options(bidirectional=True, dropout=0.1),
}
CHECKPOINT = _options(
    char_cnn={"n_characters": 261},
    bidirectional=True,
    dropout=0.1,
    n_tokens_vocab=len(VOCAB),
    batch_size=1,
    unroll_steps=1,
)
"""The options of a training run of bilm-tf."""

MANYLANGS = {"characters": 0, "words and characters": 5}
"""Models of ELMoForManyLangs, and their values per word."""


def official_weights(options: dict[str, Any], seed: int) -> dict[str, Array]:
    """The datasets of an official HDF5 file, by name."""
    cnn, lstm = options["char_cnn"], options["lstm"]
    dim, width = lstm["dim"], lstm["projection_dim"]
    num_filters = sum(number for _, number in cnn["filters"])
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, cnn["embedding"]["dim"])}
    for i, (length, number) in enumerate(cnn["filters"]):
        shapes[f"CNN/W_cnn_{i}"] = (1, length, cnn["embedding"]["dim"], number)
        shapes[f"CNN/b_cnn_{i}"] = (number,)
    for k in range(cnn["n_highway"]):
        for gate in ("carry", "transform"):
            shapes[f"CNN_high_{k}/W_{gate}"] = (num_filters, num_filters)
            shapes[f"CNN_high_{k}/b_{gate}"] = (num_filters,)
    shapes |= {"CNN_proj/W_proj": (num_filters, width), "CNN_proj/b_proj": (width,)}
    for direction in range(2):
        for layer in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            shapes[cell + "W_0"] = (2 * width, 4 * dim)
            shapes[cell + "B"] = (4 * dim,)
            shapes[cell + "W_P_0"] = (dim, width)
    return _random(shapes, seed)


def write_official(folder: Path, name: str) -> dict[str, Array]:
    """Write `options.json` and `weights.hdf5`; returns the weights."""
    folder.mkdir(parents=True)
    weights = official_weights(OFFICIAL[name], seed=list(OFFICIAL).index(name))
    (folder / "options.json").write_text(json.dumps(OFFICIAL[name]), encoding="utf-8")
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for dataset, array in weights.items():
            file[dataset] = array
    return weights


def softmax_weights() -> dict[str, Array]:
    """The softmax of the TensorFlow checkpoint, which an official file does not have."""
    size = len(VOCAB)
    return _random({"softmax/W": (size, 4), "softmax/b": (size,)}, seed=101)


def write_manylangs(folder: Path, name: str) -> dict[str, Array]:
    """Write the folder of an ELMoForManyLangs model; returns its weights."""
    import torch

    folder.mkdir(parents=True)
    special = ["<oov>", "<pad>", "<bos>", "<eos>", "<bow>", "<eow>"]
    characters = special + sorted({c for text in SENTENCES[:2] for c in text if c != " "})
    words = [*special[:4], "He", "gift", "배", "."]
    word_dim, char_dim, width, dim = MANYLANGS[name], 4, 4, 8
    filters = [[1, 4], [2, 4], [3, 8]]
    num_filters = sum(number for _, number in filters)
    embedder: dict[str, tuple[int, ...]] = {}
    if word_dim:
        embedder["word_emb_layer.embedding.weight"] = (len(words), word_dim)
    embedder["char_emb_layer.embedding.weight"] = (len(characters), char_dim)
    for i, (length, number) in enumerate(filters):
        embedder[f"convolutions.{i}.weight"] = (number, char_dim, length)
        embedder[f"convolutions.{i}.bias"] = (number,)
    for k in range(2):
        embedder[f"highways._layers.{k}.weight"] = (2 * num_filters, num_filters)
        embedder[f"highways._layers.{k}.bias"] = (2 * num_filters,)
    embedder["projection.weight"] = (width, word_dim + num_filters)
    embedder["projection.bias"] = (width,)
    encoder: dict[str, tuple[int, ...]] = {}
    for direction in ("forward", "backward"):
        for layer in range(2):
            cell = f"{direction}_layer_{layer}."
            encoder[cell + "input_linearity.weight"] = (4 * dim, width)
            encoder[cell + "state_linearity.weight"] = (4 * dim, width)
            encoder[cell + "state_linearity.bias"] = (4 * dim,)
            encoder[cell + "state_projection.weight"] = (width, dim)
    weights: dict[str, Array] = {}
    for seed, (file, shapes) in enumerate((("token_embedder", embedder), ("encoder", encoder))):
        arrays = _random(shapes, seed=200 + 10 * word_dim + seed)
        torch.save({n: torch.from_numpy(a) for n, a in arrays.items()}, folder / f"{file}.pkl")
        weights |= arrays
    for file, entries in (("char", characters), ("word", words)):
        lines = "".join(f"{entry}\t{i}\n" for i, entry in enumerate(entries))
        (folder / f"{file}.dic").write_text(lines, encoding="utf-8")
    settings = {
        "encoder": {"name": "elmo", "projection_dim": width, "cell_clip": 3, "proj_clip": 3,
                    "dim": dim, "n_layers": 2},
        "token_embedder": {"name": "cnn", "activation": "relu", "filters": filters, "n_highway": 2,
                           "word_dim": word_dim, "char_dim": char_dim,
                           "max_characters_per_token": 50},
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }  # fmt: skip
    (folder / "cnn_tiny.json").write_text(json.dumps(settings), encoding="utf-8")
    # The training machine's path, as in most published folders.
    (folder / "config.json").write_text(json.dumps({"config_path": "configs/cnn_tiny.json"}))
    return weights


def digest(weights: dict[str, Array]) -> str:
    """What tells whether two sets of weights are the same."""
    whole = b"".join(weights[name].tobytes() for name in sorted(weights))
    return hashlib.sha256(whole).hexdigest()[:16]


def _random(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, Array]:
    """Weights with which values stay near 1 and context matters; RandomState never changes."""
    random = np.random.RandomState(seed)
    return {
        name: (0.35 * random.randn(*shape)).astype(np.float32) for name, shape in shapes.items()
    }
