"""The official pair: `options.json` and an HDF5 file of weights (bilm-tf, AllenNLP)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
from torch import Tensor

from ..config import ElmoConfig, EncoderConfig
from ..errors import FileError, FormatError
from ..text.vocab import Vocab
from .bilm_tf import config_from_options, official_name, options_from_config, rules, softmax_rules
from .checkpoint import Checkpoint, expected_tensors
from .files import read_json, read_lines, write_json
from .names import to_ours, to_theirs

WEIGHTS, SOFTMAX, TOKENS, OTHER = "weights", "softmax", "token embeddings", "other"


def kind_of_hdf5(path: Path) -> str:
    """What an HDF5 file holds, by its content."""
    with open_hdf5(path) as file:
        if "RNN_0" in file:
            return WEIGHTS
        if "softmax" in file:
            return SOFTMAX
        return TOKENS if "embedding" in file else OTHER


def read_official(
    options: Path,
    weights: Path,
    *,
    vocab: Path | None = None,
    softmax: Path | None = None,
    token_embeddings: Path | None = None,
) -> Checkpoint:
    """The model of an official pair.

    Args:
        options: The `options.json`.
        weights: The HDF5 file of weights.
        vocab: Words, one a line: of the softmax, or of the cached token embeddings.
        softmax: The HDF5 file of softmax weights.
        token_embeddings: A cached table of token vectors to use instead of the characters; a
            word outside of it gets the vector of `<UNK>`, as in bilm-tf.
    """
    config = config_from_options(read_json(options), str(options))
    words = _read_vocab(vocab) if vocab else None
    table: dict[str, Tensor] = {}
    if token_embeddings is not None:
        if words is None:
            raise FileError(f"{token_embeddings}: cached token embeddings need their vocabulary")
        config, table = _read_token_table(config, token_embeddings, words)
    with open_hdf5(weights) as file:
        source = {official_name(name): dataset for name, dataset in _datasets(file, weights)}
        expected = expected_tensors(config)
        weight_rules = [rule for rule in rules(config) if rule.ours[0] not in table]
        tensors = to_ours(weight_rules, source, expected, str(weights)) | table
    checkpoint = Checkpoint(config=config, tensors=tensors, format="official HDF5 pair")
    if token_embeddings is not None and words is not None:
        checkpoint.format += " with cached token embeddings"
        checkpoint.words = {word: i for i, word in enumerate(words)}
    elif softmax is not None and words is not None:
        with open_hdf5(softmax) as file:
            add_softmax(checkpoint, dict(_datasets(file, softmax)), words, str(softmax))
    return checkpoint


def write_official(
    checkpoint: Checkpoint, folder: Path, weights_name: str = "weights.hdf5"
) -> None:
    """Write `options.json` and the HDF5 weights (and the softmax, where there is one)."""
    options = options_from_config(checkpoint.config, num_characters=262)
    _write_hdf5(folder / weights_name, to_theirs(rules(checkpoint.config), checkpoint.tensors))
    if checkpoint.vocab is not None:
        softmax = to_theirs(softmax_rules(), checkpoint.tensors)
        _write_hdf5(folder / "softmax_weights.hdf5", softmax)
        write_vocab(folder / "vocab.txt", checkpoint.vocab)
    write_json(folder / "options.json", options)


def write_token_embeddings(path: Path, vectors: np.ndarray) -> None:
    """Write a cached token-embedding file: one row of `vectors` a word of its vocabulary."""
    with h5py.File(path, "w") as file:
        file["embedding"] = np.ascontiguousarray(vectors, dtype=np.float32)


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
    """Write one word a line."""
    path.write_text("".join(f"{word}\n" for word in vocab), encoding="utf-8", newline="\n")


def _read_vocab(path: Path) -> Vocab:
    return Vocab.read(read_lines(path), str(path))


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
        return config, to_ours(table_rules, dict(_datasets(file, path)), expected, str(path))


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file to read; one that is missing or broken is an error that says so."""
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        file = h5py.File(path, "r")
    except OSError as e:
        raise FormatError(f"{path} is not a readable HDF5 file ({e}); download it again") from e
    with file:
        yield file


def _datasets(
    group: h5py.Group, path: Path, prefix: str = ""
) -> Iterator[tuple[str, h5py.Dataset]]:
    """All datasets below `group`; links that lead out of the file or in circles are refused."""
    try:
        names = list(group)
    except (RuntimeError, OSError) as e:
        raise FormatError(f"{path}: {prefix or '/'} cannot be read ({e}); download it again") from e
    for name in names:
        full = f"{prefix}{name}"
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FormatError(f"{path}: {full} is a link; the weights must be in the file itself")
        try:
            item = group[name]
        except (KeyError, OSError, RuntimeError) as e:
            raise FormatError(f"{path}: {full} cannot be read ({e}); download it again") from e
        if isinstance(item, h5py.Dataset):
            if item.external:
                raise FormatError(f"{path}: {full} points to another file; it must hold its data")
            yield full, item
        elif full.count("/") < 8:  # deeper than any model; hard links can make a cycle
            yield from _datasets(item, path, f"{full}/")


def _write_hdf5(path: Path, tensors: Mapping[str, Tensor]) -> None:
    with h5py.File(path, "w") as file:
        for name, tensor in tensors.items():
            file[name] = tensor.float().numpy()
