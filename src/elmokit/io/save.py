"""One exit to every format: write a checkpoint whole, or leave no trace."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import torch

from ..errors import ConfigError, FileError
from .checkpoint import Checkpoint
from .files import whole_folder
from .manylangs import write_manylangs
from .native import write_native
from .official import write_official
from .tf_checkpoint import write_tf_checkpoint

Format: TypeAlias = Literal["native", "official", "tf", "manylangs"]


MARKS: dict[Format, str] = {
    "native": "model.safetensors",
    "official": "*.hdf5",
    "tf": "*.index",
    "manylangs": "encoder.pkl",
}
"""A file that only models of each format have."""


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
    path = Path(target).expanduser()
    is_hdf5 = path.suffix in (".hdf5", ".h5")
    format = format or ("official" if is_hdf5 else "native")
    if format not in get_args(Format):
        raise ConfigError(f"format={format!r}: expected one of {', '.join(get_args(Format))}")
    if is_hdf5 and format != "official":
        raise ConfigError(f"{path}: a {path.suffix} file is of the official format, not {format!r}")
    if dtype != torch.float32 and format != "native":
        raise ConfigError(f"dtype={dtype}: only the native format has it, not {format!r}")
    folder = path.parent if is_hdf5 else path
    _check_free(folder, format, force or is_hdf5)
    writers: dict[str, Callable[[Checkpoint, Path], None]] = {
        "native": lambda c, f: write_native(c, f, dtype),
        "official": lambda c, f: write_official(c, f, path.name if is_hdf5 else "weights.hdf5"),
        "tf": write_tf_checkpoint,
        "manylangs": write_manylangs,
    }
    with whole_folder(folder, replace=force) as temporary:
        writers[format](checkpoint, temporary)
    return folder, format


def _check_free(folder: Path, format: Format, may_exist: bool) -> None:
    """Refuse a folder with other things in it, or with a model that would be mixed with this."""
    if not may_exist and any(folder.glob("*")):
        raise FileError(f"{folder} exists already; choose another name, or force it (--force)")
    for other, mark in MARKS.items():
        if other != format and any(folder.glob(mark)):
            raise FileError(
                f"{folder} holds a model of another format ({other}), which would be mixed with "
                "this one; choose another folder"
            )


def lost_in(checkpoint: Checkpoint, format: Format) -> list[str]:
    """What of a model the format cannot hold, in words for people."""
    if format == "native":
        return []
    lost = []
    if checkpoint.config.state != "zero":
        lost.append(f"the choice of state ({checkpoint.config.state})")
    if checkpoint.config.normalization != "NFC":
        lost.append("that text is not normalised")
    if checkpoint.config.tokenizer != "regex":
        lost.append(f"the tokenizer ({checkpoint.config.tokenizer})")
    if checkpoint.config.mixes:
        lost.append(f"the mixes ({', '.join(checkpoint.config.mixes)})")
    if "warm_h" in checkpoint.tensors:
        lost.append("the warm state")
    if checkpoint.vocab is not None and format == "manylangs":
        lost.append("the softmax")
    return lost
