"""`elmokit convert`: a model in one format → the same model in another."""

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import ConfigError
from .options import Force, Quiet
from .report import reported, say

TypeName = StrEnum("TypeName", ["float32", "float16"])


class ConvertCommand(TyperCommand):
    """Lists the formats below its options. To import them takes time, so only if they are shown."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the list of formats."""
        from ..formats.load import writable

        with formatter.section("Formats"):
            formatter.write_dl([(f.name, f"{f.label}: {f.layout}") for f in writable()])


def _check_format(name: str | None) -> str | None:
    from ..formats.load import find_format

    try:
        return name and find_format(name).name
    except ConfigError as e:
        raise typer.BadParameter(str(e)) from e


@reported
def convert_cli(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Model to convert, as for info.")],
    target: Annotated[
        str,
        typer.Argument(metavar="DST", help="Folder to write; or NAME.hdf5 for an official pair."),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            callback=_check_format,
            help="Format to write, from the list below; default: elmokit, or official for "
            "NAME.hdf5.",
        ),
    ] = None,
    dtype: Annotated[
        TypeName,
        typer.Option(help="float16 halves the size and rounds the weights; format elmokit only."),
    ] = TypeName.float32,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Tokenizer that the copy names: regex, whitespace, characters, spacy:LANGUAGE or "
            "kiwi; default: the one that SRC names.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a model in another format, its weights bit for bit.

    Every format keeps the tokenizer, normalisation and state, in a key of its settings that other
    programs ignore. What the target cannot hold is listed on standard error.
    """
    import torch

    from ..formats.load import read_checkpoint
    from ..formats.save import write_checkpoint
    from ..text.tokenize import load_tokenizer

    checkpoint = read_checkpoint(source)
    if tokenizer is not None:
        load_tokenizer(tokenizer)  # an unknown name, or one whose package is missing, ends here
        checkpoint.config = replace(checkpoint.config, tokenizer=tokenizer)
    weights = torch.float16 if dtype is TypeName.float16 else torch.float32
    _, format = write_checkpoint(checkpoint, target, to, dtype=weights, force=force)
    if quiet:
        return
    print(f"found: {checkpoint.format} at {source}")
    print(f"wrote: {format.label}, {dtype.value}, at {target}")
    if lost := format.lost(checkpoint):
        say(f"the format {format.name!r} cannot hold {' and '.join(lost)}")
