"""TensorFlow's two ways to keep bilm-tf's variables, read (and one of them written) without it.

The folder of bilm-tf's trainer:

options.json, vocab*.txt            the architecture, and the words of the softmax
checkpoint                          which of the checkpoints is the newest
PREFIX.index, PREFIX.data-*         lm/… (bilm-tf's names)

A module of TensorFlow Hub (google/elmo):

saved_model.pb, tfhub_module.pb     the graph; not read
variables/variables.index, .data-*  bilm/… (bilm-tf's names) and aggregation/{weights,scaling}

A module has no options. Its variables give every size; what no size tells (`_ASSUMED`) is the same
in all modules that were published: they hold the paper's model.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from ..config import CharCnnConfig, ElmoConfig, EncoderConfig, LstmConfig, MixConfig
from ..errors import ConfigError, FileError, FormatError
from ..files.read import is_there, list_folder, read_json, read_words
from ..files.write import write_json
from ..text.ids import Vocab
from .bilm_tf import (
    cell_name,
    checkpoint_name,
    config_from_options,
    official_name,
    options_from_config,
    rules,
    softmax_rules,
)
from .checkpoint import Checkpoint, Format, check_shape, expected_tensors, to_ours, to_theirs
from .official import add_softmax, write_vocab
from .tensor_bundle import read_bundle, write_bundle

_NEW = "model.ckpt"
_MODULE = "variables/variables"
_WEIGHTS, _SCALING = "aggregation/weights", "aggregation/scaling"
_ASSUMED = (
    "activation relu, clipping at 3, skip connections and at most 50 bytes per word, "
    "as in the paper's model"
)


def read_tf_checkpoint(path: Path) -> Checkpoint:
    """The model of a checkpoint PREFIX.index or its folder, with the options and vocabulary."""
    prefix = _newest_prefix(path) if path.is_dir() else path.with_suffix("")
    folder, where = prefix.parent, f"{prefix}.index"
    if not is_there(folder / "options.json"):
        raise FileError(f"{folder}: the options.json of the training run is missing")
    config = config_from_options(read_json(folder / "options.json"), str(folder / "options.json"))

    def is_weight(name: str) -> bool:
        return name.startswith(("lm/", "bilm/")) and not name.endswith(("/Adagrad", "/Adagrad_1"))

    source = {official_name(name): v for name, v in read_bundle(prefix, is_weight).items()}
    tensors = to_ours(rules(config), source, expected_tensors(config), where)
    checkpoint = Checkpoint(config=config, tensors=tensors, format=TF_CHECKPOINT.label)
    vocabularies = [path for path in sorted(folder.glob("*vocab*")) if not path.is_dir()]
    if "softmax/W" not in source:
        checkpoint.notes.append("the checkpoint holds no softmax, so it cannot score text")
    elif len(vocabularies) != 1:
        names = ", ".join(path.name for path in vocabularies) or "none"
        checkpoint.notes.append(
            f"the softmax is left out: expected one vocab.txt beside the checkpoint, found {names}"
        )
    else:
        vocab = Vocab.read(read_words(vocabularies[0]), str(vocabularies[0]))
        shape = source["softmax/W"].shape
        if shape[:1] != (len(vocab),):
            raise FormatError(
                f"{vocabularies[0]} has {len(vocab)} words, but softmax/W of {where} shape {shape}"
            )
        add_softmax(checkpoint, source, vocab, where)
    return checkpoint


def write_tf_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint, its options and its vocabulary into `folder`."""
    options = options_from_config(checkpoint.config, num_characters=261)
    table = rules(checkpoint.config)
    if checkpoint.vocab is not None:
        table += softmax_rules()
        options["n_tokens_vocab"] = len(checkpoint.vocab)
        write_vocab(folder / "vocab.txt", checkpoint.vocab)
    variables = {
        checkpoint_name(official): tensor.float().numpy()
        for official, tensor in to_theirs(table, checkpoint.tensors).items()
    }
    write_bundle(folder / _NEW, variables)
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{_NEW}"\nall_model_checkpoint_paths: "{_NEW}"\n', encoding="utf-8"
    )
    write_json(folder / "options.json", options | {"bidirectional": True})


def read_tf_hub(folder: Path) -> Checkpoint:
    """The biLM of a module, and the mix that it learned: its output `elmo`, our default mix."""
    prefix = folder / _MODULE
    where = f"{prefix}.index"
    variables = read_bundle(prefix, lambda name: name.startswith(("bilm/", "aggregation/")))
    source = {official_name(name): v for name, v in variables.items()}
    config = _config_from_shapes({name: array.shape for name, array in source.items()}, where)
    tensors = to_ours(rules(config), source, expected_tensors(config), where)
    if _WEIGHTS in source and _SCALING in source:
        scalars, gamma = (torch.from_numpy(source[name]) for name in (_WEIGHTS, _SCALING))
        check_shape(where, _WEIGHTS, scalars.shape, (config.num_layers,))
        if gamma.numel() != 1:
            raise FormatError(f"{where}: {_SCALING} has shape {tuple(gamma.shape)}, not one number")
        config = replace(config, mixes={"default": MixConfig()})
        tensors |= {"mixes.default.scalars": scalars, "mixes.default.gamma": gamma.reshape(())}
    notes = [f"a module does not say everything; taken: {_ASSUMED}"]
    return Checkpoint(config=config, tensors=tensors, format=TF_HUB.label, notes=notes)


def _newest_prefix(folder: Path) -> Path:
    """The newest checkpoint of a folder, as its `checkpoint` file says, else the only one."""
    found = [path for path in list_folder(folder) if path.suffix == ".index"]
    index = folder / "checkpoint"
    if is_there(index):
        named = re.search(
            r'^model_checkpoint_path:\s*"([^"]+)"', "\n".join(read_words(index)), flags=re.M
        )
        # The file may hold the absolute path of the machine that trained the model.
        if named and (folder / f"{Path(named[1]).name}.index") in found:
            return folder / Path(named[1]).name
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise FileError(f"{folder}: expected one TensorFlow checkpoint (*.index), found {names}")
    return found[0].with_suffix("")


def _config_from_shapes(shapes: Mapping[str, tuple[int, ...]], where: str) -> ElmoConfig:
    """The architecture of variables with these official names and shapes."""

    def shape(name: str, num_dims: int) -> tuple[int, ...]:
        if name not in shapes:
            raise FormatError(f"{where}: {name} is missing; this is no ELMo module")
        if len(shapes[name]) != num_dims:
            raise FormatError(
                f"{where}: {name} has shape {shapes[name]}, not {num_dims} dimensions"
            )
        return shapes[name]

    def count(name: str) -> int:
        """How many variables there are of a name that ends in a number."""
        return next(i for i in range(len(shapes) + 1) if name.format(i) not in shapes)

    kernel = cell_name(0, 0) + "W_0"
    filters = [shape(f"CNN/W_cnn_{i}", 4) for i in range(count("CNN/W_cnn_{}"))]
    try:
        lstm = LstmConfig(
            dim=shape(kernel, 2)[1] // 4,
            projection_dim=shape(kernel, 2)[0] // 2,
            num_layers=count(kernel.replace("Cell0", "Cell{}")),
            cell_clip=3.0,
            proj_clip=3.0,
            skip_connections=True,
        )
        char_cnn = CharCnnConfig(
            dim=shape("char_embed", 2)[1],
            filters=tuple((width, number) for _, width, _, number in filters),
            activation="relu",
            num_highway=count("CNN_high_{}/W_carry"),
            max_characters=50,
        )
        encoder = EncoderConfig(char_cnn=char_cnn, projected="CNN_proj/W_proj" in shapes)
        return ElmoConfig(encoder=encoder, lstm=lstm, tokenizer=None)
    except ConfigError as e:
        raise FormatError(f"{where}: {e}") from e


TF_CHECKPOINT = Format(
    name="tf",
    label="TensorFlow checkpoint",
    layout="*.index + options.json",
    weights=("*.index",),
    marks=("*.index",),
    anchor="*options.json",
    files=("*.json", "*.index", "*.data-*", "*vocab*", "checkpoint"),
    holds=frozenset({"softmax"}),
    read=read_tf_checkpoint,
    write=write_tf_checkpoint,
)

TF_HUB = Format(
    name="tf-hub",
    label="TensorFlow Hub module",
    layout=f"{_MODULE}.index",
    weights=(f"{_MODULE}.index",),
    marks=("saved_model.pb", "tfhub_module.pb", "variables"),
    anchor=f"{_MODULE}.index",
    files=(f"{_MODULE}.index", f"{_MODULE}.data-*"),
    read=read_tf_hub,
)
