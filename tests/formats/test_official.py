"""The official pair: what it may look like, and how it may be broken."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    assert_refused,
    make_tiny,
    random_model,
    tiny_config,
    write_token_embeddings,
)

from elmokit import Elmo, ElmoError
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.errors import ConfigError
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint
from elmokit.text.ids import Vocab

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
VOCAB = Vocab(["</S>", "<S>", "<UNK>", "the", "cat", "한글"])
SENTENCES = [["The", "cat"], ["한글", "!"]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole official folder, with softmax and vocabulary."""
    folder = tmp_path_factory.mktemp("official")
    elmo = make_tiny(tiny_config(num_softmax_words=len(VOCAB)), vocab=VOCAB)
    write_checkpoint(elmo.to_checkpoint(), folder, "official")
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy to be broken: options.json and weights.hdf5 alone."""
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(original / name, tmp_path / name)
    return tmp_path


def change_options(folder: Path, path: str, value: object) -> None:
    """Set the option at a dotted path; delete it if the value is ... ."""
    options = json.loads((folder / "options.json").read_text())
    *parents, last = path.split(".")
    part = options
    for name in parents:
        part = part[name]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    (folder / "options.json").write_text(json.dumps(options))


def replace(file: h5py.File, name: str, value: object) -> None:
    del file[name]
    file[name] = value


def assert_same_vectors(one: Elmo, other: Elmo) -> None:
    for a, b in zip(
        one.embed(SENTENCES, layers="all"), other.embed(SENTENCES, layers="all"), strict=True
    ):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------ what it may look like


def test_folder_and_each_of_its_files_is_the_same_model(original: Path) -> None:
    expected = Elmo.from_pretrained(original)
    for name in ("options.json", "weights.hdf5"):
        assert_same_vectors(Elmo.from_pretrained(original / name), expected)
    files = Elmo.from_files(original / "options.json", original / "weights.hdf5")
    assert_same_vectors(files, expected)
    assert expected.vocab == VOCAB
    assert files.vocab is None


@pytest.mark.parametrize("n_characters", [261, 262, None, "absent"])
def test_number_of_characters_in_the_options_does_not_matter(
    folder: Path, original: Path, n_characters: object
) -> None:
    value = ... if n_characters == "absent" else n_characters
    change_options(folder, "char_cnn.n_characters", value)
    assert_same_vectors(Elmo.from_pretrained(folder), Elmo.from_pretrained(original))


@pytest.mark.parametrize("format", ["official", "tf"])
@pytest.mark.parametrize(
    "settings",
    [
        {"tokenizer": "whitespace", "normalization": None, "state": "zero"},
        {"tokenizer": "regex", "normalization": "NFC", "state": "warm"},
        {"tokenizer": None, "normalization": "NFC", "state": "carry"},
    ],
)
def test_how_text_is_read_survives_the_conversion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, format: str, settings: dict[str, Any]
) -> None:
    elmo = make_tiny(tiny_config(**settings))
    write_checkpoint(elmo.to_checkpoint(), tmp_path / "m", format)
    models = [Elmo.from_pretrained(tmp_path / "m")]
    if format == "official":
        pair = (tmp_path / "m" / "options.json", tmp_path / "m" / "weights.hdf5")
        models.append(Elmo.from_files(*pair))
    for model in models:
        assert {name: getattr(model.config, name) for name in settings} == settings
        text = ["Ne\u0301e in 1907.", "태어났다."]
        assert model.tokenize(text) == elmo.tokenize(text)
    # The user is told of a guess, and only of that.
    assert ("does not say how" in caplog.text) == (settings["tokenizer"] is None)


def test_arguments_win_over_what_the_options_say(folder: Path) -> None:
    change_options(folder, "elmokit", {"tokenizer": "regex", "state": "warm"})
    pair = (folder / "options.json", folder / "weights.hdf5")
    options = {"tokenizer": "whitespace", "normalization": None, "state": "zero"}
    config = Elmo.from_files(*pair, **options).config
    assert {name: getattr(config, name) for name in options} == options


@pytest.mark.parametrize("name", ["mecab", "spacy:", "x" * 10**6])
def test_unknown_tokenizer_in_the_options_is_refused_and_can_be_replaced(
    folder: Path, name: str
) -> None:
    change_options(folder, "elmokit", {"tokenizer": name})
    pair = (folder / "options.json", folder / "weights.hdf5")
    for load in (lambda: Elmo.from_pretrained(folder), lambda: Elmo.from_files(*pair)):
        assert_refused(load, str(folder), "tokenizer=", name[:5])
    Elmo.from_pretrained(folder, tokenizer="regex")


def test_what_elmokit_adds_to_the_options_is_one_key(folder: Path) -> None:
    options = json.loads((folder / "options.json").read_text())
    assert set(options) == {"lstm", "char_cnn", "elmokit"}


def test_readers_without_a_tokenizer_ignore_the_one_of_the_options(
    folder: Path, original: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from elmokit.compat.allennlp import ElmoEmbedder
    from elmokit.compat.simple_elmo import ElmoModel

    def vectors(folder: Path) -> list[np.ndarray]:
        embedder = ElmoEmbedder(folder / "options.json", folder / "weights.hdf5")
        model = ElmoModel()
        model.load(folder)
        return [embedder.embed_sentence(SENTENCES[0]), model.get_elmo_vectors(SENTENCES)]

    expected = vectors(original)
    # No package of this name is there, and AllenNLP has no other states.
    change_options(folder, "elmokit", {"tokenizer": "spacy:xx-none", "state": "warm"})
    for got, wanted in zip(vectors(folder), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_options_of_training_are_ignored(folder: Path, original: Path) -> None:
    for name, value in {"bidirectional": True, "dropout": 0.1, "n_train_tokens": 10**12}.items():
        change_options(folder, name, value)
    assert_same_vectors(Elmo.from_pretrained(folder), Elmo.from_pretrained(original))


@pytest.mark.parametrize(
    "style",
    [
        "RNN/LSTMCell",
        "RNN/MultiRNNCell/Cell0/LSTMCell",
        "rnn/lstm_cell",
        "rnn/multi_rnn_cell/cell_0/lstm_cell",
    ],
)
def test_one_layer_loads_under_every_name_of_its_cell(tmp_path: Path, style: str) -> None:
    elmo = make_tiny(tiny_config(lstm=LstmConfig(dim=32, projection_dim=16, num_layers=1)))
    write_checkpoint(elmo.to_checkpoint(), tmp_path, "official")
    tf_names = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    with h5py.File(tmp_path / "weights.hdf5", "r+") as file:
        for direction in (0, 1):
            cell = dict(file[f"RNN_{direction}/RNN/MultiRNNCell/Cell0/LSTMCell"])
            values = {name: data[...] for name, data in cell.items()}
            del file[f"RNN_{direction}"]
            for name, value in values.items():
                part = tf_names[name] if "lstm_cell" in style else name
                file[f"RNN_{direction}/{style}/{part}"] = value
    assert_same_vectors(Elmo.from_pretrained(tmp_path), elmo)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_any_floating_point_numbers_are_weights(folder: Path, original: Path, dtype: str) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        replace(file, "char_embed", file["char_embed"][...].astype(dtype))
    expected, got = Elmo.from_pretrained(original), Elmo.from_pretrained(folder)
    for a, b in zip(expected.embed(SENTENCES), got.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-2 if dtype == "f2" else 0)


@pytest.mark.parametrize(
    "config",
    [
        tiny_config(lstm=LstmConfig(dim=16, projection_dim=16, num_layers=3)),
        tiny_config(lstm=LstmConfig(dim=40, projection_dim=28, cell_clip=None, proj_clip=0.5),
                    encoder=EncoderConfig(char_cnn=CharCnnConfig(
                        dim=4, filters=((1, 4), (2, 8), (3, 16)), activation="tanh",
                        num_highway=0), projected=False)),
        tiny_config(lstm=LstmConfig(dim=32, projection_dim=16, skip_connections=False)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("format", ["official", "tf"])
def test_conversion_there_and_back_is_bit_equal(tmp_path: Path, config, format: str) -> None:
    elmo = random_model(config)
    elmo.save_pretrained(tmp_path / "elmokit")
    start = read_checkpoint(tmp_path / "elmokit")
    write_checkpoint(start, tmp_path / "there", format)
    there = read_checkpoint(tmp_path / "there")
    write_checkpoint(there, tmp_path / "other", "tf" if format == "official" else "official")
    write_checkpoint(read_checkpoint(tmp_path / "other"), tmp_path / "back", "elmokit")
    back = read_checkpoint(tmp_path / "back")
    for name, tensor in start.tensors.items():
        if not name.startswith("mixes."):  # the one thing that the format cannot hold
            assert back.tensors[name].equal(tensor), name
    assert back.config.encoder == config.encoder and back.config.lstm == config.lstm


def test_softmax_and_vocabulary_can_be_named(original: Path) -> None:
    pair = (original / "options.json", original / "weights.hdf5")
    elmo = Elmo.from_files(
        *pair, vocab=original / "vocab.txt", softmax=original / "softmax_weights.hdf5"
    )
    assert elmo.vocab == VOCAB
    expected = make_tiny(tiny_config(num_softmax_words=len(VOCAB)), vocab=VOCAB).softmax
    assert elmo.softmax.weight.equal(expected.weight)


def test_softmax_without_its_vocabulary_is_refused(original: Path) -> None:
    pair = (original / "options.json", original / "weights.hdf5")
    softmax = original / "softmax_weights.hdf5"
    assert_refused(lambda: Elmo.from_files(*pair, softmax=softmax), softmax.name, "vocab")


def test_softmax_of_another_vocabulary_is_refused(original: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nword\n")
    pair = (original / "options.json", original / "weights.hdf5")
    softmax = original / "softmax_weights.hdf5"
    assert_refused(
        lambda: Elmo.from_files(*pair, vocab=tmp_path / "vocab.txt", softmax=softmax),
        "softmax_weights.hdf5", "softmax/W", "(6, 16)", "(4, 16)",
    )  # fmt: skip


def test_cached_token_embeddings_replace_the_spelling(original: Path, tmp_path: Path) -> None:
    pair = (original / "options.json", original / "weights.hdf5")
    spelled = Elmo.from_files(*pair)
    write_token_embeddings(tmp_path / "tokens.hdf5", spelled.token_vectors(list(VOCAB)))
    options = {"vocab": original / "vocab.txt", "token_embeddings": tmp_path / "tokens.hdf5"}
    cached = Elmo.from_files(*pair, **options)
    sentences = [["the", "cat", "한글"], ["cat"]]
    for a, b in zip(cached.embed(sentences), spelled.embed(sentences), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_array_equal(cached.embed([["zyx"]])[0], cached.embed([["<UNK>"]])[0])
    cached.save_pretrained(tmp_path / "saved")
    assert_same_vectors(Elmo.from_pretrained(tmp_path / "saved"), cached)
    with pytest.raises(ConfigError, match="table of words"):
        write_checkpoint(cached.to_checkpoint(), tmp_path / "no", "official")
    assert not (tmp_path / "no").exists()


def test_cached_token_embeddings_need_their_vocabulary(original: Path, tmp_path: Path) -> None:
    write_token_embeddings(tmp_path / "tokens.hdf5", np.zeros((4, 16)))
    pair = (original / "options.json", original / "weights.hdf5")
    table = tmp_path / "tokens.hdf5"
    assert_refused(lambda: Elmo.from_files(*pair, token_embeddings=table), table.name, "vocab")
    assert_refused(
        lambda: Elmo.from_files(*pair, token_embeddings=table, vocab=original / "vocab.txt"),
        table.name, "embedding", "(4, 16)", "(6, 16)",
    )  # fmt: skip


def test_cached_token_embeddings_in_a_folder_are_mentioned_and_not_used(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_token_embeddings(folder / "elmo_token_embeddings.hdf5", np.zeros((4, 16)))
    assert "elmo_token_embeddings.hdf5" in Elmo.from_pretrained(folder).notes[0]
    assert "elmo_token_embeddings.hdf5" in caplog.text


def test_model_of_code_points_cannot_be_official(tmp_path: Path) -> None:
    cnn = CharCnnConfig(characters="unicode", num_characters=20, dim=4, filters=((1, 4),))
    elmo = random_model(tiny_config(encoder=EncoderConfig(char_cnn=cnn)))
    for format in ("official", "tf"):
        assert_refused(
            lambda format=format: write_checkpoint(elmo.to_checkpoint(), tmp_path / "no", format),
            "Unicode characters",
        )
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ how it may be broken


@pytest.mark.parametrize("size", [0, 1, 8, 100, 2000, 10_000, -1])
def test_truncated_weights_are_refused(folder: Path, size: int) -> None:
    weights = folder / "weights.hdf5"
    weights.write_bytes(weights.read_bytes()[:size])
    assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5")


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"\x89HDF\r\n\x1a\n" + bytes(5000)])
def test_garbage_is_refused(folder: Path, content: bytes) -> None:
    (folder / "weights.hdf5").write_bytes(content)
    assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5", "not a readable HDF5 file")


@pytest.mark.parametrize(
    "name", ["char_embed", "CNN/W_cnn_1", "CNN/b_cnn_0", "CNN_high_0/W_carry", "CNN_proj/b_proj",
             f"{CELL}/W_0", f"{CELL}/W_P_0", "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B"]
)  # fmt: skip
@pytest.mark.parametrize("problem", ["missing", "shape", "int", "text", "empty", "group", "record"])
def test_broken_tensor_is_refused_by_its_name(folder: Path, name: str, problem: str) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        value = file[name][...]
        del file[name]
        if problem == "shape":
            file[name] = np.concatenate([value, value])
        elif problem == "int":
            file[name] = value.astype(np.int32)
        elif problem == "text":
            file[name] = np.full(value.shape, b"weight")
        elif problem == "empty":
            file[name] = h5py.Empty("f4")
        elif problem == "group":
            file.create_group(f"{name}/deeper")
        elif problem == "record":
            file[name] = np.zeros(value.shape, [("a", "f4"), ("b", "f4")])
    assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5", name)


@pytest.mark.parametrize("name", ["char_embed", "RNN_0", f"{CELL}/B"])
def test_link_out_of_the_file_is_refused_unopened(folder: Path, name: str) -> None:
    os.mkfifo(folder / "pipe")  # to open it would wait for ever
    shutil.copy(folder / "weights.hdf5", folder / "elsewhere.h5")
    for link in (
        h5py.ExternalLink(str(folder / "pipe"), "/x"),
        h5py.ExternalLink("elsewhere.h5", f"/{name}"),
        h5py.SoftLink("/CNN_proj/b_proj"),
        h5py.SoftLink(f"/{name}"),
    ):
        with h5py.File(folder / "weights.hdf5", "r+") as file:
            replace(file, name, link)
        assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5", name, "link")


def test_data_kept_in_another_file_is_refused(folder: Path) -> None:
    secret = folder / "secret.bin"
    secret.write_bytes(np.arange(16, dtype="f4").tobytes())
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["CNN_proj/b_proj"]
        file.create_dataset("CNN_proj/b_proj", (16,), "f4", external=[(str(secret), 0, 64)])
    assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5", "CNN_proj/b_proj")


def test_virtual_dataset_is_refused(folder: Path) -> None:
    layout = h5py.VirtualLayout((16,), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "secret.h5"), "data", shape=(16,))
    with h5py.File(folder / "secret.h5", "w") as file:
        file["data"] = np.arange(16, dtype="f4")
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["CNN_proj/b_proj"]
        file.create_virtual_dataset("CNN_proj/b_proj", layout)
    assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5", "another file")


def test_groups_that_hold_each_other_end(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        group = file.create_group("loop")
        for i in range(50):
            group[f"again_{i}"] = group
    Elmo.from_pretrained(folder)


def test_sizes_without_data_are_refused_before_they_cost_memory(folder: Path) -> None:
    dim, projection = 10**6, 16
    change_options(folder, "lstm.dim", dim)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        for cell in [f"RNN_{d}/RNN/MultiRNNCell/Cell{j}/LSTMCell" for d in (0, 1) for j in (0, 1)]:
            for name, shape in {"W_0": (2 * projection, 4 * dim), "B": (4 * dim,),
                                "W_P_0": (dim, projection)}.items():  # fmt: skip
                del file[f"{cell}/{name}"]
                file.create_dataset(f"{cell}/{name}", shape, "f4", chunks=True)
    assert (folder / "weights.hdf5").stat().st_size < 10**6
    assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5", "LSTMCell/")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (path, value)
        for path in ("lstm.dim", "lstm.projection_dim", "lstm.n_layers", "char_cnn.embedding.dim",
                     "char_cnn.max_characters_per_token")
        for value in ("32", 2.5, True, [], {}, 0, -1, 10**12, 10**30)
    ]
    + [(path, ...) for path in ("lstm", "lstm.dim", "lstm.projection_dim", "char_cnn",
                                "char_cnn.embedding", "char_cnn.embedding.dim", "char_cnn.filters",
                                "char_cnn.activation", "char_cnn.max_characters_per_token")]
    + [(path, value) for path in ("lstm", "char_cnn", "char_cnn.embedding")
       for value in (None, [], "text", 7)]
    + [("char_cnn.filters", value) for value in (None, [], 7, "text", [7], [[1]], [[1, 2, 3]],
                                                 [["1", 4]], [[1, 10**12]], [[99, 1]], {"1": 4})]
    + [("elmokit", value) for value in (None, [], "text", 7)]
    + [("elmokit.tokenizer", value) for value in (7, ["regex"])]
    + [("elmokit.normalization", value) for value in (7, "NFD", [])]
    + [("elmokit.state", value) for value in (None, 7, "hot")]
    + [("char_cnn.activation", value) for value in (None, "gelu", ["relu"], 1)]
    + [("char_cnn.n_highway", value) for value in (-1, "1", 1.5, 10**9)]
    + [(f"lstm.{clip}", value) for clip in ("cell_clip", "proj_clip")
       for value in ("3", [], -1, True, {"x": 1})]
    + [("lstm.use_skip_connections", value) for value in ("false", 2, [])],
)  # fmt: skip
def test_broken_option_is_refused_by_its_name(folder: Path, path: str, value: object) -> None:
    change_options(folder, path, value)
    # Numbers out of range have the name that our configuration gives them: num_layers, …
    name = path.split(".")[-1].removeprefix("n").removesuffix("_per_token")
    assert_refused(lambda: Elmo.from_pretrained(folder), "options.json", name)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"7", b'{"lstm": {"dim": 1e999}}', b"\xff\xfe", b"[" * 10**5,
     b'{"lstm": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_options_that_are_no_json_object_are_refused(folder: Path, content: bytes) -> None:
    (folder / "options.json").write_bytes(content)
    assert_refused(lambda: Elmo.from_pretrained(folder), "options.json")


@pytest.mark.parametrize(
    ("names", "mentions"),
    [
        (["options.json"], ["no ELMo model found"]),
        (["weights.hdf5"], ["no ELMo model found"]),
        ([], ["no ELMo model found"]),
    ],
)
def test_folder_with_half_a_model_is_refused(
    folder: Path, tmp_path: Path, names: list[str], mentions: list[str]
) -> None:
    half = tmp_path / "half"
    half.mkdir()
    for name in names:
        shutil.copy(folder / name, half / name)
    assert_refused(lambda: Elmo.from_pretrained(half), str(half), *mentions)


def test_folder_with_two_models_is_refused_with_their_names(folder: Path) -> None:
    shutil.copy(folder / "weights.hdf5", folder / "other.hdf5")
    assert_refused(lambda: Elmo.from_pretrained(folder), "other.hdf5, weights.hdf5", "from_files")
    Elmo.from_pretrained(folder / "other.hdf5")
    shutil.copy(folder / "options.json", folder / "other_options.json")
    assert_refused(
        lambda: Elmo.from_pretrained(folder / "other.hdf5"), "options.json, other_options.json"
    )


def test_missing_files_are_named(folder: Path) -> None:
    options, weights, gone = folder / "options.json", folder / "weights.hdf5", folder / "gone"
    for call in (
        lambda: Elmo.from_files(gone, weights),
        lambda: Elmo.from_files(options, gone),
        lambda: Elmo.from_files(options, weights, vocab=gone, softmax=weights),
        lambda: Elmo.from_files(options, folder),
    ):
        assert_refused(call, str(folder))


def test_weights_of_another_file_kind_are_refused(original: Path) -> None:
    assert_refused(
        lambda: Elmo.from_pretrained(original / "softmax_weights.hdf5"),
        "softmax_weights.hdf5", "char_embed", "missing",
    )  # fmt: skip


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=20))
@settings(max_examples=150)
def test_damaged_bytes_are_a_model_or_an_error_of_ours(
    original: Path, tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[float, int]]
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copy(original / "options.json", folder)
    data = bytearray((original / "weights.hdf5").read_bytes())
    # The structures of HDF5 are near the beginning; further on are mostly plain numbers.
    for place, value in damage:
        data[int(place**3 * (len(data) - 1))] = value
    (folder / "weights.hdf5").write_bytes(data)
    try:
        Elmo.from_pretrained(folder)
    except ElmoError as e:
        assert "weights.hdf5" in str(e) and "\n" not in str(e)


def test_nothing_is_left_beside_a_broken_model(folder: Path) -> None:
    before = sorted(folder.iterdir())
    (folder / "weights.hdf5").write_bytes(b"garbage")
    assert_refused(lambda: Elmo.from_pretrained(folder), "weights.hdf5")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("break_", [lambda f: f.chmod(0), lambda f: f.unlink()])
def test_unreadable_vocabulary_is_named(original: Path, tmp_path: Path, break_: Callable) -> None:
    vocab = tmp_path / "vocab.txt"
    shutil.copy(original / "vocab.txt", vocab)
    break_(vocab)
    if os.access(vocab, os.R_OK):
        pytest.skip("this user may read everything")
    pair = (original / "options.json", original / "weights.hdf5")
    softmax = original / "softmax_weights.hdf5"
    assert_refused(lambda: Elmo.from_files(*pair, vocab=vocab, softmax=softmax), "vocab.txt")
