"""The moving average of the weights of a model that is trained."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_PREFIX = "average."


class WeightAverage:
    """An exponential moving average: a ← d·a + (1 − d)·w after every step of the optimiser.

    d is the wanted decay, but at first (1 + n) / (10 + n) of the n-th step where that is less, so
    that the random weights of the beginning are soon forgotten.

    Args:
        parameters: The weights; the average starts with what they are.
        decay: d, of 0 up to 1; 0 means that there is no average.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.decay = decay
        self.parameters = list(parameters) if decay else []
        self.averages = [p.detach().clone() for p in self.parameters]
        self.num_updates = 0

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are now."""
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        for average, parameter in zip(self.averages, self.parameters, strict=True):
            average.lerp_(parameter, 1 - decay)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """The model has the averages as its weights inside of the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def tensors(self) -> dict[str, Tensor]:
        """Everything that it takes to go on."""
        if not self.decay:
            return {}
        averages = {f"{_PREFIX}{i}": average for i, average in enumerate(self.averages)}
        return averages | {f"{_PREFIX}updates": torch.tensor(self.num_updates)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what `tensors` gave."""
        if not self.decay:
            return
        self.num_updates = int(tensors[f"{_PREFIX}updates"])
        for i, average in enumerate(self.averages):
            average.copy_(tensors[f"{_PREFIX}{i}"])

    @torch.no_grad()
    def _swap(self) -> None:
        for average, parameter in zip(self.averages, self.parameters, strict=True):
            kept = parameter.clone()
            parameter.copy_(average)
            average.copy_(kept)
