"""What the tasks share that give each example one of some labels."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from ...errors import FormatError, quoted
from ...nn.shapes import Float
from ..task import ConfigT, LabelSets, Read, Scores, Task, TaskModel
from .metrics import accuracy, confusion, precision_recall_f1


class _Labelled(Protocol):
    @property
    def label(self) -> str: ...


LabelledT = TypeVar("LabelledT", bound=_Labelled)


class LabelPrediction(TypedDict):
    """The most probable label, and the probabilities of all."""

    label: str
    probabilities: dict[str, float]


class LabelModel(TaskModel[LabelledT, LabelPrediction]):
    """A model that scores labels; a subclass says how.

    Args:
        labels: The classes.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = list(labels)
        self._ids = {label: i for i, label in enumerate(labels)}

    def scores(self, examples: Sequence[LabelledT], read: Read) -> Float[Tensor, "N K"]:
        """The scores of the labels, before the softmax."""
        raise NotImplementedError

    def loss(self, examples: Sequence[LabelledT], read: Read) -> Tensor:
        """The mean cross entropy."""
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
        """The labels."""
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
        """The share of right labels; precision, recall and F1 of each."""
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

    def as_json(self, example: LabelledT, prediction: LabelPrediction) -> dict[str, Any]:
        """The label and the probabilities of all."""
        return dict(prediction)

    def as_text(self, example: LabelledT, prediction: LabelPrediction) -> str:
        """The label, then each label's probability, separated by tabs."""
        shares = (f"{label}={p:.4f}" for label, p in prediction["probabilities"].items())
        return "\t".join([prediction["label"], *shares])
