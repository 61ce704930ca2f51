"""Sentences → batches of bounded size: every distinct word once, boundaries added."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Sentences with their boundary tokens, as positions in a list of distinct words.

    Attributes:
        words: The distinct words, boundaries included.
        index: For every token of every sentence in turn, its position in `words`.
        lengths: Tokens of each sentence, the two boundaries included.
    """

    words: list[str]
    index: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], bos: str, eos: str) -> "WordBatch":
        """The batch of tokenised `sentences`, each put between `bos` and `eos`."""
        positions: dict[str, int] = {bos: 0, eos: 1}
        index: list[int] = []
        for sentence in sentences:
            index.append(0)
            index.extend(positions.setdefault(word, len(positions)) for word in sentence)
            index.append(1)
        lengths = np.array([len(s) + 2 for s in sentences], dtype=np.int64)
        return cls(list(positions), np.array(index, dtype=np.int64), lengths)


def batches(lengths: Sequence[int], max_sentences: int, max_tokens: int) -> Iterator[list[int]]:
    """Groups of sentence numbers, longest first, within both limits.

    A sentence longer than `max_tokens` is a group of its own.
    """
    group: list[int] = []
    num_tokens = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if group and (len(group) == max_sentences or num_tokens + lengths[i] > max_tokens):
            yield group
            group, num_tokens = [], 0
        group.append(i)
        num_tokens += lengths[i]
    if group:
        yield group


def grouped(
    items: Iterable[T], size: Callable[[T], int], *, max_items: int, max_size: float
) -> Iterator[list[T]]:
    """Lists of consecutive items, each closed when it reaches one of the limits.

    For everything that must not hold a whole text.

    >>> list(grouped(["a", "bcd", "e"], len, max_items=9, max_size=4))
    [['a', 'bcd'], ['e']]
    """
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += size(item)
        if len(group) == max_items or total >= max_size:
            yield group
            group, total = [], 0
    if group:
        yield group
