"""The optimiser, and its learning rate over a run."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from .config import TrainConfig

ADAGRAD_START = 1.0
"""bilm-tf's initial accumulator: the first steps are then no larger than the later ones."""


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
    """The rate of step number `step` (from 0), with a share `used` of the budget (0..1) gone."""
    warm = min(1.0, (step + 1) / (config.warmup_steps + 1))
    left = 1 - min(1.0, max(0.0, used))
    if config.schedule == "constant":
        return config.lr * warm
    if config.schedule == "flat":
        return config.lr * warm * min(1.0, left / config.cooldown)
    if config.schedule == "linear":
        return config.lr * warm * left
    return config.lr * warm * (0.5 - 0.5 * math.cos(math.pi * left))
