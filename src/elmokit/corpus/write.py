"""Blocks and counts → the files of a corpus."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..text.ids import ByteCharacters
from .block import Block
from .corpus import UNK_ID
from .count import Selected, Totals

_WORDS_AT_A_TIME = 1 << 16


@dataclass(frozen=True, slots=True)
class Part:
    """The training or the held-out text, as it was written.

    Attributes:
        counts: How often each word stands in it.
    """

    num_sentences: int
    num_tokens: int
    counts: NDArray[np.int64]


class CorpusWriter:
    """Writes the arrays and word lists of a corpus into a folder, and hashes what it writes.

    Args:
        folder: An empty folder.
        totals: The words of the corpus.
        vocab_size: How many of them the softmax predicts.
        max_characters: Width of a row of character ids.
    """

    def __init__(
        self, folder: Path, totals: Totals, *, vocab_size: int, max_characters: int
    ) -> None:
        self.folder = folder
        self._totals = totals
        self._ids = {word: i for i, word in enumerate(totals.words)}
        self._sha = hashlib.sha256()
        self._write_words("words.txt", totals.words)
        self._write_words("vocab.txt", totals.words[:vocab_size])
        self._write_array("counts", np.int64, (len(totals.words),), [totals.counts])
        shape = (len(totals.words), max_characters)
        self._write_array("characters", np.uint16, shape, self._characters(max_characters))

    @property
    def fingerprint(self) -> str:
        """Hash of everything that was written."""
        return self._sha.hexdigest()

    def write_part(self, name: str, blocks: Sequence[Selected]) -> Part:
        """Write the sentences of one part, `train` or `valid`.

        What occurs several times in a block is written after all of the block.
        """
        lengths = [np.zeros(0, dtype=np.int32)]
        for path, copies in blocks:
            block = Block.load(path)
            lengths += (block.lengths[block.by_sentence(units)] for units in _rounds(copies))
        ends = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        counts = np.zeros(len(self._ids), dtype=np.int64)
        tokens = self._tokens(blocks, counts)
        self._write_array(f"{name}.tokens", np.int32, (int(offsets[-1]),), tokens)
        self._write_array(f"{name}.offsets", np.int64, offsets.shape, [offsets])
        return Part(len(offsets) - 1, int(offsets[-1]), counts)

    def _tokens(
        self, blocks: Sequence[Selected], counts: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int32]]:
        for path, copies in blocks:
            block = Block.load(path)
            # Words of units that are left out may have no id; no token here is one of them.
            ids = np.fromiter((self._ids.get(w, UNK_ID) for w in block.words), np.int32)
            for units in _rounds(copies):
                tokens = ids[block.tokens[block.by_token(units)]]
                counts += np.bincount(tokens, minlength=len(counts))
                yield tokens

    def _characters(self, max_characters: int) -> Iterator[NDArray[np.uint16]]:
        scheme = ByteCharacters(max_characters)
        words = self._totals.words
        for start in range(0, len(words), _WORDS_AT_A_TIME):
            yield scheme.encode(words[start : start + _WORDS_AT_A_TIME]).astype(np.uint16)

    def _write_words(self, name: str, words: Iterable[str]) -> None:
        data = "".join(f"{word}\n" for word in words).encode()
        self._sha.update(data)
        (self.folder / name).write_bytes(data)

    def _write_array(
        self, name: str, dtype: DTypeLike, shape: tuple[int, ...], parts: Iterable[NDArray[Any]]
    ) -> None:
        """Write a .npy file of any size, part by part."""
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        with (self.folder / f"{name}.npy").open("wb") as file:
            np.lib.format.write_array_header_2_0(file, header)
            for part in parts:
                data = np.ascontiguousarray(part, dtype=dtype)
                file.write(data.data)
                self._sha.update(data.data)


def _rounds(copies: NDArray[np.uint8]) -> Iterator[NDArray[np.bool_]]:
    """The units that occur once or more, then those that occur twice or more, and so on."""
    return (copies > number for number in range(int(copies.max(initial=0))))
