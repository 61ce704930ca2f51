"""Counting over all blocks: which text is held out, and how often each word occurs."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .block import Block
from .corpus import SPECIAL_WORDS

MAX_VALID_TOKENS = 200_000
"""More held-out text than this would only cost time: perplexity is then good to a percent."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What the blocks hold together.

    Attributes:
        words: Every distinct word: the special ones, then by falling count, then by spelling.
        counts: How often each stands in the training text.
        held_out: Sorted hashes of the units that are held out.
        num_sentences: Sentences of the inputs, with those held out.
    """

    words: list[str]
    counts: NDArray[np.int64]
    held_out: NDArray[np.uint64]
    num_sentences: int
    num_tokens: int
    num_lines: int
    num_empty: int
    num_cut: int
    num_duplicated: int
    """Units that repeat an earlier one of the training text."""
    num_leaked: int
    """Units of a held-out file that the training text has too."""


def held_out(hashes: NDArray[np.uint64], lengths: NDArray[np.int64], fraction: float) -> (
    NDArray[np.uint64]
):  # fmt: skip
    """The hashes of the units to hold out: the lowest ones, up to a share of all tokens.

    Equal units have equal hashes, so none is both trained on and held out. A unit repeated so
    often that it would be a tenth of the held-out text or more is left to the training text.
    """
    distinct, inverse = np.unique(hashes, return_inverse=True)
    sizes = np.bincount(inverse, weights=lengths, minlength=len(distinct)).astype(np.int64)
    wanted = min(MAX_VALID_TOKENS, fraction * sizes.sum())
    if wanted <= 0 or len(distinct) < 2:
        return distinct[:0]
    fits = np.flatnonzero(sizes <= max(wanted / 10, np.median(sizes)))
    num_taken = 1 + int(np.searchsorted(np.cumsum(sizes[fits]), wanted))
    return distinct[fits[: min(num_taken, len(distinct) - 1)]]


def count(train: Sequence[Path], valid: Sequence[Path], fraction: float) -> Totals:
    """Read all blocks and count; `valid` are those of text that is held out as a whole."""
    hashes, lengths = _units(train)
    chosen = held_out(hashes, lengths, 0.0 if valid else fraction)
    words = _WordCounts()
    numbers = np.zeros(5, dtype=np.int64)
    for path in train:
        block = Block.load(path)
        words.add(block.words, block.tokens[~block.tokens_in(chosen)])
        numbers += (
            len(block.lengths), len(block.tokens), block.num_lines, block.num_empty, block.num_cut,
        )  # fmt: skip
    for path in valid:
        block = Block.load(path)
        words.add(block.words, block.tokens[:0])
    num_sentences, num_tokens, num_lines, num_empty, num_cut = numbers.tolist()
    return Totals(
        *words.sorted(),
        held_out=chosen,
        num_sentences=num_sentences,
        num_tokens=num_tokens,
        num_lines=num_lines,
        num_empty=num_empty,
        num_cut=num_cut,
        num_duplicated=len(hashes) - len(np.unique(hashes)),
        num_leaked=int(np.isin(_units(valid)[0], hashes).sum()),
    )


class _WordCounts:
    """Words in the order of their first appearance, and their counts."""

    def __init__(self) -> None:
        self._ids: defaultdict[str, int] = defaultdict()
        self._ids.default_factory = self._ids.__len__
        self._counts = np.zeros(1 << 16, dtype=np.int64)
        self.add(SPECIAL_WORDS, np.zeros(0, dtype=np.int32))

    def add(self, words: Sequence[str], tokens: NDArray[np.int32]) -> None:
        """Count tokens, which are places in `words`."""
        places = np.fromiter(map(self._ids.__getitem__, words), np.int64, len(words))
        missing = len(self._ids) - len(self._counts)
        if missing > 0:
            self._counts = np.pad(self._counts, (0, missing + len(self._counts)))
        self._counts[places] += np.bincount(tokens, minlength=len(words))

    def sorted(self) -> tuple[list[str], NDArray[np.int64]]:
        """The special words, then all others by falling count and by spelling."""
        words, counts = list(self._ids), self._counts.tolist()
        first = len(SPECIAL_WORDS)
        rest = sorted(range(first, len(words)), key=lambda i: (-counts[i], words[i]))
        order = [*range(first), *rest]
        return [words[i] for i in order], self._counts[order]


def _units(paths: Sequence[Path]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hash and the tokens of every unit."""
    hashes = [np.zeros(0, dtype=np.uint64)]
    lengths = [np.zeros(0, dtype=np.int64)]
    for path in paths:
        block = Block.load(path)
        hashes.append(block.hashes)
        lengths.append(block.unit_lengths())
    return np.concatenate(hashes), np.concatenate(lengths)
