"""How far a run has come, and its checkpoints: each whole or not there, the last two kept.

RUN/checkpoints/step-00001000/
    state.safetensors    weights, optimiser, LSTM states of the lanes
    state.json           progress, and the size of the other file
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..errors import FileError, FormatError
from ..files.arrays import load_tensors, open_tensors, save_tensors
from ..files.folders import whole_folder
from ..files.read import is_there, list_folder, read_json, unreadable

log = logging.getLogger(__name__)

KEPT = 2
_MANY = 1 << 63
_NAME = re.compile(r"step-(\d{8,})")
_Read = TypeVar("_Read")


@dataclass(kw_only=True, slots=True)
class Progress:
    """Counts, and where the text is continued; a plain JSON object on disk.

    Attributes:
        step: Steps of the optimiser that are done.
        tokens: Tokens read, each once for both directions.
        epochs: Passes over the text, the current one as a fraction.
        place: Cursor of the stream that reads the text; the files have it under this name.
        seconds: Time spent, over all parts of the run.
        loss: Sum of the mean losses since the last logged step.
        loss_steps: Steps in that sum.
        best: Lowest held-out perplexity.
        since_best: Evaluations since then.
        is_done: Whether the run has come to its end.
    """

    step: int = 0
    tokens: int = 0
    epochs: float = 0.0
    place: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    loss: float = 0.0
    loss_steps: int = 0
    best: float | None = None
    since_best: int = 0
    is_done: bool = False

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """What `asdict` gave, perhaps in an older version, which knew fewer fields.

        Raises:
            FileError: A newer elmokit wrote it.
            ValueError: A value cannot be right.
        """
        unknown = sorted(values.keys() - {f.name for f in fields(cls)})
        if unknown:
            raise FileError(
                f"written by a newer elmokit ({', '.join(unknown):.80}); upgrade to resume it"
            )
        for name, value in values.items():
            if not _fits(name, value):
                raise ValueError(f"{name}={value!r:.40}")
        return cls(**values)


def _fits(name: str, value: Any) -> bool:
    """Whether a field can have a value."""
    if name in ("step", "tokens", "loss_steps", "since_best"):
        return type(value) is int and 0 <= value < _MANY
    if name in ("epochs", "seconds", "loss", "best"):
        is_number = type(value) is float or (type(value) is int and abs(value) < _MANY)
        return is_number or (name == "best" and value is None)
    return isinstance(value, dict if name == "place" else bool)


class State(NamedTuple):
    """A run at rest."""

    progress: Progress
    tensors: dict[str, Tensor]


def save_state(folder: Path, state: State) -> None:
    """Write a checkpoint into `folder`, and remove all but the newest that are whole."""
    path = folder / _name(state.progress.step)
    with whole_folder(path) as temporary:
        weights = temporary / "state.safetensors"
        save_tensors(weights, state.tensors)
        values = {"bytes": weights.stat().st_size, "progress": asdict(state.progress)}
        (temporary / "state.json").write_text(json.dumps(values), encoding="utf-8")
        for file in temporary.iterdir():
            _to_disk(file)
    _to_disk(folder)
    paths = checkpoints(folder)
    whole = [path for path in paths if _is_whole(path)]
    for old in paths[: paths.index(whole[-KEPT])] if len(whole) >= KEPT else ():
        shutil.rmtree(old, ignore_errors=True)


def load_state(folder: Path) -> State | None:
    """The newest checkpoint; None if there is none.

    A damaged one is passed over, with a warning, for the one before it. One that cannot be opened,
    or that a newer elmokit wrote, is an error: it may hold more than any other.

    Raises:
        FileError: A checkpoint cannot be opened.
        FormatError: There are checkpoints, and all of them are damaged.
    """
    return _newest(folder, _read)


def newest_progress(folder: Path) -> Progress | None:
    """The progress of the checkpoint that `load_state` would load; it raises the same errors."""
    return _newest(folder, _read_progress)


def _newest(folder: Path, read: Callable[[Path], _Read]) -> _Read | None:
    problems: list[FormatError] = []
    for path in reversed(checkpoints(folder)):
        try:
            found = read(path)
        except FormatError as e:
            problems.append(e)
            continue
        except OSError as e:
            raise unreadable(path, e) from e
        if problems:
            log.warning("%s; going back to %s", problems[0], path.name)
        return found
    if problems:
        raise FormatError(
            f"{problems[0]}, and there is no other checkpoint to resume from; restore it from a "
            "copy, or start again in a new folder"
        )
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
    """Put the tensors of `optimizer_tensors` back.

    Raises:
        ValueError: A tensor does not have the shape of its parameter. torch does not check that,
            and a fused step would write past the end of the tensor.
    """
    state = optimizer.state_dict()
    state["state"] = {}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, i, name = key.split(".")
            shape = parameters[int(i)].shape if int(i) < len(parameters) else None
            if shape is None or value.shape != (() if name == "step" else shape):
                raise ValueError(f"{key} has shape {tuple(value.shape)}")
            state["state"].setdefault(int(i), {})[name] = value
    optimizer.load_state_dict(state)


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, whole or not, from the oldest to the newest."""
    names = [path.name for path in list_folder(folder)] if is_there(folder) else []
    steps = sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
    return [folder / _name(step) for step in steps]


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _read(path: Path) -> State:
    progress = _read_progress(path)
    return State(progress, load_tensors(path / "state.safetensors", advice=""))


def _read_progress(path: Path) -> Progress:
    """The progress of a checkpoint whose files are all there and as long as they should be."""
    description, weights = path / "state.json", path / "state.safetensors"
    for file in (description, weights):
        if not is_there(file):
            raise FormatError(f"{path} is incomplete: {file.name} is missing")
    try:
        values = read_json(description)
        expected, progress = values["bytes"], dict(values["progress"])
    except FormatError:
        raise
    except (ValueError, TypeError, KeyError) as e:
        raise FormatError(f"{description} is damaged ({e})") from e
    size = weights.stat().st_size
    if size != expected:
        raise FormatError(f"{path} is torn: state.safetensors has {size} of {expected} bytes")
    try:
        found = Progress.from_dict(progress)
    except FileError as e:
        raise FileError(f"{path}: {e}") from e
    except ValueError as e:
        raise FormatError(f"{description} is damaged ({e})") from e
    if path.name != _name(found.step):
        raise FormatError(f"{description} is damaged (step={found.step})")
    with open_tensors(weights, advice=""):
        return found  # its header can be read


def _is_whole(path: Path) -> bool:
    try:
        _read_progress(path)
    except (FormatError, OSError):
        return False
    return True


def _to_disk(path: Path) -> None:
    """Wait until the disk has it: a rename must not be there before what it names."""
    try:
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    except PermissionError:
        if path.is_dir():
            return  # Windows opens no folders, and keeps their entries without being asked
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
