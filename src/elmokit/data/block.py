"""One block of text → word ids: what a worker does."""

import hashlib
import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from ..io.files import whole_file
from ..text.normalize import normalize
from ..text.tokenize import Tokenizer, load_tokenizer
from .sentences import SentenceMode, paragraphs, split_sentences


@dataclass(frozen=True, slots=True)
class Reading:
    """How text becomes sentences of words."""

    tokenizer: str
    normalization: str | None
    mode: SentenceMode
    max_length: int


@dataclass(frozen=True, slots=True)
class Block:
    """The sentences of a block of text, as places in a list of its distinct words.

    A unit is what the user wrote as one: a line, or a paragraph of hard-wrapped text. Those
    without words are left out and counted.
    """

    words: list[str]
    tokens: NDArray[np.int32]
    lengths: NDArray[np.int32]
    """Tokens of each sentence."""
    sentences: NDArray[np.int32]
    """Sentences of each unit."""
    hashes: NDArray[np.uint64]
    """Hash of the text of each unit."""
    num_lines: int
    num_empty: int
    num_cut: int

    def save(self, path: Path) -> None:
        """Write a file that is whole or not there."""
        numbers = np.array([self.num_lines, self.num_empty, self.num_cut], dtype=np.int64)
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file, words=words, tokens=self.tokens, lengths=self.lengths,
                sentences=self.sentences, hashes=self.hashes, numbers=numbers,
            )  # fmt: skip
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: Path) -> Self:
        """The block of a file that `save` wrote."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as block:
            text = block["words"].tobytes().decode()
            return cls(
                text.split("\n") if text else [],
                block["tokens"],
                block["lengths"],
                block["sentences"],
                block["hashes"],
                *block["numbers"].tolist(),
            )

    def unit_lengths(self) -> NDArray[np.int64]:
        """Tokens of each unit."""
        ends = np.cumsum(self.lengths, dtype=np.int64)[np.cumsum(self.sentences) - 1]
        return np.diff(ends, prepend=0)

    def sentences_in(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """For each sentence, whether it is of a unit with one of these hashes."""
        return np.repeat(np.isin(self.hashes, hashes), self.sentences)

    def tokens_in(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """The same for each token."""
        return np.repeat(self.sentences_in(hashes), self.lengths)


def process_block(data: bytes, reading: Reading, path: Path) -> int:
    """Read one block of text and write what it holds to `path`; returns its size in bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise FormatError(f"the input changed while it was read: not UTF-8 ({e.reason})") from e
    read_text(text, reading, _tokenizer(reading.tokenizer)).save(path)
    return len(data)


def read_text(text: str, reading: Reading, tokenizer: Tokenizer) -> Block:
    """The sentences of a text."""
    # Nothing composes with a newline, so the whole text can be normalised at once.
    lines = normalize(text.replace("\r\n", "\n"), reading.normalization).split("\n")
    if not lines[-1]:
        del lines[-1]
    index: defaultdict[str, int] = defaultdict()
    index.default_factory = index.__len__
    place = index.__getitem__
    tokens, lengths, counts, hashes = array("i"), array("i"), array("i"), array("Q")
    num_cut = 0
    for unit, sentences in _units(lines, reading.mode):
        before = len(lengths)
        for words in map(tokenizer.words, sentences):
            tokens.extend(map(place, words))
            pieces = cut(len(words), reading.max_length)
            num_cut += len(pieces) > 1
            lengths.extend(pieces)
        if len(lengths) > before:
            counts.append(len(lengths) - before)
            hashes.append(_hash(unit))
    num_empty = sum(not line.strip() for line in lines)
    return Block(
        list(index), _array(tokens, np.int32), _array(lengths, np.int32),
        _array(counts, np.int32), _array(hashes, np.uint64), len(lines), num_empty, num_cut,
    )  # fmt: skip


def cut(length: int, limit: int) -> list[int]:
    """The lengths of the fewest even pieces of a sentence, none longer than `limit`.

    >>> cut(10, 4), cut(4, 4), cut(0, 4)
    ([4, 3, 3], [4], [])
    """
    if length <= limit:
        return [length] if length else []
    num_pieces = -(-length // limit)
    shorter, num_longer = divmod(length, num_pieces)
    return [shorter + (i < num_longer) for i in range(num_pieces)]


def _units(lines: Sequence[str], mode: SentenceMode) -> Iterator[tuple[str, list[str]]]:
    """Each line or paragraph, with its sentences."""
    if mode == "lines":
        return ((line, [line]) for line in lines)
    split: Callable[[str], list[str]] = split_sentences
    return ((unit, split(unit)) for unit in (paragraphs(lines) if mode == "wrapped" else lines))


def _hash(unit: str) -> int:
    """A number that is the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(unit.strip().encode(), digest_size=8).digest(), "little")


def _array(values: "array[int]", dtype: type) -> NDArray[Any]:
    return np.frombuffer(values, dtype=dtype) if values else np.zeros(0, dtype=dtype)


@cache
def _tokenizer(name: str) -> Tokenizer:
    """The tokenizer of this process; making one may take seconds."""
    return load_tokenizer(name)
