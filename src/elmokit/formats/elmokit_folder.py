"""Our own folder: `config.json` and `model.safetensors`, with what the model's text needs.

config.json          architecture, tokenizer, normalisation, state, mixes
model.safetensors    weights of the biLM, softmax, mixes and warm state
vocab.txt            words of the softmax, one per line
characters.json      code points and ids (models with their own characters)
words.json           words and rows (models that read word vectors)
"""

from pathlib import Path

import torch

from ..config import ElmoConfig
from ..errors import ConfigError, FormatError, quoted
from ..files.arrays import load_tensors, save_tensors
from ..files.read import read_json, read_words
from ..files.write import write_json
from ..text.ids import Vocab
from .checkpoint import Checkpoint, Format, check_complete, expected_tensors
from .official import write_vocab

FORMAT_VERSION = 1


def read_folder(path: Path) -> Checkpoint:
    """The model of a folder that `write_folder` wrote, or of its file of weights."""
    folder = path if path.is_dir() else path.parent
    where = folder / "config.json"
    values = read_json(where)
    version = values.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{where}: format_version={quoted(version)}, this elmokit reads {FORMAT_VERSION}; "
            "if it is larger, update elmokit"
        )
    try:
        config = ElmoConfig.from_dict(values, str(where))
    except ConfigError as e:
        raise FormatError(f"{where}: {e}" if str(where) not in str(e) else str(e)) from e
    weights = folder / "model.safetensors"
    tensors = load_tensors(weights)
    check_complete(str(weights), tensors, expected_tensors(config))
    # A copy, as the file does not align its tensors, on which the last bit of a product depends.
    copies = {name: t.to(torch.float32, copy=True) for name, t in tensors.items()}
    checkpoint = Checkpoint(config=config, tensors=copies, format=ELMOKIT.label)
    cnn = config.encoder.char_cnn
    # Only what the model uses: another may have been in the folder before it.
    if cnn is not None and cnn.characters == "unicode":
        checkpoint.characters = _read_dictionary(folder / "characters.json")
    if config.encoder.num_words:
        checkpoint.words = _read_dictionary(folder / "words.json")
    if config.num_softmax_words:
        path = folder / "vocab.txt"
        checkpoint.vocab = Vocab.read(read_words(path), str(path))
        if len(checkpoint.vocab) != config.num_softmax_words:
            raise FormatError(
                f"{path} has {len(checkpoint.vocab)} words, "
                f"but {where} says {config.num_softmax_words}"
            )
    return checkpoint


def write_folder(checkpoint: Checkpoint, folder: Path) -> None:
    """Write our folder, the weights in the type that they have."""
    save_tensors(folder / "model.safetensors", checkpoint.tensors, {"format": "pt"})
    if checkpoint.vocab is not None:
        write_vocab(folder / "vocab.txt", checkpoint.vocab)
    if checkpoint.characters is not None:
        write_json(folder / "characters.json", checkpoint.characters)
    if checkpoint.words is not None:
        write_json(folder / "words.json", checkpoint.words)
    config = {"format_version": FORMAT_VERSION, **checkpoint.config.to_dict()}
    write_json(folder / "config.json", config)


def _read_dictionary(path: Path) -> dict[str, int]:
    dictionary = read_json(path)
    for entry, row in dictionary.items():
        if type(row) is not int:
            raise FormatError(f"{path}: {quoted(entry)} has {quoted(row)}, expected a whole number")
    return dictionary


ELMOKIT = Format(
    name="elmokit",
    label="elmokit folder",
    layout="config.json + model.safetensors",
    weights=("model.safetensors",),
    settings="config.json",
    marks=(),  # a config.json that says its format_version; other libraries have one, too
    anchor="model.safetensors",
    files=("*.json", "*.safetensors", "*.txt"),
    holds=frozenset({"mixes", "softmax", "float16"}),
    read=read_folder,
    write=write_folder,
    aliases=("native",),
)
