"""What a task is: how its files are read, which model it has, how that is scored.

A task of your own subclasses `Task` and `TaskModel`; `examples/pos_tagger.py` is a whole one.
`LabelTask` and `LabelModel` do half of it for tasks that give each example one label.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from ..errors import ConfigError, FormatError, quoted
from ..nn.shapes import Float
from ..text.reader import Reader
from .config import TaskConfig
from .parts.bilm import LayerSource
from .parts.embedding import TaskEmbedding, TokenBatch, WordTable
from .parts.metrics import accuracy, confusion, precision_recall_f1
from .results import LabelResult, OtherResult, Result

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
    fits_at_once: ClassVar[bool] = False
    """Whether `fit` learns everything, in one epoch, and not the steps of an optimiser."""

    def fit(self, examples: Sequence[ExampleT], read: Read, seed: int) -> float:
        """Learn from all examples; the mean loss."""
        raise NotImplementedError

    def use(self) -> None:
        """Called once the trained model is loaded: from now on, predictions may take longer."""

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
        inputs: What it is asked about: a text, or two by their names.
        formats: The formats of its data that `predict` reads, with the endings of their files; a
            format without endings must be named.
        has_own_input: Whether its model reads something besides its `TaskEmbedding`.
        learned_files: The files that `learn` may give.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    config_class: type[ConfigT]
    inputs: ClassVar[tuple[str, ...]] = ("text",)
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {"data": ()}
    has_own_input: ClassVar[bool] = False
    learned_files: ClassVar[tuple[str, ...]] = ()

    def resolved(self, config: ConfigT) -> ConfigT:
        """The settings that a run has where these are asked for: those without effect are gone."""
        return config

    def advice(self, config: ConfigT, examples: Sequence[ExampleT]) -> str | None:
        """What else a person with these training examples may want to try."""
        return None

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

    def examples(self, line: str, reader: Reader, config: ConfigT) -> list[ExampleT]:
        """Everything that is asked about a line; by default the one example that it is."""
        return [self.example(line, reader, config)]

    def line(self, texts: Sequence[str], config: ConfigT) -> str:
        """The line that asks about these texts, one for each of `inputs`, taken literally."""
        if len(texts) == 1:
            return texts[0]
        return json.dumps(dict(zip(self.inputs, texts, strict=True)))

    def format_of(self, name: str) -> str:
        """The format that the suffix of a file says it has, one of `formats`; else text."""
        stem = name.lower()
        for ending in (".gz", ".xz", ".zst"):
            stem = stem.removesuffix(ending)
        found = [form for form, endings in self.formats.items() if stem.endswith(tuple(endings))]
        if len(found) > 1:
            raise ConfigError(
                f"{name}: the suffix fits several formats; choose one with --format: "
                f"{', '.join([*found, 'text'])}"
            )
        return found[0] if found else "text"

    def unlabelled(
        self, path: Path, form: str, config: ConfigT, reader: Reader
    ) -> list[list[ExampleT]]:
        """What is asked about each text of a data file, whose labels do not matter.

        Args:
            path: The file.
            form: Which of `formats` it has.
            config: The settings of the run.
            reader: Text to tokens.
        """
        whole = replace(config, held_out=0.0)
        return [[e] for e in self.read(path, whole, reader, is_training=False)]

    @abstractmethod
    def sentences(self, example: ExampleT) -> list[Sequence[str]]:
        """The sentences of an example, as the biLM reads them."""

    def label_sets(self, examples: Sequence[ExampleT]) -> LabelSets:
        """What the model must know of the training data; by default nothing."""
        return {}

    def learn(
        self, config: ConfigT, examples: Sequence[ExampleT], saved: Mapping[str, bytes]
    ) -> tuple[ConfigT, dict[str, bytes]]:
        """Settings that follow from the training data, and files that the model needs of them.

        By default there are none. `saved` are the files of a run that resumes.
        """
        return config, {}

    def with_learned(self, files: Mapping[str, bytes]) -> Self:
        """The task with these files of a run."""
        return self

    @abstractmethod
    def model(
        self, config: ConfigT, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> TaskModel[ExampleT, PredictionT]:
        """A new model."""

    @abstractmethod
    def score(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> Scores:
        """How good the predictions are."""

    def result(self, example: ExampleT, prediction: PredictionT | None) -> Result:
        """A prediction about the text of an example; None for one without words.

        By default what `as_json` says of it.
        """
        values = {} if prediction is None else self.as_json(example, prediction)
        return OtherResult(task=self.name, text=self.text(example), values=values)

    def as_json(self, example: ExampleT, prediction: PredictionT) -> dict[str, Any]:
        """A prediction as JSON data, for a task that has no `result` of its own."""
        raise NotImplementedError(f"{type(self).__name__} has neither `result` nor `as_json`")

    def joined(self, results: Sequence[Result]) -> Result:
        """The results of all examples of a text as one; by default there is only one."""
        (result,) = results
        return result

    def as_text(self, example: ExampleT, prediction: PredictionT) -> str:
        """A prediction for people and for other programs of the field; by default its JSON."""
        return json.dumps(self.result(example, prediction).to_dict(), ensure_ascii=False)

    def text(self, example: ExampleT) -> str:
        """The text of an example; by default its tokens, joined by single spaces."""
        return " ".join(token for tokens in self.sentences(example) for token in tokens)

    def has_words(self, example: ExampleT) -> bool:
        """Whether no sentence of an example is empty."""
        return all(map(len, self.sentences(example)))

    def num_tokens(self, example: ExampleT) -> int:
        """The tokens of all sentences of an example."""
        return sum(map(len, self.sentences(example)))


class _Labelled(Protocol):
    @property
    def label(self) -> str: ...


LabelledT = TypeVar("LabelledT", bound=_Labelled)


class LabelPrediction(TypedDict):
    """The most probable label, and the probabilities of all."""

    label: str
    probabilities: dict[str, float]


class LabelModel(TaskModel[LabelledT, LabelPrediction]):
    """A model that scores labels; a subclass says how."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = list(labels)
        self._ids = {label: i for i, label in enumerate(labels)}

    def scores(self, examples: Sequence[LabelledT], read: Read) -> Float[Tensor, "N K"]:
        """The scores of the labels, before the softmax."""
        raise NotImplementedError

    def loss(self, examples: Sequence[LabelledT], read: Read) -> Tensor:
        scores = self.scores(examples, read)
        labels = [self._ids[example.label] for example in examples]
        return nn.functional.cross_entropy(scores, torch.tensor(labels, device=scores.device))

    def predict(self, examples: Sequence[LabelledT], read: Read) -> list[LabelPrediction]:
        """The label of each example, and the probabilities of all."""
        return [
            {
                "label": self.labels[int(row.argmax())],
                "probabilities": dict(zip(self.labels, row.tolist(), strict=True)),
            }
            for row in self.scores(examples, read).softmax(dim=-1).cpu()
        ]


class LabelTask(Task[ConfigT, LabelledT, LabelPrediction]):
    """The half of a `Task` that is about labels."""

    metric: ClassVar[str] = "accuracy"

    def label_sets(self, examples: Sequence[LabelledT]) -> LabelSets:
        labels = sorted({example.label for example in examples})
        if len(labels) < 2:
            raise FormatError(
                f"the training data have one label only ({quoted(''.join(labels))}): "
                "nothing to learn"
            )
        return {"labels": labels}

    def score(
        self, examples: Sequence[LabelledT], predictions: Sequence[LabelPrediction]
    ) -> Scores:
        """The fraction of right labels; precision, recall and F1 of each."""
        gold = [example.label for example in examples]
        found = [prediction["label"] for prediction in predictions]
        labels, counts = confusion(gold, found)
        scores = {
            label: precision_recall_f1(
                *map(int, (counts[i, i], counts[:, i].sum(), counts[i].sum()))
            )
            for i, label in enumerate(labels)
        }
        return {"accuracy": accuracy(gold, found), "labels": scores}

    def result(self, example: LabelledT, prediction: LabelPrediction | None) -> Result:
        """The label and the probabilities of all."""
        said: dict[str, Any] = {} if prediction is None else {**prediction}
        return LabelResult(task=self.name, text=self.text(example), **said)

    def as_text(self, example: LabelledT, prediction: LabelPrediction) -> str:
        """The label, then each label's probability, separated by tabs."""
        probabilities = (f"{label}={p:.4f}" for label, p in prediction["probabilities"].items())
        return "\t".join([prediction["label"], *probabilities])


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
        if not embedding.dim and not task.has_own_input:
            raise ConfigError(
                "the model reads nothing: expected ELMo at the input, static vectors, words.dim "
                "or words.char_filters above 0 (the linear head has neither of the last two)"
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
