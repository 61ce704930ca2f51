"""Blocks and counts → the files of a corpus."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..text.chars import ByteCharacters
from .block import Block
from .count import Totals

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

    def write_part(self, name: str, blocks: Sequence[Path], *, held_out: bool) -> Part:
        """Write the sentences of one part.

        Args:
            name: `train` or `valid`.
            blocks: Where the sentences are.
            held_out: Whether it is those that the counting held out, or all others.
        """
        lengths = [np.zeros(0, dtype=np.int32)]
        for path in blocks:
            block = Block.load(path)
            lengths.append(block.lengths[block.sentences_in(self._totals.held_out) == held_out])
        ends = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        counts = np.zeros(len(self._ids), dtype=np.int64)
        tokens = self._tokens(blocks, held_out, counts)
        self._write_array(f"{name}.tokens", np.int32, (int(offsets[-1]),), tokens)
        self._write_array(f"{name}.offsets", np.int64, offsets.shape, [offsets])
        return Part(len(offsets) - 1, int(offsets[-1]), counts)

    def _tokens(
        self, blocks: Sequence[Path], held_out: bool, counts: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int32]]:
        for path in blocks:
            block = Block.load(path)
            ids = np.fromiter(map(self._ids.__getitem__, block.words), np.int32, len(block.words))
            kept = block.tokens[block.tokens_in(self._totals.held_out) == held_out]
            counts[ids] += np.bincount(kept, minlength=len(ids))
            yield ids[kept]

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
