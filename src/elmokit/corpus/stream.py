"""The endless series of batches that a training run reads, with a place to continue from."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..text.lanes import OrderedLanes
from .batches import Batch, SentenceBatches
from .corpus import BOS_ID, EOS_ID, Sentences


class Stream(Protocol):
    """Batches without end, epoch after epoch."""

    carries: bool
    """Whether a row of a batch continues that row of the batch before."""

    def next(self) -> Batch:
        """The next batch."""
        ...

    @property
    def epochs(self) -> float:
        """Passes over the text so far."""
        ...

    def place(self) -> dict[str, Any]:
        """Where the stream is, as JSON data."""
        ...

    def restore(self, place: dict[str, Any]) -> None:
        """Continue from a `place` of a stream of the same text and settings."""
        ...


class SentenceStream:
    """Whole sentences of equal length, each from the beginning."""

    carries = False

    def __init__(self, batches: SentenceBatches) -> None:
        self.batches = batches
        self.epoch = self.batch = 0

    def next(self) -> Batch:
        """The next batch."""
        plan = self.batches.epoch(self.epoch)
        rows = plan[self.batch]
        self.batch += 1
        if self.batch == len(plan):
            self.epoch, self.batch = self.epoch + 1, 0
        return self.batches.batch(rows)

    @property
    def epochs(self) -> float:
        """Passes over the text so far."""
        return self.epoch + self.batch / len(self.batches.epoch(self.epoch))

    def place(self) -> dict[str, Any]:
        """The epoch and the batch in it."""
        return {"epoch": self.epoch, "batch": self.batch}

    def restore(self, place: dict[str, Any]) -> None:
        """Continue from there."""
        self.epoch, self.batch = place["epoch"], place["batch"]


class LaneStream:
    """bilm-tf's reading: the text in lanes, some steps at a time, with states carried on.

    Args:
        sentences: The text.
        num_lanes: Rows that are read side by side.
        num_steps: Tokens of each row in a batch.
        seed: Another seed, another order of the sentences.
    """

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
        """The next batch."""
        windows = [next(lanes, None) for lanes in self.lanes]
        if windows[0] is None or windows[1] is None:
            self._start(self.epoch + 1)
            return self.next()
        inputs = np.stack([window.inputs.T for window in windows if window])
        targets = np.stack([window.targets.T for window in windows if window])
        return Batch(inputs.astype(np.int64), targets.astype(np.int64))

    @property
    def epochs(self) -> float:
        """Passes over the text so far."""
        return self.epoch + self.lanes[0].num_taken / len(self.sentences)

    def place(self) -> dict[str, Any]:
        """The epoch and the sentence in each lane."""
        return {"epoch": self.epoch, "lanes": [lanes.state() for lanes in self.lanes]}

    def restore(self, place: dict[str, Any]) -> None:
        """Continue from there."""
        self._start(place["epoch"])
        for lanes, state in zip(self.lanes, place["lanes"], strict=True):
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
