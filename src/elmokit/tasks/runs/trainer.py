"""Training of one task model: epochs of batches, the best one kept, resumable after every batch.

All randomness comes from the seed and the epoch number, and a checkpoint in the middle of an epoch
has the states of the random generators, so that a resumed run equals an unbroken one.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import ConfigError, FormatError
from ...pretraining.checkpoint import optimizer_tensors, restore_optimizer
from ..config import TrainerConfig
from ..task import ConfigT, ExampleT, PredictionT, Read, Scores, Task, TaskModel
from .files import RESUME_ADVICE, Progress, read_checkpoint, write_checkpoint

Row: TypeAlias = dict[str, Any]
"""What an epoch gave: JSON data."""

POOL_BATCHES = 50
"""Batches that are sorted by length together: little padding, and still much randomness."""


class Trainer(Generic[ConfigT, ExampleT, PredictionT]):
    """A new task model with its optimiser; all randomness comes from `seed`.

    `tuned` is a biLM that is trained, too.
    """

    def __init__(
        self,
        task: Task[ConfigT, ExampleT, PredictionT],
        model: TaskModel[ExampleT, PredictionT],
        read: Read,
        config: TrainerConfig,
        seed: int,
        tuned: nn.Module | None = None,
    ) -> None:
        self.task, self.model, self.read, self.config = task, model, read, config
        self.seed, self.tuned = seed, tuned
        self.progress = Progress()
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
        train: Sequence[ExampleT],
        dev: Sequence[ExampleT],
        *,
        on_step: Callable[[], None] | None = None,
        on_predict: Callable[[], None] | None = None,
        on_best: Callable[[Scores], None] | None = None,
        on_epoch: Callable[[Row], None] | None = None,
    ) -> None:
        """Train until the end or until the patience is.

        Args:
            train: Examples to learn from.
            dev: Examples that say which epoch is the best.
            on_step: Called after each step of the optimiser; it may `save` and raise.
            on_predict: Called before each batch of `dev`; it may raise, and the caller then `save`.
            on_best: Gets the scores of each epoch better than all before, the model as scored.
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
        return self.config.is_over(self.progress.epoch, self.progress.since_best)

    def save(self, path: Path, row: Row | None = None) -> None:
        """Write everything that it takes to resume, as one file, with the row of the last epoch."""
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        if self.tuned is not None:
            tensors |= {f"tuned.{name}": t for name, t in self.tuned.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer) | self.average.tensors()
        if self.progress.batch:  # each epoch has its own seed
            tensors |= random_tensors(self.device)
        write_checkpoint(path, self.progress, tensors, row)

    def restore(self, path: Path) -> None:
        """Resume from what `save` wrote."""
        progress, tensors = read_checkpoint(path)
        try:
            self.model.load_state_dict(_part(tensors, "model."))
            if self.tuned is not None:
                self.tuned.load_state_dict(_part(tensors, "tuned."))
            restore_optimizer(self.optimizer, tensors)
            self.average.restore(tensors)
            self._random = {name: t for name, t in tensors.items() if name.startswith("random.")}
            if progress.batch:
                check_random(self._random["random.cpu"])
        except (KeyError, TypeError, ValueError, RuntimeError) as e:
            raise FormatError(
                f"{path} is not a checkpoint of this run ({e!s:.200}); {RESUME_ADVICE}"
            ) from e
        self.progress = progress

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.parameters[0].device

    def _epoch(self, examples: Sequence[ExampleT], on_step: Callable[[], None] | None) -> None:
        """A pass over the examples in a new order, or the rest of one that was interrupted."""
        self.model.train()
        if self.model.fits_at_once:
            self._fit(examples, on_step)
            return
        for group, (_, lr) in zip(self.optimizer.param_groups, self.groups, strict=True):
            group["lr"] = lr * 0.5**self.progress.halvings
        rng = np.random.default_rng((self.seed, self.progress.epoch))
        lengths = list(map(self.task.num_tokens, examples))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(1 << 62)))
            batches = list(epoch_batches(lengths, self.config.batch_size, rng))
            self.num_batches = len(batches)
            if self.progress.batch:
                restore_random(self._random, self.device)
            for rows in batches[self.progress.batch :]:
                self._step([examples[i] for i in rows])
                if on_step is not None:
                    on_step()

    def _fit(self, examples: Sequence[ExampleT], on_step: Callable[[], None] | None) -> None:
        """The whole training of a model that fits at once, unless it was interrupted after it."""
        self.num_batches = 1
        if self.progress.batch:
            return
        self.progress.loss = self.model.fit(examples, self.read, self.seed) * len(examples)
        self.progress.batch = 1
        self._count_time()
        if on_step is not None:
            on_step()

    def _step(self, batch: Sequence[ExampleT]) -> None:
        loss = self.model.loss(batch, self.read)
        mean = loss.item()
        if not math.isfinite(mean):
            raise ConfigError(
                f"seed {self.seed}, epoch {self.progress.epoch + 1}: the loss is {mean}; "
                f"lower train.lr, which is {self.config.lr:g}"
            )
        self.optimizer.zero_grad()
        (loss + self.model.embedding.penalty()).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimizer.step()
        self.average.update()
        self.progress.batch += 1
        self.progress.loss += mean * len(batch)
        self._count_time()

    def _finish_epoch(self, metrics: Scores, num_examples: int) -> Row:
        """Count the epoch, whose scores are known now; its row."""
        self._count_time()
        progress = self.progress
        is_best = self._judge(float(metrics[self.task.metric]))
        row = {
            "seed": self.seed,
            "epoch": progress.epoch,
            "loss": progress.loss / num_examples,
            "dev": metrics,
            "is_best": is_best,
            "seconds": round(progress.epoch_seconds, 3),
        }
        progress.seconds += progress.epoch_seconds
        progress.batch, progress.loss, progress.epoch_seconds = 0, 0.0, 0.0
        return row

    def _judge(self, score: float) -> bool:
        """Whether the epoch is the best so far."""
        progress = self.progress
        progress.epoch += 1
        if score > progress.best:
            progress.best, progress.best_epoch, progress.since_best = score, progress.epoch, 0
            return True
        progress.since_best += 1
        if self.config.halve_after and progress.since_best % self.config.halve_after == 0:
            progress.halvings += 1
        return False

    def _count_time(self) -> None:
        now = time.perf_counter()
        self.progress.epoch_seconds += now - self._since
        self._since = now


def predict(
    task: Task[ConfigT, ExampleT, PredictionT],
    model: TaskModel[ExampleT, PredictionT],
    read: Read,
    examples: Sequence[ExampleT],
    batch_size: int,
    on_batch: Callable[[], None] | None = None,
) -> list[PredictionT]:
    """What the model says about each example, in their order; `on_batch` precedes each batch."""
    model.eval()
    order = sorted(range(len(examples)), key=lambda i: -task.num_tokens(examples[i]))
    predictions: dict[int, PredictionT] = {}
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            if on_batch is not None:
                on_batch()
            rows = order[start : start + batch_size]
            found = model.predict([examples[i] for i in rows], read)
            predictions.update(zip(rows, found, strict=True))
    return [predictions[i] for i in range(len(examples))]


def epoch_batches(
    lengths: Sequence[int], batch_size: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """All examples once, at random, those of a batch being of about the same length."""
    order = rng.permutation(len(lengths)).tolist()
    size = batch_size * POOL_BATCHES
    batches = []
    for start in range(0, len(order), size):
        pool = sorted(order[start : start + size], key=lambda i: lengths[i])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    for i in rng.permutation(len(batches)).tolist():
        yield batches[i]


def _optimizer(
    config: TrainerConfig, groups: Sequence[tuple[list[nn.Parameter], float]]
) -> torch.optim.Optimizer:
    of_groups = [{"params": parameters, "lr": lr} for parameters, lr in groups]
    decay = config.weight_decay
    if config.optimizer == "adadelta":
        return torch.optim.Adadelta(of_groups, rho=0.95, eps=1e-6, weight_decay=decay)
    return torch.optim.Adam(of_groups, weight_decay=decay)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def random_tensors(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's random generators: the CPU's, and that of the model's device."""
    states = {"random.cpu": torch.get_rng_state()}
    if device.type != "cpu":
        module, which = _generator(device)
        states[f"random.{device.type}"] = module.get_rng_state(*which)
    return states


def restore_random(tensors: dict[str, Tensor], device: torch.device) -> None:
    """Put the states of `random_tensors` back; one of another kind of device is left alone."""
    torch.set_rng_state(tensors["random.cpu"])
    state = tensors.get(f"random.{device.type}")
    if device.type != "cpu" and state is not None:
        module, which = _generator(device)
        module.set_rng_state(state, *which)


def check_random(state: Tensor) -> None:
    """Raise a ValueError for what cannot be the state of the CPU's random generator."""
    expected = torch.get_rng_state()
    if (state.dtype, state.shape) != (expected.dtype, expected.shape):
        raise ValueError(f"random.cpu is {state.dtype} of shape {tuple(state.shape)}")


def _generator(device: torch.device) -> tuple[Any, tuple[torch.device, ...]]:
    """The module that has a device's random generator, and what says which device it is."""
    return getattr(torch, device.type), () if device.type == "mps" else (device,)


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
        """Everything that it takes to continue."""
        if not self.decay:
            return {}
        averages = {f"{_PREFIX}{i}": average for i, average in enumerate(self.averages)}
        return averages | {f"{_PREFIX}updates": torch.tensor(self.num_updates)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from what `tensors` gave."""
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
