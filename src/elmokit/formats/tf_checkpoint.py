"""A TensorFlow checkpoint folder of bilm-tf's trainer, read and written without TensorFlow."""

import re
from pathlib import Path

from ..errors import FileError, FormatError
from ..files.read import is_there, list_folder, read_json, read_words
from ..files.write import write_json
from ..text.vocab import Vocab
from .bilm_tf import (
    checkpoint_name,
    config_from_options,
    official_name,
    options_from_config,
    rules,
    softmax_rules,
)
from .checkpoint import Checkpoint, Format, expected_tensors, to_ours, to_theirs
from .official import add_softmax, write_vocab
from .tensor_bundle import read_bundle, write_bundle

_NEW = "model.ckpt"


def find_prefix(folder: Path) -> Path:
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


def read_tf_checkpoint(path: Path) -> Checkpoint:
    """The model of a checkpoint PREFIX.index or its folder, with the options and vocabulary."""
    prefix = find_prefix(path) if path.is_dir() else path.with_suffix("")
    folder = prefix.parent
    if not is_there(folder / "options.json"):
        raise FileError(f"{folder}: the options.json of the training run is missing")
    config = config_from_options(read_json(folder / "options.json"), str(folder / "options.json"))

    def is_weight(name: str) -> bool:
        return name.startswith(("lm/", "bilm/")) and not name.endswith(("/Adagrad", "/Adagrad_1"))

    variables = read_bundle(prefix, is_weight)
    source = {official_name(name): array for name, array in variables.items()}
    where = f"{prefix}.index"
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
