"""Where to compute."""

import logging
from functools import cache
from typing import TypeAlias

import torch

from ..errors import ConfigError, quoted

log = logging.getLogger(__name__)

Device: TypeAlias = str | torch.device | None


def find_device(device: Device) -> torch.device:
    """The device of that name; for `auto` and None, CUDA where there is one, else the CPU.

    MPS has to be asked for by name, because elmokit has not been tested on it.
    """
    if device is not None and device != "auto":
        return _named(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        _mention_mps()
    return torch.device("cpu")


def _named(device: str | torch.device) -> torch.device:
    try:
        found = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as e:
        raise ConfigError(
            f"device={quoted(device)}: torch has no such device here ({e!s:.60}…); "
            "expected auto, cpu, cuda, cuda:1, mps or another that torch knows"
        ) from e
    if found.type == "meta":
        raise ConfigError("device='meta' holds no values, so there is nothing to compute with")
    return found


@cache
def _mention_mps() -> None:
    """Say once per process that there is a GPU to try."""
    log.warning(
        "elmokit computes on the CPU; device='mps' uses this Mac's GPU, on which it is untested"
    )
