"""Training of one task model: epochs of batches, the best one kept, resumable at every epoch.

All chance comes from the seed and the number of the epoch, so that a resumed run equals an
unbroken one.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..errors import ConfigError, FormatError
from ..io.files import whole_file
from ..train.checkpoint import optimizer_tensors, restore_optimizer
from .average import WeightAverage
from .config import TrainConfig
from .task import Example, Metrics, Read, Task, TaskModel

Row: TypeAlias = dict[str, Any]
"""What an epoch gave: JSON data."""

POOL_BATCHES = 50
"""Batches that are sorted by length together: little padding, and still much chance."""


@dataclass(slots=True)
class TrainState:
    """How far a training is, beside its tensors."""

    epoch: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    since_best: int = 0
    halvings: int = 0
    seconds: float = 0.0


class Trainer:
    """A task model with its optimiser.

    Args:
        task: What is learned.
        model: The model, new.
        read: Sentences to batches.
        config: How it is trained.
        seed: Where all chance comes from.
        tuned: A biLM that is trained, too.
    """

    def __init__(
        self,
        task: Task,
        model: TaskModel,
        read: Read,
        config: TrainConfig,
        seed: int,
        tuned: nn.Module | None = None,
    ) -> None:
        self.task, self.model, self.read, self.config = task, model, read, config
        self.seed, self.tuned = seed, tuned
        self.state = TrainState()
        self.groups = [([p for p in model.parameters() if p.requires_grad], config.lr)]
        if tuned is not None:
            self.groups.append(([p for p in tuned.parameters() if p.requires_grad], config.bilm_lr))
        self.parameters = [p for parameters, _ in self.groups for p in parameters]
        self.optimizer = _optimizer(config, self.groups)
        self.average = WeightAverage(self.parameters, config.ema)

    def run(
        self,
        train: Sequence[Example],
        dev: Sequence[Example],
        *,
        on_epoch: Callable[[Row], None] | None = None,
        on_best: Callable[[Metrics], None] | None = None,
    ) -> None:
        """Train until the end or until the patience is.

        Args:
            train: Examples to learn from.
            dev: Examples that say which epoch is the best.
            on_epoch: Gets each epoch's row, after `on_best`.
            on_best: Gets the scores of each epoch that is better than all before it, while the
                model is as it was scored.
        """
        while not self.is_done:
            start = time.perf_counter()
            loss = self._epoch(train)
            with self.average.in_model():
                predictions = predict(self.task, self.model, self.read, dev, self.config.batch_size)
                metrics = self.task.score(dev, predictions)
                is_best = self._judge(float(metrics[self.task.metric]))
                self.state.seconds += time.perf_counter() - start
                if is_best and on_best is not None:
                    on_best(metrics)
            if on_epoch is not None:
                on_epoch(self._row(loss, metrics, is_best, time.perf_counter() - start))

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to do."""
        return self.config.is_over(self.state.epoch, self.state.since_best)

    def save(self, path: Path) -> None:
        """Write everything that it takes to go on, as one file."""
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        if self.tuned is not None:
            tensors |= {f"tuned.{name}": t for name, t in self.tuned.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer) | self.average.tensors()
        with whole_file(path) as temporary:
            save_file(
                {name: t.detach().cpu().contiguous() for name, t in tensors.items()},
                temporary,
                metadata={"state": json.dumps(asdict(self.state))},
            )

    def restore(self, path: Path) -> None:
        """Go on from what `save` wrote."""
        try:
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                self.state = TrainState(**json.loads((file.metadata() or {})["state"]))
            self.model.load_state_dict(_part(tensors, "model."))
            if self.tuned is not None:
                self.tuned.load_state_dict(_part(tensors, "tuned."))
            restore_optimizer(self.optimizer, tensors)
            self.average.restore(tensors)
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as e:
            raise FormatError(f"{path} is no checkpoint of this run; delete it ({e})") from e

    def _epoch(self, examples: Sequence[Example]) -> float:
        """One pass over the examples in a new order; returns the mean loss."""
        self.model.train()
        for group, (_, lr) in zip(self.optimizer.param_groups, self.groups, strict=True):
            group["lr"] = lr * 0.5**self.state.halvings
        chance = np.random.default_rng((self.seed, self.state.epoch))
        lengths = [sum(map(len, self.task.sentences(example))) for example in examples]
        total = 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(chance.integers(1 << 62)))
            for rows in epoch_batches(lengths, self.config.batch_size, chance):
                batch = [examples[i] for i in rows]
                loss = self.model.loss(batch, self.read)
                total += self._finite(loss.item()) * len(batch)
                self.optimizer.zero_grad()
                (loss + self.model.embedding.penalty()).backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
                self.optimizer.step()
                self.average.update()
        return total / len(examples)

    def _finite(self, loss: float) -> float:
        """The loss of a batch; an error where the training has gone astray."""
        if not math.isfinite(loss):
            raise ConfigError(
                f"seed {self.seed}, epoch {self.state.epoch + 1}: the loss is {loss}; "
                f"lower train.lr, which is {self.config.lr:g}"
            )
        return loss

    def _judge(self, score: float) -> bool:
        """Count the epoch; whether it is the best so far."""
        state = self.state
        state.epoch += 1
        if score > state.best:
            state.best, state.best_epoch, state.since_best = score, state.epoch, 0
            return True
        state.since_best += 1
        if self.config.halve_after and state.since_best % self.config.halve_after == 0:
            state.halvings += 1
        return False

    def _row(self, loss: float, metrics: Metrics, is_best: bool, seconds: float) -> Row:
        return {
            "seed": self.seed,
            "epoch": self.state.epoch,
            "loss": loss,
            "dev": metrics,
            "is_best": is_best,
            "seconds": round(seconds, 3),
        }


def predict(
    task: Task, model: TaskModel, read: Read, examples: Sequence[Example], batch_size: int
) -> list[Any]:
    """What the model says about each example, in their order."""
    model.eval()
    order = sorted(range(len(examples)), key=lambda i: -_length(task, examples[i]))
    predictions: list[Any] = [None] * len(examples)
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found = model.predict([examples[i] for i in rows], read)
            for i, prediction in zip(rows, found, strict=True):
                predictions[i] = prediction
    return predictions


def epoch_batches(
    lengths: Sequence[int], batch_size: int, chance: np.random.Generator
) -> Iterator[list[int]]:
    """All examples once, at random, those of a batch being of about the same length."""
    order = chance.permutation(len(lengths)).tolist()
    size = batch_size * POOL_BATCHES
    batches = []
    for start in range(0, len(order), size):
        pool = sorted(order[start : start + size], key=lambda i: lengths[i])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    for i in chance.permutation(len(batches)).tolist():
        yield batches[i]


def _optimizer(
    config: TrainConfig, groups: Sequence[tuple[list[nn.Parameter], float]]
) -> torch.optim.Optimizer:
    of_groups = [{"params": parameters, "lr": lr} for parameters, lr in groups]
    decay = config.weight_decay
    if config.optimizer == "adadelta":
        return torch.optim.Adadelta(of_groups, rho=0.95, eps=1e-6, weight_decay=decay)
    return torch.optim.Adam(of_groups, weight_decay=decay)


def _length(task: Task, example: Example) -> int:
    return sum(map(len, task.sentences(example)))


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
