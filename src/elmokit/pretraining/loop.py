"""The training loop: batches → steps of the optimiser, with everything needed to go on later."""

import ctypes
import logging
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ..corpus.batches import Batch, LaneStream, Stream
from ..engine.native_product import threads_of_the_kernel
from ..engine.plain import agree
from ..errors import ConfigError
from ..nn import BiLmState
from .checkpoint import Progress, State, optimizer_tensors, restore_optimizer
from .config import PretrainConfig, TrainConfig, TrainEngine
from .distributed import World
from .objective import BatchReader, LogUniformSampler, Objective

log = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]
"""A logged step."""

CHECKED, TOLERANCE = (3, 2), 1e-3
"""Steps and rows on which training compares itself with `nn`, and how far they may differ."""

ADAGRAD_START = 1.0
"""bilm-tf's initial accumulator: the first steps are then no larger than the later ones."""

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's `mallopt`."""


class Loop:
    """Takes steps.

    All that is random comes from the seed and the number of the step, so that a run which was
    interrupted goes on as if it had not been.

    Args:
        config: The run.
        objective: What is trained, on the device of `world`.
        stream: The text.
        reader: Word ids to tensors.
        world: The processes of the run.
        frozen_steps: Steps in which the softmax learns alone.
    """

    def __init__(
        self,
        config: PretrainConfig,
        objective: Objective,
        stream: Stream,
        reader: BatchReader,
        world: World,
        frozen_steps: int = 0,
    ) -> None:
        self.config, self.objective, self.stream, self.reader = config, objective, stream, reader
        self.world, self.frozen_steps = world, frozen_steps
        self.parameters = list(objective.parameters())
        self.optimizer = make_optimizer(self.parameters, config.train)
        num_words = len(objective.softmax.bias)
        self.sampler = None
        if config.softmax.loss == "sampled" and config.softmax.num_samples < num_words:
            self.sampler = LogUniformSampler(num_words, config.softmax.num_samples)
        if objective.engine == "auto" and not self._agrees_with_nn():
            log.warning(
                "the fast training code differs from elmokit.nn by more than rounding; training "
                "with elmokit.nn instead, slowly. If you did not change it, please report this"
            )
            objective.engine = "plain"
        self._freeze(frozen_steps > 0)
        self.progress = Progress()
        self.state: BiLmState | None = None
        self.gradient_norm = 0.0
        self.step_seconds = 0.0
        """Time spent on steps alone, without evaluations and saving."""
        self.reserve = 0.0
        """Seconds of a budget of minutes that are kept for what comes after the last step."""
        self._since = time.perf_counter()

    def _agrees_with_nn(self) -> bool:
        """Whether the loss of a few random words, and its gradients, are those of `nn`."""
        generator = np.random.default_rng(0)
        ids = generator.integers(0, len(self.reader.rows), (2, *CHECKED))
        batch = self.reader(Batch(ids, ids[:, ::-1]))
        samples = self.reader.samples(self.sampler(generator)) if self.sampler else None
        learning = [p for p in self.parameters if p.requires_grad]
        objective, results = self.objective.eval(), []
        engines: tuple[TrainEngine, ...] = ("plain", "auto")
        for engine in engines:
            objective.engine = engine
            sums = objective(*batch, samples=samples).sums
            grads = torch.autograd.grad(sums.sum(), learning, allow_unused=True)
            results.append([sums.detach(), *(grad for grad in grads if grad is not None)])
        return all(agree(got, want, TOLERANCE) for want, got in zip(*results, strict=True))

    def run(self, after_step: Callable[[], None]) -> None:
        """Take steps until the budget is used up or `after_step` says that the run is done."""
        self._since = time.perf_counter()
        while not self.progress.is_done:
            used = self.world.agree(self.budget_used)
            if used >= 1:
                self.progress.is_done = True
                return
            self.step(used)
            after_step()

    @property
    def budget_used(self) -> float:
        """The fraction of the budget that is used up; 1 or more at the end."""
        config, progress = self.config.train, self.progress
        used = (
            (progress.epochs, config.epochs), (progress.step, config.max_steps),
            (progress.tokens, config.max_tokens),
            ((progress.seconds + self.reserve) / 60, config.max_minutes),
        )  # fmt: skip
        return max(done / limit for done, limit in used if limit is not None)

    def step(self, used: float) -> None:
        """One step of the optimiser, with a fraction `used` of the budget gone."""
        start = time.perf_counter()
        with threads_of_the_kernel(self.world.device):
            self._step(used)
        now = time.perf_counter()
        self.step_seconds += now - start
        self.progress.seconds += now - self._since
        self._since = now

    def _step(self, used: float) -> None:
        config, progress = self.config.train, self.progress
        if self.is_frozen and progress.step >= self.frozen_steps:
            self._freeze(False)
        rate = learning_rate(config, progress.step, used)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        for part in range(config.accumulate):
            progress.loss += self._backward(part) / config.accumulate
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, config.clip_norm)
        self.gradient_norm = float(norm)
        if not math.isfinite(self.gradient_norm):
            raise ConfigError(
                f"step {progress.step + 1}: gradients became NaN or infinite; lower train.lr (now "
                f"{rate:g}). --resume continues from the last checkpoint, before it happened"
            )
        self.optimizer.step()
        progress.step += 1
        progress.loss_steps += 1
        progress.epochs = self.stream.epochs

    def _freeze(self, is_frozen: bool) -> None:
        """Train the softmax alone, or everything."""
        self.is_frozen = is_frozen
        self.objective.bilm.requires_grad_(not is_frozen)
        self.model = self.world.wrap(self.objective.train())

    def _backward(self, part: int) -> float:
        """The gradients of one batch; its mean loss over both directions."""
        config = self.config.train
        batch = self.stream.next()
        number = self.progress.step * config.accumulate + part
        generator = torch.Generator(self.world.device)
        generator.manual_seed(hash((config.seed, number, self.world.rank)) & (2**63 - 1))
        noise = np.random.default_rng([config.seed, number])
        samples = self.reader.samples(self.sampler(noise)) if self.sampler else None
        state = self._start(batch.inputs.shape[2], noise)
        tensors = self.reader(batch.rows(self.world.rows()))
        kind = self.world.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=config.precision == "bfloat16"):
            losses = self.model(*tensors, state, samples, generator)
        self.state = losses.state if self.stream.carries else None
        scale = config.loss_scale / (2 * batch.num_tokens * config.accumulate)
        # DDP takes the mean of the processes, but the loss is a sum over their rows.
        (losses.sums.sum() * scale * self.world.size).backward()
        self.progress.tokens += batch.num_tokens
        total = self.world.sum(losses.sums.detach().sum())
        return float(total) / (2 * batch.num_tokens)

    def _start(self, num_rows: int, noise: np.random.Generator) -> BiLmState | None:
        """The states that the lanes start from; some forget theirs at random."""
        if not self.stream.carries or self.state is None:
            return None
        kept = noise.random(num_rows) >= self.config.data.reset
        is_kept = torch.from_numpy(kept[self.world.rows()]).to(self.world.device)
        return BiLmState(*(part * is_kept[:, None] for part in self.state))

    def row(self) -> Row:
        """What to log now; the mean of the loss starts anew."""
        progress = self.progress
        row = {
            "step": progress.step,
            "tokens": progress.tokens,
            "epochs": round(progress.epochs, 4),
            "loss": progress.loss / max(1, progress.loss_steps),
            "gradient_norm": self.gradient_norm,
            "lr": self.optimizer.param_groups[0]["lr"],
            "seconds": round(progress.seconds, 3),
        }
        progress.loss, progress.loss_steps = 0.0, 0
        return row

    def save(self) -> State:
        """Everything that it takes to go on; all processes call it together."""
        self.progress.place = self.stream.cursor()
        tensors: dict[str, Tensor] = {
            f"model.{name}": t.detach().cpu() for name, t in self.objective.state_dict().items()
        }
        tensors |= optimizer_tensors(self.optimizer)
        if self.state is not None:
            h, c = (self.world.join(part, dim=2).cpu() for part in self.state)
            tensors |= {"lanes.h": h, "lanes.c": c}
        return State(self.progress, tensors)

    def restore(self, state: State) -> None:
        """Go on from what `save` gave."""
        self.progress = state.progress
        weights = {
            name.removeprefix("model."): t
            for name, t in state.tensors.items()
            if name.startswith("model.")
        }
        self.objective.load_state_dict(weights)
        if state.progress.step and not any(name.startswith("optimizer.") for name in state.tensors):
            raise ValueError("optimizer state is missing")
        restore_optimizer(self.optimizer, state.tensors)
        self.stream.restore(state.progress.place)
        if isinstance(self.stream, LaneStream) and state.progress.step:
            lanes = BiLmState(state.tensors["lanes.h"], state.tensors["lanes.c"])
            fitting = BiLmState.zeros(self.config.model.lstm, self.stream.num_lanes, lanes.h)
            if [part.shape for part in lanes] != [part.shape for part in fitting]:
                raise ValueError(f"lanes.h has shape {tuple(lanes.h.shape)}")
            rows, device = self.world.rows(), self.world.device
            self.state = BiLmState(*(part[:, :, rows].to(device) for part in lanes))


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: TrainConfig
) -> torch.optim.Optimizer:
    """The optimiser of all `parameters`, in their order."""
    parameters = list(parameters)
    if config.optimizer == "adagrad":
        return torch.optim.Adagrad(
            parameters, lr=config.lr, initial_accumulator_value=ADAGRAD_START
        )
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.AdamW(
        parameters,
        lr=config.lr,
        betas=(0.9, config.beta2),
        weight_decay=config.weight_decay,
        fused=fused,
    )


def learning_rate(config: TrainConfig, step: int, used: float) -> float:
    """The rate of step `step` (from 0), with a fraction `used` (0..1) of the budget gone."""
    warm = min(1.0, (step + 1) / (config.warmup_steps + 1))
    left = 1 - min(1.0, max(0.0, used))
    if config.schedule == "constant":
        return config.lr * warm
    if config.schedule == "flat":
        return config.lr * warm * min(1.0, left / config.cooldown)
    if config.schedule == "linear":
        return config.lr * warm * left
    return config.lr * warm * (0.5 - 0.5 * math.cos(math.pi * left))


def keep_freed_memory() -> None:
    """Let freed memory stay with the process instead of going back to the system.

    Every step needs the same large buffers. Returning them costs thousands of page faults per
    step: 1 % of the time with one thread, 6 % with two. Does nothing where there is no glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)  # the largest that glibc accepts
        mallopt(_TRIM_THRESHOLD, 1 << 30)
        mallopt(_TOP_PAD, 64 << 20)
