"""One exit to every format: write a checkpoint whole, or leave no trace."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from ..errors import ConfigError, FileError, quoted
from ..files.folders import is_incomplete, output_path, whole_folder
from ..files.read import is_there, list_folder
from .checkpoint import Checkpoint, Format
from .elmokit_folder import ELMOKIT, write_folder
from .load import find_format, format_in, writable
from .official import OFFICIAL, check_alone

OPTIONAL_FILES = ("softmax_weights.hdf5", "vocab.txt")
"""What a model may have beside its weights, and the model that replaces it may not have."""


def write_checkpoint(
    checkpoint: Checkpoint,
    target: str | Path,
    format: str | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    force: bool = False,
) -> tuple[Path, Format]:
    """Write a model; returns the folder and the format.

    Args:
        checkpoint: The model.
        target: The folder to write; or a file that ends in `.hdf5`, which becomes the weights of
            an official pair, with `options.json` beside it.
        format: The name of a format: `elmokit` (the default), `official`, `tf` or `manylangs`.
        dtype: Type of the weights; torch.float16 only in elmokit's own format.
        force: Replace a model of the same format.
    """
    try:
        path = output_path(target).expanduser()
    except RuntimeError as e:
        raise ConfigError(f"{quoted(str(target))}: {e}") from e
    # The format whose file of weights is named, if the target is not a folder.
    by_file = next((f for f in writable() if f.new_weights and f.is_named_by(path)), None)
    chosen = find_format(format) if format is not None else by_file or ELMOKIT
    if by_file not in (chosen, None):
        raise ConfigError(
            f"{path}: a {path.suffix} file is of the {by_file.name} format, not {chosen.name!r}"
        )
    if dtype != torch.float32 and "float16" not in chosen.holds:
        names = " or ".join(f.name for f in writable() if "float16" in f.holds)
        raise ConfigError(f"dtype={dtype}: only the format {names} has it, not {chosen.name!r}")
    folder = path.parent if by_file else path
    _check_no_run(folder)
    found = format_in(folder)
    # A pair has no file of the names that tell of an unknown format.
    if found not in (chosen, None) and not (by_file and found == "unknown"):
        raise FileError(
            f"{folder} holds a model of another format ({_in_words(found)}), which would be mixed "
            "with this one; choose another folder"
        )
    if not force and not by_file and _has_files(folder):
        raise FileError(f"{folder} exists already; choose another name, or force it (--force)")
    if chosen is OFFICIAL:
        check_alone(folder, path.name if by_file else OFFICIAL.new_weights)
    drop = OPTIONAL_FILES if force and found == chosen else ()
    assert chosen.write is not None  # of those that `find_format` finds
    with whole_folder(folder, replace=force, drop=drop) as temporary:
        chosen.write(_converted(checkpoint, dtype), temporary)
        if by_file and by_file.new_weights:
            (temporary / by_file.new_weights).rename(temporary / path.name)
    return folder, chosen


def save_folder(checkpoint: Checkpoint, folder: Path, dtype: torch.dtype) -> None:
    """Write our format into a new or empty folder, or over a model of the same format."""
    _check_no_run(folder)
    found = format_in(folder)
    if found != ELMOKIT and (found is not None or _has_files(folder)):
        what = "other files" if found is None else f"a model of another format ({_in_words(found)})"
        raise FileError(
            f"{folder} holds {what}; a model is saved to a new or empty folder, or over one of "
            "elmokit's own format"
        )
    save_beside(checkpoint, folder, dtype)


def save_beside(checkpoint: Checkpoint, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write our format into the folder of a run, whose files it belongs to."""
    with whole_folder(folder) as temporary:
        write_folder(_converted(checkpoint, dtype), temporary)


def _in_words(found: Format | Literal["unknown"] | None) -> str:
    return found.label if isinstance(found, Format) else "unknown to elmokit"


def _converted(checkpoint: Checkpoint, dtype: torch.dtype) -> Checkpoint:
    """The same model with its weights in another type: float16 halves them, and is not exact."""
    largest = torch.finfo(dtype).max
    for name, tensor in checkpoint.tensors.items():
        if (tensor.abs() > largest).any():
            raise ConfigError(f"{name} has weights beyond ±{largest:g}, the limit of {dtype}")
    tensors = {name: t.to(dtype) for name, t in checkpoint.tensors.items()}
    return replace(checkpoint, tensors=tensors)


def _check_no_run(folder: Path) -> None:
    """Refuse the folder of a pre-training run: its model is what the run has learned."""
    if is_there(folder / "run.json"):
        raise FileError(f"{folder} is a pre-training run; choose another folder for this model")


def _has_files(folder: Path) -> bool:
    """Whether there is more in a folder than hidden files, such as those of git.

    What a command left that died while it wrote there does not count.
    """
    if not is_there(folder) or is_incomplete(folder):
        return False
    return any(path.name[0] != "." for path in list_folder(folder))
