"""Where to compute."""

from typing import TypeAlias

import torch

from ..errors import ConfigError

Device: TypeAlias = str | torch.device | None


def find_device(device: Device) -> torch.device:
    """The device of that name; a GPU if there is one for `auto` and None."""
    if device is not None and device != "auto":
        try:
            return torch.empty(0, device=device).device
        except (RuntimeError, AssertionError) as e:
            raise ConfigError(
                f"device={device!r}: torch has no such device here ({e!s:.60}…); "
                "expected auto, cpu, cuda, cuda:1, mps or another that torch knows"
            ) from e
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
