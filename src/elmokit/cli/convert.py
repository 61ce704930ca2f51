"""`elmokit convert`: a model in one format → the same model in another."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..errors import ConfigError, FileError
from ..io.files import whole_folder
from .options import Force, Quiet, Verbose
from .report import reported, say

if TYPE_CHECKING:
    from ..io.checkpoint import Checkpoint
    from ..io.save import Format


class FormatName(StrEnum):
    """A format that can be written."""

    native = "native"
    official = "official"
    tf = "tf"
    manylangs = "manylangs"


class TypeName(StrEnum):
    """A type of weights."""

    float32 = "float32"
    float16 = "float16"


_IN_WORDS = {
    "native": "elmokit folder",
    "official": "official HDF5 pair",
    "tf": "TensorFlow checkpoint",
    "manylangs": "ELMoForManyLangs folder",
}

Source = Annotated[
    str, typer.Argument(metavar="SRC", help="Folder, file, .zip or Hub id of a model.")
]
Target = Annotated[
    Path,
    typer.Argument(metavar="DST", help="Folder to write; or NAME.hdf5 for an official pair."),
]
To = Annotated[
    FormatName | None,
    typer.Option(
        "--to", help="native: config.json + model.safetensors (the default); official: "
        "options.json + weights.hdf5; tf: TensorFlow checkpoint; manylangs: ELMoForManyLangs."
    ),
]  # fmt: skip
Type = Annotated[
    TypeName, typer.Option(help="float16 halves the size and rounds the weights; native only.")
]


@reported
def convert_cli(
    source: Source,
    target: Target,
    to: To = None,
    dtype: Type = TypeName.float32,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a model in another format, its weights the same to the last bit.

    What the target cannot hold is listed on standard error.
    """
    from ..io.load import read_checkpoint
    from ..io.save import lost_in, write_checkpoint

    checkpoint = read_checkpoint(source)
    if dtype is TypeName.float16:
        folder, format = _write_half(checkpoint, target.expanduser(), to, force)
    else:
        wanted = cast("Format | None", to and to.value)
        folder, format = write_checkpoint(checkpoint, target, wanted, force=force)
    if quiet:
        return
    print(f"found: {checkpoint.format} at {source}")
    print(f"wrote: {_IN_WORDS[format]}, {dtype.value}, at {folder}")
    if lost := lost_in(checkpoint, format):
        say(f"the format {format!r} cannot hold {' and '.join(lost)}")


def _write_half(
    checkpoint: "Checkpoint", folder: Path, to: FormatName | None, force: bool
) -> tuple[Path, "Format"]:
    import torch

    from ..io.native import write_native

    if to not in (None, FormatName.native) or folder.suffix in (".hdf5", ".h5"):
        raise ConfigError("--dtype float16: only the native format has it; the others are float32")
    if not force and any(folder.glob("*")):
        raise FileError(f"{folder} exists already; choose another name, or force it (--force)")
    largest = torch.finfo(torch.float16).max
    for name, tensor in checkpoint.tensors.items():
        if (tensor.abs() > largest).any():
            raise ConfigError(f"--dtype float16: {name} has weights beyond ±{largest:g}")
    with whole_folder(folder) as temporary:
        write_native(checkpoint, temporary, torch.float16)
    return folder, "native"
