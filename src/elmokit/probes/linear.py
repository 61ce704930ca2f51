"""Multinomial logistic regression on frozen vectors, or on a learned mix of their layers.

Batches are cut from half-precision rows, so that only one batch is ever in full precision.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config, within
from ..errors import ConfigError
from ..nn import ScalarMix

ROWS_AT_ONCE = 4096
"""Rows in one step where nothing is learned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearSettings(Config):
    """How a linear probe is trained: Adam from zero weights, its rate falling to zero.

    Attributes:
        epochs: Passes over the training rows.
        batch_size: Rows in a step.
        learning_rate: Rate of the first step.
        weight_decay: Pull of the weights to zero, as in AdamW.
        seed: Of the order of the rows.
    """

    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 0.03
    weight_decay: float = 0.01
    seed: int = 1

    def __post_init__(self) -> None:
        within(self, 1, 1 << 40, "epochs", "batch_size")
        within(self, 0, 1 << 40, "seed")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate={self.learning_rate}: expected a positive number")


@dataclass(frozen=True, slots=True)
class Features:
    """The vectors of N tokens in K layers, (K, N, D); with `average`, the mean of the layers."""

    layers: Tensor
    average: bool = False

    def __len__(self) -> int:
        return self.layers.shape[1]

    def rows(self, which: Tensor | slice) -> Tensor:
        """Some of the tokens in full precision, (K, B, D); K is 1 for the average."""
        picked = self.layers[:, which].float()
        return picked.mean(dim=0, keepdim=True) if self.average else picked

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """All tokens in their order, some at a time, with their places."""
        for start in range(0, len(self), ROWS_AT_ONCE):
            where = slice(start, start + ROWS_AT_ONCE)
            yield where, self.rows(where)


class LinearProbe(nn.Module):
    """Scores of the tags, (B, tags), from layers (K, B, D): standardise, mix if K > 1, project."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor, num_tags: int) -> None:
        super().__init__()
        num_layers, _, dim = mean.shape
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.mix = ScalarMix(num_layers) if num_layers > 1 else None
        self.linear = nn.Linear(dim, num_tags)
        # The loss of one layer is convex: zeros are as good a start as any, and no chance is in it.
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, layers: Tensor) -> Tensor:
        x = (layers - self.mean) * self.scale
        mixed = x[0] if self.mix is None else self.mix(x)
        scores: Tensor = self.linear(mixed)
        return scores


def train_linear(
    features: Features, labels: Tensor, num_tags: int, settings: LinearSettings
) -> LinearProbe:
    """A probe that was trained to give each row its label."""
    probe = LinearProbe(*_moments(features), num_tags)
    weight = probe.linear.weight
    free = [p for p in probe.parameters() if p is not weight]
    groups: list[dict[str, Any]] = [
        {"params": [weight], "weight_decay": settings.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
    num_steps = settings.epochs * -(-len(features) // settings.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / num_steps)
    generator = torch.Generator().manual_seed(settings.seed)
    for _ in range(settings.epochs):
        order = torch.randperm(len(features), generator=generator)
        for rows in torch.split(order, settings.batch_size):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(probe(features.rows(rows)), labels[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return probe


@torch.inference_mode()
def predict(probe: LinearProbe, features: Features) -> Tensor:
    """The best tag of each row, (N,)."""
    return torch.cat([probe(rows).argmax(dim=1) for _, rows in features.blocks()])


def _moments(features: Features) -> tuple[Tensor, Tensor]:
    """Mean, and one over the deviation, of each value of each layer, both (K, 1, D)."""
    total = square = torch.zeros((), dtype=torch.float64)
    for _, rows in features.blocks():
        total = total + rows.double().sum(dim=1, keepdim=True)
        square = square + rows.double().square().sum(dim=1, keepdim=True)
    mean = total / len(features)
    variance = (square / len(features) - mean.square()).clamp(min=0)
    # A value that never changes says nothing; dividing by its deviation would only blow it up.
    scale = torch.where(variance > 1e-10, variance.clamp(min=1e-10).rsqrt(), 0)
    return mean.float(), scale.float()
