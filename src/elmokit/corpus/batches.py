"""Batches of whole sentences of equal length: no padding, the same words in both directions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .corpus import BOS_ID, EOS_ID, Sentences


class Batch(NamedTuple):
    """What each direction reads and predicts, (2, T, B) word ids, in its own order of time."""

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def num_tokens(self) -> int:
        """Words that each direction predicts."""
        return int(self.targets[0].size)

    def rows(self, part: slice) -> "Batch":
        """Some of the sentences or lanes."""
        return Batch(self.inputs[:, :, part], self.targets[:, :, part])


class SentenceBatches:
    """All sentences of a text in a new order every epoch, in batches of one length each.

    The order depends on the seed and the number of the epoch alone, so (epoch, batch) is a place
    to continue from.

    Args:
        sentences: The text.
        batch_tokens: Tokens of a batch, about.
        max_length: Words of a sentence; what is longer is cut into pieces.
        seed: Another seed, another order.
    """

    def __init__(
        self, sentences: Sentences, batch_tokens: int, max_length: int, seed: int | None
    ) -> None:
        self.tokens = sentences.tokens
        self.seed = seed
        self.starts, self.lengths = _pieces(sentences, max_length)
        self.sizes = np.maximum(1, batch_tokens // (np.arange(max_length + 1) + 1))
        self._plan: tuple[int, list[NDArray[np.int64]]] = (-1, [])

    @property
    def num_targets(self) -> int:
        """Words that each direction predicts in an epoch, sentence ends included."""
        return int(self.lengths.sum()) + len(self.lengths)

    def epoch(self, number: int) -> list[NDArray[np.int64]]:
        """The sentences of every batch of an epoch; without a seed, from short to long."""
        if self._plan[0] != number:
            self._plan = (number, self._make_plan(number))
        return self._plan[1]

    def sentences(self, rows: NDArray[np.int64]) -> NDArray[np.integer]:
        """The words of some sentences of one length, (sentences, words)."""
        length = int(self.lengths[rows[0]])
        words: NDArray[np.integer] = self.tokens[self.starts[rows][:, None] + np.arange(length)]
        return words

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The batch of some sentences of one length."""
        sentences = self.sentences(rows)
        words = np.empty((sentences.shape[1] + 2, len(rows)), dtype=np.int64)
        words[0], words[-1] = BOS_ID, EOS_ID
        words[1:-1] = sentences.T
        return Batch(np.stack([words[:-1], words[:0:-1]]), np.stack([words[1:], words[-2::-1]]))

    def _make_plan(self, number: int) -> list[NDArray[np.int64]]:
        order = np.arange(len(self.lengths))
        generator = np.random.default_rng([self.seed or 0, number])
        if self.seed is not None:
            order = generator.permutation(order)
        order = order[np.argsort(self.lengths[order], kind="stable")]
        lengths, firsts = np.unique(self.lengths[order], return_index=True)
        batches = [
            group[i : i + size]
            for group, size in zip(np.split(order, firsts[1:]), self.sizes[lengths], strict=True)
            for i in range(0, len(group), size)
        ]
        if self.seed is None:
            return batches
        return [batches[i] for i in generator.permutation(len(batches))]


def _pieces(sentences: Sentences, max_length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the sentences start, and their lengths, after long ones have been cut."""
    lengths = np.asarray(sentences.lengths)
    counts = np.maximum(1, -(-lengths // max_length))
    of = np.repeat(np.arange(len(lengths)), counts)
    before = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.asarray(sentences.offsets)[of] + before * max_length
    return starts, np.minimum(max_length, lengths[of] - before * max_length)
