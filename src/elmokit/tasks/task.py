"""What a task is to the trainer, the run folder and the command line."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from torch import Tensor, nn

from ..text.reader import Reader
from .batch import TokenBatch
from .config import TaskConfig
from .embedding import TaskEmbedding

Example: TypeAlias = Any
"""What a task learns from, such as a `TaggedSentence`; each task knows its own."""

Facts: TypeAlias = dict[str, Any]
"""What a model must know from its training data beside weights, such as its labels: JSON data."""

Read: TypeAlias = Callable[[Sequence[Sequence[str]]], TokenBatch]
"""Sentences → what a model reads."""

Metrics: TypeAlias = dict[str, Any]
"""Scores by name: JSON data."""


class TaskModel(nn.Module):
    """A model that learns from examples, whatever they are."""

    embedding: TaskEmbedding

    def loss(self, examples: Sequence[Example], read: Read) -> Tensor:
        """The mean loss of a batch, without the penalty of the mixes."""
        raise NotImplementedError

    def predict(self, examples: Sequence[Example], read: Read) -> list[Any]:
        """What the model says about each example, whose labels it does not look at."""
        raise NotImplementedError


class Task(Protocol):
    """How a task reads its files, makes its model and is scored.

    Attributes:
        name: What the command line calls it.
        metric: The score that decides which epoch is the best, a key of `score`; more is better.
        config_class: Its configuration.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    config_class: ClassVar[type[TaskConfig]]

    def read(
        self, path: Path, config: TaskConfig, reader: Reader, *, is_training: bool
    ) -> list[Example]:
        """The examples of a file."""
        ...

    def example(self, line: str, reader: Reader, config: TaskConfig) -> Example:
        """A line of text as an example without a label.

        Args:
            line: The text, or a JSON object with the fields that the training data has.
            reader: Text to tokens.
            config: The settings of the run, which may name those fields.
        """
        ...

    def sentences(self, example: Example) -> list[Sequence[str]]:
        """The sentences of an example, as the biLM reads them."""
        ...

    def facts(self, examples: Sequence[Example]) -> Facts:
        """What the model must know of the training data."""
        ...

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> TaskModel:
        """A new model."""
        ...

    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Metrics:
        """How good the predictions are."""
        ...

    def row(self, example: Example, prediction: Any) -> dict[str, Any]:
        """A prediction as JSON data."""
        ...

    def text(self, example: Example, prediction: Any) -> str:
        """A prediction for people and for other programs of the field."""
        ...
