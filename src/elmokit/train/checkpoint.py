"""Checkpoints of a run: whole or not there, the last two kept.

RUN/checkpoints/step-00001000/
    state.safetensors    weights, optimiser, LSTM states of the lanes
    state.json           progress, and the size of the other file
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import FormatError
from ..io.files import read_json, whole_folder
from .progress import Progress

KEPT = 2
_NAME = re.compile(r"step-(\d{8,})")


class State(NamedTuple):
    """A run at rest."""

    progress: Progress
    tensors: dict[str, Tensor]


def save_state(folder: Path, state: State) -> None:
    """Write a checkpoint into `folder`; it appears at once, and older ones go."""
    path = folder / f"step-{state.progress.step:08d}"
    with whole_folder(path) as temporary:
        weights = temporary / "state.safetensors"
        save_file({name: t.contiguous() for name, t in state.tensors.items()}, weights)
        values = {"bytes": weights.stat().st_size, "progress": state.progress.to_dict()}
        (temporary / "state.json").write_text(json.dumps(values), encoding="utf-8")
        for file in temporary.iterdir():
            _to_disk(file)
    _to_disk(folder)
    for old in _checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def load_state(folder: Path) -> State | None:
    """The newest checkpoint that is whole; None if there is none."""
    for path in reversed(_checkpoints(folder)):
        try:
            return _read(path)
        except (FormatError, OSError, SafetensorError):
            continue
    return None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's memory as named tensors."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{i}.{name}": value.detach().cpu()
        for i, values in state.items()
        for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put the tensors of `optimizer_tensors` back."""
    state = optimizer.state_dict()
    state["state"] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, i, name = key.split(".")
            state["state"].setdefault(int(i), {})[name] = value
    optimizer.load_state_dict(state)


def _checkpoints(folder: Path) -> list[Path]:
    found = [p for p in folder.glob("step-*") if _NAME.fullmatch(p.name)]
    return sorted(found, key=lambda p: int(p.name.removeprefix("step-")))


def _read(path: Path) -> State:
    values = read_json(path / "state.json")
    weights = path / "state.safetensors"
    if weights.stat().st_size != values.get("bytes"):
        raise FormatError(f"{weights} is torn")
    return State(Progress.from_dict(values["progress"]), load_file(weights))


def _to_disk(path: Path) -> None:
    """Wait until the disk has it: a rename must not be there before what it names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
