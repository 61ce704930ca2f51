"""One exit to every format: write a checkpoint whole, or leave no trace."""

from collections.abc import Callable
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import torch

from ..errors import ConfigError, FileError, quoted
from ..files.files import is_there, list_folder, read_json
from ..files.output import output_path
from ..files.replace import is_incomplete, whole_folder
from .checkpoint import Checkpoint
from .manylangs import write_manylangs
from .native import write_native
from .official import WEIGHTS, hdf5_files, kind_of_hdf5, write_official
from .tf_checkpoint import write_tf_checkpoint

Format: TypeAlias = Literal["native", "official", "tf", "manylangs"]


UNKNOWN = "unknown to elmokit"

MARKS = {
    "manylangs": ("encoder.pkl", "token_embedder.pkl"),
    "tf": ("*.index",),
    "TensorFlow Hub": ("saved_model.pb", "tfhub_module.pb", "variables"),
    "official": ("*options.json", "*.hdf5"),
    UNKNOWN: ("config.json", "*.safetensors"),
}
"""Files that tell which format the model in a folder has, if it is not ours."""


def write_checkpoint(
    checkpoint: Checkpoint,
    target: str | Path,
    format: Format | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    force: bool = False,
) -> tuple[Path, Format]:
    """Write a model; returns the folder and the format.

    Args:
        checkpoint: The model.
        target: The folder to write; or a file that ends in `.hdf5`, which becomes the weights of
            an official pair, with `options.json` beside it.
        format: `native` (the default), `official`, `tf` or `manylangs`.
        dtype: Type of the weights; torch.float16 only in the native format.
        force: Replace a model of the same format.
    """
    try:
        path = output_path(target).expanduser()
    except RuntimeError as e:
        raise ConfigError(f"{quoted(str(target))}: {e}") from e
    is_hdf5 = path.suffix in (".hdf5", ".h5")
    format = format or ("official" if is_hdf5 else "native")
    if format not in get_args(Format):
        names = ", ".join(get_args(Format))
        raise ConfigError(f"format={quoted(format)}: expected one of {names}")
    if is_hdf5 and format != "official":
        raise ConfigError(f"{path}: a {path.suffix} file is of the official format, not {format!r}")
    if dtype != torch.float32 and format != "native":
        raise ConfigError(f"dtype={dtype}: only the native format has it, not {format!r}")
    folder, weights = (path.parent, path.name) if is_hdf5 else (path, "weights.hdf5")
    _check_no_run(folder)
    found = format_in(folder)
    # A pair has no file of the names that tell of an unknown format.
    if found not in (format, None) and not (is_hdf5 and found == UNKNOWN):
        raise FileError(
            f"{folder} holds a model of another format ({found}), which would be mixed with this "
            "one; choose another folder"
        )
    if not force and not is_hdf5 and _has_files(folder):
        raise FileError(f"{folder} exists already; choose another name, or force it (--force)")
    if format == "official":
        _check_alone(folder, weights)
    writers: dict[str, Callable[[Checkpoint, Path], None]] = {
        "native": lambda c, f: write_native(c, f, dtype),
        "official": lambda c, f: write_official(c, f, weights),
        "tf": write_tf_checkpoint,
        "manylangs": write_manylangs,
    }
    # What the old model had beside its weights, and the new one may not have.
    drop = ("softmax_weights.hdf5", "vocab.txt") if force and found == format else ()
    with whole_folder(folder, replace=force, drop=drop) as temporary:
        writers[format](checkpoint, temporary)
    return folder, format


def save_native(checkpoint: Checkpoint, folder: Path, dtype: torch.dtype) -> None:
    """Write our format into a new or empty folder, or over a model of the same format."""
    _check_no_run(folder)
    found = format_in(folder)
    if found != "native" and (found is not None or _has_files(folder)):
        what = "other files" if found is None else f"a model of another format ({found})"
        raise FileError(
            f"{folder} holds {what}; a model is saved to a new or empty folder, or over one of "
            "elmokit's own format"
        )
    save_beside(checkpoint, folder, dtype)


def save_beside(checkpoint: Checkpoint, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write our format into the folder of a run, whose files it belongs to."""
    with whole_folder(folder) as temporary:
        write_native(checkpoint, temporary, dtype)


def format_in(folder: Path) -> str | None:
    """The format of the model in a folder, or of what remains of one; None if there is none."""
    if not is_there(folder):
        return None
    if not folder.is_dir():
        raise FileError(f"{folder}: a file is in the way of the folder to be written")
    names = [path.name for path in list_folder(folder)]
    if "config.json" in names and "format_version" in read_json(folder / "config.json"):
        return "native"
    for format, marks in MARKS.items():
        if any(fnmatch(name, mark) for name in names for mark in marks):
            return format
    return None


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


def _check_alone(folder: Path, weights: str) -> None:
    """Refuse a folder in which nobody could tell which weights belong to the options."""
    for path in hdf5_files(folder, ".hdf5", ".h5") if is_there(folder) else ():
        if path.name != weights and kind_of_hdf5(path) == WEIGHTS:
            raise FileError(f"{folder} holds another model, {path.name}; choose another folder")


def lost_in(checkpoint: Checkpoint, format: Format) -> list[str]:
    """What of a model the format cannot hold, in words for people."""
    if format == "native":
        return []
    lost = []
    if checkpoint.config.state != "zero":
        lost.append(f"the choice of state ({checkpoint.config.state})")
    if checkpoint.config.normalization != "NFC":
        lost.append("that text is not normalised")
    if checkpoint.config.tokenizer not in (None, "regex"):
        lost.append(f"the tokenizer ({checkpoint.config.tokenizer})")
    if checkpoint.config.mixes:
        lost.append(f"the mixes ({', '.join(checkpoint.config.mixes)})")
    if "warm_h" in checkpoint.tensors:
        lost.append("the warm state")
    if checkpoint.vocab is not None and format == "manylangs":
        lost.append("the softmax")
    return lost
