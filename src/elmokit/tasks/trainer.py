"""Training of one task model: epochs of batches, the best one kept, resumable after every batch.

All chance comes from the seed and the number of the epoch, and a checkpoint in the middle of one
has the states of the random generators, so that a resumed run equals an unbroken one.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import ConfigError, FormatError
from ..pretraining.checkpoint import optimizer_tensors, restore_optimizer
from .average import WeightAverage
from .checkpoint import (
    ADVICE,
    TrainState,
    check_random,
    random_tensors,
    read_checkpoint,
    restore_random,
    write_checkpoint,
)
from .config import TrainConfig
from .task import Example, Metrics, Read, Task, TaskModel

Row: TypeAlias = dict[str, Any]
"""What an epoch gave: JSON data."""

POOL_BATCHES = 50
"""Batches that are sorted by length together: little padding, and still much chance."""


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
        self.num_batches = 0
        self._random: dict[str, Tensor] = {}
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
        on_step: Callable[[], None] | None = None,
        on_predict: Callable[[], None] | None = None,
        on_best: Callable[[Metrics], None] | None = None,
        on_epoch: Callable[[Row], None] | None = None,
    ) -> None:
        """Train until the end or until the patience is.

        Args:
            train: Examples to learn from.
            dev: Examples that say which epoch is the best.
            on_step: Called after each step of the optimiser; it may `save`, and it may raise.
            on_predict: Called before each batch of `dev`; it may raise, and `save` is possible
                after that.
            on_best: Gets the scores of each epoch that is better than all before it, while the
                model is as it was scored.
            on_epoch: Gets each epoch's row; it may `save`.
        """
        while not self.is_done:
            self._since = time.perf_counter()
            self._epoch(train, on_step)
            with self.average.in_model():
                predictions = predict(
                    self.task, self.model, self.read, dev, self.config.batch_size, on_predict
                )
                metrics = self.task.score(dev, predictions)
                row = self._finish_epoch(metrics, len(train))
                if row["is_best"] and on_best is not None:
                    on_best(metrics)
            if on_epoch is not None:
                on_epoch(row)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to do."""
        return self.config.is_over(self.state.epoch, self.state.since_best)

    def save(self, path: Path, row: Row | None = None) -> None:
        """Write everything that it takes to resume, as one file, with the row of the last epoch."""
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        if self.tuned is not None:
            tensors |= {f"tuned.{name}": t for name, t in self.tuned.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer) | self.average.tensors()
        if self.state.batch:  # each epoch has its own seed
            tensors |= random_tensors(self.device)
        write_checkpoint(path, self.state, tensors, row)

    def restore(self, path: Path) -> None:
        """Resume from what `save` wrote."""
        state, tensors = read_checkpoint(path)
        try:
            self.model.load_state_dict(_part(tensors, "model."))
            if self.tuned is not None:
                self.tuned.load_state_dict(_part(tensors, "tuned."))
            restore_optimizer(self.optimizer, tensors)
            self.average.restore(tensors)
            self._random = {name: t for name, t in tensors.items() if name.startswith("random.")}
            if state.batch:
                check_random(self._random["random.cpu"])
        except (KeyError, TypeError, ValueError, RuntimeError) as e:
            raise FormatError(
                f"{path} is not a checkpoint of this run ({e!s:.200}); {ADVICE}"
            ) from e
        self.state = state

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.parameters[0].device

    def _epoch(self, examples: Sequence[Example], on_step: Callable[[], None] | None) -> None:
        """A pass over the examples in a new order, or what is left of it."""
        self.model.train()
        for group, (_, lr) in zip(self.optimizer.param_groups, self.groups, strict=True):
            group["lr"] = lr * 0.5**self.state.halvings
        chance = np.random.default_rng((self.seed, self.state.epoch))
        lengths = [sum(map(len, self.task.sentences(example))) for example in examples]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(chance.integers(1 << 62)))
            batches = list(epoch_batches(lengths, self.config.batch_size, chance))
            self.num_batches = len(batches)
            if self.state.batch:
                restore_random(self._random, self.device)
            for rows in batches[self.state.batch :]:
                self._step([examples[i] for i in rows])
                if on_step is not None:
                    on_step()

    def _step(self, batch: Sequence[Example]) -> None:
        loss = self.model.loss(batch, self.read)
        mean = self._finite(loss.item())
        self.optimizer.zero_grad()
        (loss + self.model.embedding.penalty()).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimizer.step()
        self.average.update()
        self.state.batch += 1
        self.state.loss += mean * len(batch)
        self._count_time()

    def _finite(self, loss: float) -> float:
        """The loss of a batch; an error where the training has gone astray."""
        if not math.isfinite(loss):
            raise ConfigError(
                f"seed {self.seed}, epoch {self.state.epoch + 1}: the loss is {loss}; "
                f"lower train.lr, which is {self.config.lr:g}"
            )
        return loss

    def _finish_epoch(self, metrics: Metrics, num_examples: int) -> Row:
        """Count the epoch, whose scores are known now; its row."""
        self._count_time()
        state = self.state
        is_best = self._judge(float(metrics[self.task.metric]))
        row = {
            "seed": self.seed,
            "epoch": state.epoch,
            "loss": state.loss / num_examples,
            "dev": metrics,
            "is_best": is_best,
            "seconds": round(state.epoch_seconds, 3),
        }
        state.seconds += state.epoch_seconds
        state.batch, state.loss, state.epoch_seconds = 0, 0.0, 0.0
        return row

    def _judge(self, score: float) -> bool:
        """Whether the epoch is the best so far."""
        state = self.state
        state.epoch += 1
        if score > state.best:
            state.best, state.best_epoch, state.since_best = score, state.epoch, 0
            return True
        state.since_best += 1
        if self.config.halve_after and state.since_best % self.config.halve_after == 0:
            state.halvings += 1
        return False

    def _count_time(self) -> None:
        now = time.perf_counter()
        self.state.epoch_seconds += now - self._since
        self._since = now


def predict(
    task: Task,
    model: TaskModel,
    read: Read,
    examples: Sequence[Example],
    batch_size: int,
    on_batch: Callable[[], None] | None = None,
) -> list[Any]:
    """What the model says about each example, in their order; `on_batch` precedes each batch."""
    model.eval()
    order = sorted(range(len(examples)), key=lambda i: -_length(task, examples[i]))
    predictions: list[Any] = [None] * len(examples)
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            if on_batch is not None:
                on_batch()
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
