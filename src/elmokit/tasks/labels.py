"""What the tasks share that give each example one of some labels."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import FormatError, quoted
from ..nn.shapes import Float
from .task import Example, Facts, Metrics, Read, TaskModel


class LabelModel(TaskModel):
    """A model that scores labels; a subclass says how.

    Args:
        labels: The classes.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = list(labels)
        self._ids = {label: i for i, label in enumerate(labels)}

    def scores(self, examples: Sequence[Example], read: Read) -> Float[Tensor, "N K"]:
        """The scores of the labels, before the softmax."""
        raise NotImplementedError

    def loss(self, examples: Sequence[Example], read: Read) -> Tensor:
        """The mean cross entropy."""
        scores = self.scores(examples, read)
        labels = [self._ids[example.label] for example in examples]
        return nn.functional.cross_entropy(scores, torch.tensor(labels, device=scores.device))

    def predict(self, examples: Sequence[Example], read: Read) -> list[dict[str, Any]]:
        """The label of each example, and the probabilities of all."""
        return [
            {
                "label": self.labels[int(row.argmax())],
                "probabilities": dict(zip(self.labels, row.tolist(), strict=True)),
            }
            for row in self.scores(examples, read).softmax(dim=-1).cpu()
        ]


class LabelTask:
    """The half of a `Task` that is about labels."""

    metric: ClassVar[str] = "accuracy"

    def facts(self, examples: Sequence[Example]) -> Facts:
        """The labels."""
        labels = sorted({example.label for example in examples})
        if len(labels) < 2:
            raise FormatError(
                f"the training data have one label only ({quoted(''.join(labels))}): "
                "nothing to learn"
            )
        return {"labels": labels}

    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Metrics:
        """The share of right labels; precision, recall and F1 of each."""
        from .metrics import accuracy, confusion

        gold = [example.label for example in examples]
        found = [prediction["label"] for prediction in predictions]
        labels, counts = confusion(gold, found)
        scores = {}
        for i, label in enumerate(labels):
            right, support, said = (
                int(n) for n in (counts[i, i], counts[i].sum(), counts[:, i].sum())
            )
            scores[label] = {
                "precision": right / said if said else 0.0,
                "recall": right / support if support else 0.0,
                "f1": 2 * right / (said + support),
                "support": support,
            }
        return {"accuracy": accuracy(gold, found), "labels": scores}

    def row(self, example: Example, prediction: Any) -> dict[str, Any]:
        """The label and the probabilities of all."""
        found: dict[str, Any] = prediction
        return found

    def text(self, example: Example, prediction: Any) -> str:
        """The label, then each label's probability, by tabs."""
        shares = (f"{label}={p:.4f}" for label, p in prediction["probabilities"].items())
        return "\t".join([prediction["label"], *shares])
