"""The batches that a training run reads, in an endless stream that it can resume.

A batch holds whole sentences of equal length, without padding and with the same words in both
directions; or windows of lanes, as in bilm-tf.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..text.batch import OrderedLanes
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

    The order depends on the seed and the number of the epoch alone, so (epoch, batch) is a
    cursor to continue from. A batch has about `batch_tokens` tokens; a sentence of more than
    `max_length` words is cut into pieces.
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


class Stream(Protocol):
    """Batches without end, epoch after epoch."""

    carries: bool
    """Whether a row of a batch continues that row of the batch before."""

    def next(self) -> Batch:
        """The next batch."""

    @property
    def epochs(self) -> float:
        """Passes over the text so far."""

    def cursor(self) -> dict[str, Any]:
        """Where the stream is, as JSON data."""

    def restore(self, cursor: dict[str, Any]) -> None:
        """Continue from a `cursor` of a stream of the same text and settings."""


class SentenceStream(Stream):
    """Whole sentences of equal length, each from the beginning."""

    carries = False

    def __init__(self, batches: SentenceBatches) -> None:
        self.batches = batches
        self.epoch = self.batch = 0

    def next(self) -> Batch:
        plan = self.batches.epoch(self.epoch)
        rows = plan[self.batch]
        self.batch += 1
        if self.batch == len(plan):
            self.epoch, self.batch = self.epoch + 1, 0
        return self.batches.batch(rows)

    @property
    def epochs(self) -> float:
        return self.epoch + self.batch / len(self.batches.epoch(self.epoch))

    def cursor(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "batch": self.batch}

    def restore(self, cursor: dict[str, Any]) -> None:
        self.epoch, self.batch = cursor["epoch"], cursor["batch"]


class LaneStream(Stream):
    """bilm-tf's reading: the text in lanes, some steps at a time, with states carried on."""

    carries = True

    def __init__(self, sentences: Sentences, num_lanes: int, num_steps: int, seed: int) -> None:
        self.sentences = _WithBoundaries(sentences)
        self.num_lanes, self.num_steps, self.seed = num_lanes, num_steps, seed
        if len(sentences.tokens) + len(sentences) < 2 * num_lanes * num_steps:
            raise ConfigError(
                f"{num_lanes} lanes of {num_steps} tokens are too many for a text of "
                f"{len(sentences.tokens):,} tokens; set data.lanes lower, or read sentences"
            )
        self._start(0)

    def next(self) -> Batch:
        windows = [next(lanes, None) for lanes in self.lanes]
        if windows[0] is None or windows[1] is None:
            self._start(self.epoch + 1)
            return self.next()
        inputs = np.stack([window.inputs.T for window in windows if window])
        targets = np.stack([window.targets.T for window in windows if window])
        return Batch(inputs.astype(np.int64), targets.astype(np.int64))

    @property
    def epochs(self) -> float:
        return self.epoch + self.lanes[0].num_taken / len(self.sentences)

    def cursor(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "lanes": [lanes.state() for lanes in self.lanes]}

    def restore(self, cursor: dict[str, Any]) -> None:
        self._start(cursor["epoch"])
        for lanes, state in zip(self.lanes, cursor["lanes"], strict=True):
            lanes.restore(state)

    def _start(self, epoch: int) -> None:
        self.epoch = epoch
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.sentences))
        self.lanes = [
            OrderedLanes(self.sentences, order, self.num_lanes, self.num_steps, backward=backward)
            for backward in (False, True)
        ]


class _WithBoundaries:
    """Sentences between their boundary words."""

    def __init__(self, sentences: Sentences) -> None:
        self.sentences = sentences

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        return np.concatenate([[BOS_ID], self.sentences[i], [EOS_ID]])
