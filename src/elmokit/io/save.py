"""One exit to every format: write a checkpoint whole, or leave no trace."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ..errors import ConfigError, FileError
from .checkpoint import Checkpoint
from .files import whole_folder
from .manylangs import write_manylangs
from .native import write_native
from .official import write_official
from .tf_checkpoint import write_tf_checkpoint

Format: TypeAlias = Literal["native", "official", "tf", "manylangs"]


def write_checkpoint(
    checkpoint: Checkpoint, target: str | Path, format: Format | None = None, *, force: bool = False
) -> tuple[Path, Format]:
    """Write a model; returns the folder and the format.

    Args:
        checkpoint: The model.
        target: The folder to write; or a file that ends in `.hdf5`, which becomes the weights of
            an official pair, with `options.json` beside it.
        format: `native` (the default), `official`, `tf` or `manylangs`.
        force: Replace what is there.
    """
    path = Path(target).expanduser()
    is_hdf5 = path.suffix in (".hdf5", ".h5")
    format = format or ("official" if is_hdf5 else "native")
    if format not in get_args(Format):
        raise ConfigError(f"format={format!r}: expected one of {', '.join(get_args(Format))}")
    if is_hdf5 and format != "official":
        raise ConfigError(f"{path}: a {path.suffix} file is of the official format, not {format!r}")
    folder = path.parent if is_hdf5 else path
    taken = [path, folder / "options.json"] if is_hdf5 else list(folder.glob("*"))
    found = [str(file) for file in taken if file.exists()]
    if found and not force:
        raise FileError(f"{found[0]} exists already; choose another name, or force it (--force)")
    writers: dict[str, Callable[[Checkpoint, Path], None]] = {
        "native": write_native,
        "official": lambda c, f: write_official(c, f, path.name if is_hdf5 else "weights.hdf5"),
        "tf": write_tf_checkpoint,
        "manylangs": write_manylangs,
    }
    with whole_folder(folder) as temporary:
        writers[format](checkpoint, temporary)
    return folder, format


def lost_in(checkpoint: Checkpoint, format: Format) -> list[str]:
    """What of a model the format cannot hold, in words for people."""
    if format == "native":
        return []
    lost = []
    if checkpoint.config.tokenizer != "regex":
        lost.append(f"the tokenizer ({checkpoint.config.tokenizer})")
    if checkpoint.config.mixes:
        lost.append(f"the mixes ({', '.join(checkpoint.config.mixes)})")
    if "warm_h" in checkpoint.tensors:
        lost.append("the warm state")
    if checkpoint.vocab is not None and format == "manylangs":
        lost.append("the softmax")
    return lost
