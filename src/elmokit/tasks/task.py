"""What a task is: how its files are read, which model it has, how that is scored.

A task of your own subclasses `Task` and `TaskModel`; `examples/pos_tagger.py` is a whole one.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from ..errors import ConfigError, FormatError
from ..text.reader import Reader
from .config import TaskConfig
from .parts.bilm import LayerSource
from .parts.embedding import TaskEmbedding
from .parts.words import TokenBatch, WordTable

log = logging.getLogger(__name__)

ConfigT = TypeVar("ConfigT", bound=TaskConfig)
ExampleT = TypeVar("ExampleT")
PredictionT = TypeVar("PredictionT")

LabelSets: TypeAlias = dict[str, list[str]]
"""What a model must know of its training data besides weights, such as its labels."""

Read: TypeAlias = Callable[[Sequence[Sequence[str]]], TokenBatch]
"""Sentences → what a model reads."""

Scores: TypeAlias = dict[str, Any]
"""Scores by name: JSON data."""


class TaskModel(nn.Module, Generic[ExampleT, PredictionT]):
    """A model that learns from examples and predicts."""

    embedding: TaskEmbedding

    def loss(self, examples: Sequence[ExampleT], read: Read) -> Tensor:
        """The mean loss of a batch, without the penalty of the mixes."""
        raise NotImplementedError

    def predict(self, examples: Sequence[ExampleT], read: Read) -> list[PredictionT]:
        """A prediction for each example, whose labels the model does not look at."""
        raise NotImplementedError


class Task(ABC, Generic[ConfigT, ExampleT, PredictionT]):
    """How a task reads its files, makes its model and is scored.

    Attributes:
        name: What the command line and `task.json` call it.
        metric: The score that decides which epoch is the best, a key of `score`; more is better.
        config_class: Its configuration.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    config_class: type[ConfigT]

    @abstractmethod
    def read(
        self, path: Path, config: ConfigT, reader: Reader, *, is_training: bool
    ) -> list[ExampleT]:
        """The examples of a file."""

    @abstractmethod
    def example(self, line: str, reader: Reader, config: ConfigT) -> ExampleT:
        """A line of text as an example without a label.

        Args:
            line: The text, or a JSON object with the fields that the training data has.
            reader: Text to tokens.
            config: The settings of the run, which may name those fields.
        """

    @abstractmethod
    def sentences(self, example: ExampleT) -> list[Sequence[str]]:
        """The sentences of an example, as the biLM reads them."""

    def label_sets(self, examples: Sequence[ExampleT]) -> LabelSets:
        """What the model must know of the training data; by default nothing."""
        return {}

    @abstractmethod
    def model(
        self, config: ConfigT, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> TaskModel[ExampleT, PredictionT]:
        """A new model."""

    @abstractmethod
    def score(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> Scores:
        """How good the predictions are."""

    @abstractmethod
    def as_json(self, example: ExampleT, prediction: PredictionT) -> dict[str, Any]:
        """A prediction as JSON data."""

    def as_text(self, example: ExampleT, prediction: PredictionT) -> str:
        """A prediction for people and for other programs of the field; by default its JSON."""
        return json.dumps(self.as_json(example, prediction), ensure_ascii=False)

    def has_words(self, example: ExampleT) -> bool:
        """Whether no sentence of an example is empty."""
        return all(map(len, self.sentences(example)))

    def num_tokens(self, example: ExampleT) -> int:
        """The tokens of all sentences of an example."""
        return sum(map(len, self.sentences(example)))


AnyTask: TypeAlias = Task[Any, Any, Any]
"""A task that is known only by its name."""


def new_model(
    task: Task[ConfigT, ExampleT, PredictionT],
    config: ConfigT,
    label_sets: LabelSets,
    table: WordTable | None,
    layers: LayerSource | None,
    seed: int,
) -> TaskModel[ExampleT, PredictionT]:
    """A model with random weights, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        dims = (0, 0) if layers is None else (layers.num_layers, layers.dim)
        embedding = TaskEmbedding(config.elmo, config.words, table, *dims)
        if not embedding.dim:
            raise ConfigError(
                "the model reads nothing: expected ELMo at the input, static vectors, "
                "words.dim or words.char_filters above 0"
            )
        return task.model(config, label_sets, embedding)


def warn_of_unknown_labels(
    task: Task[ConfigT, ExampleT, PredictionT],
    label_sets: LabelSets,
    examples: Sequence[ExampleT],
    path: Path,
) -> None:
    """Say which labels of the examples at `path` the model has never seen: it cannot be right."""
    try:
        found = task.label_sets(examples)
    except FormatError:  # too few to learn from, but not to score
        return
    for name, known in label_sets.items():
        unknown = [label for label in found.get(name, ()) if label not in known]
        if unknown:
            log.warning(
                "%s: labels that were never learned: %.120s (the model knows %.120s)",
                *(path, ", ".join(unknown), ", ".join(known)),
            )
