"""Sentences → batches: every distinct word once, boundaries added, lengths bounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Sentences with their boundary tokens, as positions in a list of distinct words.

    Attributes:
        words: The distinct words, boundaries included.
        index: For every token of every sentence in turn, its place in `words`.
        lengths: Tokens of each sentence, the two boundaries included.
    """

    words: list[str]
    index: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], bos: str, eos: str) -> "WordBatch":
        """The batch of tokenised `sentences`, each put between `bos` and `eos`."""
        places: dict[str, int] = {bos: 0, eos: 1}
        index: list[int] = []
        for sentence in sentences:
            index.append(0)
            index.extend(places.setdefault(word, len(places)) for word in sentence)
            index.append(1)
        lengths = np.array([len(s) + 2 for s in sentences], dtype=np.int64)
        return cls(list(places), np.array(index, dtype=np.int64), lengths)


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
