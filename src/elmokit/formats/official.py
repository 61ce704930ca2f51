"""The official pair: `options.json` and an HDF5 file of weights (bilm-tf, AllenNLP)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
from torch import Tensor

from ..config import ElmoConfig, EncoderConfig
from ..errors import FileError
from ..files.folders import check_whole
from ..files.hdf5 import datasets, open_hdf5, read_errors
from ..files.read import is_there, list_folder, read_json, read_words
from ..files.write import check_space, new_hdf5, write_json
from ..text.ids import Vocab
from .bilm_tf import config_from_options, official_name, options_from_config, rules, softmax_rules
from .checkpoint import Checkpoint, Format, expected_tensors, to_ours, to_theirs

WEIGHTS, SOFTMAX, TOKENS, OTHER = "weights", "softmax", "token embeddings", "other"

_NEW_WEIGHTS = "weights.hdf5"


def hdf5_files(folder: Path, *suffixes: str) -> list[Path]:
    """The files of a folder whose names end so."""
    return [path for path in list_folder(folder) if path.suffix in suffixes]


def kind_of_hdf5(path: Path) -> str:
    """What an HDF5 file holds, by its content."""
    with open_hdf5(path) as file, read_errors(path):
        names = set(file)  # by name alone: to ask for an item would follow a link
    if "RNN_0" in names:
        return WEIGHTS
    if "softmax" in names:
        return SOFTMAX
    return TOKENS if "embedding" in names else OTHER


def read_official(
    options: Path,
    weights: Path,
    *,
    vocab: Path | None = None,
    softmax: Path | None = None,
    token_embeddings: Path | None = None,
) -> Checkpoint:
    """The model of an official pair.

    `vocab` has the words of the softmax, or those of `token_embeddings`: a cached table of token
    vectors to use instead of the characters. A word outside of it gets the vector of `<UNK>`, as in
    bilm-tf.
    """
    for folder in {options.parent, weights.parent}:
        check_whole(folder)
    config = config_from_options(read_json(options), str(options))
    words = Vocab.read(read_words(vocab), str(vocab)) if vocab else None
    if words is None and (table_of_words := token_embeddings or softmax):
        name = "cached token embeddings" if token_embeddings else "a softmax"
        raise FileError(f"{table_of_words}: {name} cannot be used without the words (vocab=)")
    table: dict[str, Tensor] = {}
    if token_embeddings is not None and words is not None:
        config, table = _read_token_table(config, token_embeddings, words)
    with open_hdf5(weights) as file:
        source = {official_name(name): data for name, data in datasets(file, weights).items()}
        expected = expected_tensors(config)
        weight_rules = [rule for rule in rules(config) if rule.ours[0] not in table]
        tensors = to_ours(weight_rules, source, expected, str(weights)) | table
    checkpoint = Checkpoint(config=config, tensors=tensors, format=OFFICIAL.label)
    if token_embeddings is not None and words is not None:
        checkpoint.format += " with cached token embeddings"
        checkpoint.words = {word: i for i, word in enumerate(words)}
    elif softmax is not None and words is not None:
        with open_hdf5(softmax) as file:
            add_softmax(checkpoint, datasets(file, softmax), words, str(softmax))
    return checkpoint


def read_official_folder(path: Path) -> Checkpoint:
    """The model of a folder that holds a pair, or of a pair whose file of weights is named."""
    folder, weights = (path, None) if path.is_dir() else (path.parent, path)
    kinds = {path: kind_of_hdf5(path) for path in hdf5_files(folder, ".hdf5")}
    if WEIGHTS not in kinds.values():  # `.h5` is the suffix of embeddings, but of some weights too
        kinds |= {path: kind_of_hdf5(path) for path in hdf5_files(folder, ".h5")}

    def only(what: str, found: list[Path]) -> Path:
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise FileError(
                f"{folder}: expected one {what}, found {names}; "
                "name both files: Elmo.from_files(options, weights)"
            )
        return found[0]

    def of_kind(kind: str) -> list[Path]:
        return [path for path in kinds if kinds[path] == kind]

    options = only("*options.json", sorted(folder.glob("*options.json")))
    weights = weights or only("HDF5 file of biLM weights", of_kind(WEIGHTS))
    vocabularies, softmax = sorted(folder.glob("*vocab*.txt")), of_kind(SOFTMAX)
    vocab = vocabularies[0] if len(vocabularies) == len(softmax) == 1 else None
    checkpoint = read_official(options, weights, vocab=vocab, softmax=softmax[0] if vocab else None)
    if of_kind(TOKENS):
        names = ", ".join(path.name for path in of_kind(TOKENS))
        checkpoint.notes.append(
            f"cached token embeddings ({names}) are there and not used; the character CNN gives "
            "the same vectors (or: Elmo.from_files(…, token_embeddings=, vocab=))"
        )
    return checkpoint


def write_official(checkpoint: Checkpoint, folder: Path) -> None:
    """Write `options.json` and the HDF5 weights (and the softmax, where there is one)."""
    options = options_from_config(checkpoint.config, num_characters=262)
    _write_hdf5(folder / _NEW_WEIGHTS, to_theirs(rules(checkpoint.config), checkpoint.tensors))
    if checkpoint.vocab is not None:
        softmax = to_theirs(softmax_rules(), checkpoint.tensors)
        _write_hdf5(folder / "softmax_weights.hdf5", softmax)
        write_vocab(folder / "vocab.txt", checkpoint.vocab)
    write_json(folder / "options.json", options)


def check_alone(folder: Path, weights: str | None) -> None:
    """Refuse a folder in which nobody could tell which weights belong to the options."""
    for path in hdf5_files(folder, ".hdf5", ".h5") if is_there(folder) else ():
        if path.name != weights and kind_of_hdf5(path) == WEIGHTS:
            raise FileError(f"{folder} holds another model, {path.name}; choose another folder")


def add_softmax(
    checkpoint: Checkpoint,
    source: Mapping[str, h5py.Dataset | np.ndarray],
    vocab: Vocab,
    where: str,
) -> None:
    """Give `checkpoint` the softmax that is in `source`."""
    checkpoint.config = replace(checkpoint.config, num_softmax_words=len(vocab))
    expected = expected_tensors(checkpoint.config)
    checkpoint.tensors |= to_ours(softmax_rules(), source, expected, where)
    checkpoint.vocab = vocab


def write_vocab(path: Path, vocab: Vocab) -> None:
    """Write one word per line."""
    path.write_text("".join(f"{word}\n" for word in vocab), encoding="utf-8", newline="\n")


def _read_token_table(
    config: ElmoConfig, path: Path, words: Vocab
) -> tuple[ElmoConfig, dict[str, Tensor]]:
    """The configuration and the tensor of an encoder that is a cached table of words."""
    encoder = EncoderConfig(
        char_cnn=None, num_words=len(words), word_dim=config.lstm.projection_dim, projected=False
    )
    config = replace(config, encoder=encoder)
    expected = expected_tensors(config)
    table_rules = rules(config)[:1]
    with open_hdf5(path) as file:
        return config, to_ours(table_rules, datasets(file, path), expected, str(path))


def _write_hdf5(path: Path, tensors: Mapping[str, Tensor]) -> None:
    check_space(path, sum(4 * tensor.numel() for tensor in tensors.values()))
    with new_hdf5(path) as (file, sink):
        for name, tensor in tensors.items():
            file[name] = tensor.float().numpy()
            sink.check()


OFFICIAL = Format(
    name="official",
    label="official HDF5 pair",
    layout="options.json + *.hdf5",
    weights=("*.hdf5", "*.h5"),
    settings="*options.json",
    marks=("*options.json", "*.hdf5"),
    anchor="*options.json",
    files=("*.json", "*.hdf5", "*.h5", "*.txt"),
    holds=frozenset({"softmax"}),
    read=read_official_folder,
    write=write_official,
    new_weights=_NEW_WEIGHTS,
)
