"""`elmokit convert`: a model in one format → the same model in another."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .options import Force, Quiet, Verbose
from .report import reported, say

if TYPE_CHECKING:
    from ..formats.save import Format


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

Source = Annotated[str, typer.Argument(metavar="SRC", help="Model to convert, as for info.")]
Target = Annotated[
    str,
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
    """Write a model in another format, its weights bit for bit.

    What the target cannot hold is listed on standard error.
    """
    import torch

    from ..formats.load import read_checkpoint
    from ..formats.save import lost_in, write_checkpoint

    checkpoint = read_checkpoint(source)
    wanted = cast("Format | None", to and to.value)
    weights = torch.float16 if dtype is TypeName.float16 else torch.float32
    _, format = write_checkpoint(checkpoint, target, wanted, dtype=weights, force=force)
    if quiet:
        return
    print(f"found: {checkpoint.format} at {source}")
    print(f"wrote: {_IN_WORDS[format]}, {dtype.value}, at {target}")
    if lost := lost_in(checkpoint, format):
        say(f"the format {format!r} cannot hold {' and '.join(lost)}")
