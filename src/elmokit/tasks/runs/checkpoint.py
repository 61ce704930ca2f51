"""The checkpoint of a seed: everything that it takes to resume, in one file.

`checkpoint.safetensors` holds the weights, their averages, the optimiser's memory and, in the
middle of an epoch, the states of the random generators as tensors, and its `Progress` as metadata.
"""

import json
import math
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import FileError, FormatError, quoted
from ...files.arrays import open_tensors, save_tensors
from ...files.write import whole_file

ADVICE = "restore it from a copy, or train in a new folder"


@dataclass(slots=True)
class Progress:
    """How far a training is, beside its tensors.

    Attributes:
        epoch: Epochs that are finished, with their evaluation.
        best: Best development score.
        best_epoch: Epoch that has it.
        since_best: Epochs since then.
        halvings: How often the learning rate was halved.
        seconds: Time spent on finished epochs.
        batch: Batches of the current epoch that are done.
        loss: Sum of the losses of their examples.
        epoch_seconds: Time spent on them.
    """

    epoch: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    since_best: int = 0
    halvings: int = 0
    seconds: float = 0.0
    batch: int = 0
    loss: float = 0.0
    epoch_seconds: float = 0.0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """The progress that `asdict` described, perhaps in an older elmokit with fewer fields.

        Raises:
            FileError: A newer elmokit wrote it.
            ValueError: A value cannot be right.
        """
        kinds = {f.name: type(f.default) for f in fields(cls)}
        unknown = sorted(values.keys() - kinds.keys())
        if unknown:
            raise FileError(
                f"written by a newer elmokit ({', '.join(unknown)}); upgrade elmokit to resume it"
            )
        if "epoch" not in values:
            raise ValueError("epoch is missing")
        for name, value in values.items():
            is_number = type(value) is int and abs(value) < 1 << 63
            is_number = is_number or (kinds[name] is float and type(value) is float)
            if not is_number or math.isnan(value) or (kinds[name] is int and value < 0):
                raise ValueError(f"{name}={quoted(value)}")
        return cls(**values)


def write_checkpoint(
    path: Path, progress: Progress, tensors: dict[str, Tensor], row: dict[str, Any] | None = None
) -> None:
    """Write a checkpoint in place of the one before it, with the row of the epoch that it ends."""
    metadata = {"state": json.dumps(asdict(progress))}
    if row is not None:
        metadata["row"] = json.dumps(row)
    with whole_file(path) as temporary:
        save_tensors(temporary, {name: t.detach().cpu() for name, t in tensors.items()}, metadata)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())  # the new one must be on disk before the old one is gone


def read_checkpoint(path: Path) -> tuple[Progress, dict[str, Tensor]]:
    """What `write_checkpoint` wrote.

    Raises:
        FileError: The file cannot be opened, or a newer elmokit wrote it.
        FormatError: It is damaged.
    """
    with open_tensors(path, ADVICE) as file:
        return _progress(file, path), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def read_progress(path: Path) -> Progress:
    """The progress alone; raises what `read_checkpoint` would."""
    with open_tensors(path, ADVICE) as file:
        return _progress(file, path)


def read_row(path: Path) -> str | None:
    """The row of the epoch that a checkpoint ends, as a line of the log; None if it ends none."""
    with open_tensors(path, ADVICE) as file:
        row: str | None = (file.metadata() or {}).get("row")
        return row


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


def _progress(file: Any, path: Path) -> Progress:
    try:
        return Progress.from_dict(dict(json.loads((file.metadata() or {})["state"])))
    except FileError as e:
        raise FileError(f"{path}: {e}") from e
    except (KeyError, TypeError, ValueError, RecursionError) as e:
        raise FormatError(f"{path} is damaged ({e!s:.200}); {ADVICE}") from e
