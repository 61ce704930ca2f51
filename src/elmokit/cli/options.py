"""Arguments and options that several verbs share, so that they mean the same everywhere."""

from typing import Annotated, TypeAlias

import typer

Model: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Name of a bundled or published model (elmokit models lists them), or folder, file, "
        "archive, address or Hub id of one in any published format.",
    ),
]
Tokenizer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="regex, whitespace (the text is tokenised), spacy:LANGUAGE or kiwi; default: the "
        "model's own.",
    ),
]
BatchSize: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Sentences that run together, at most.")
]
Device: TypeAlias = Annotated[
    str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda, cuda:1, mps, …")
]
Engine: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, native (the C kernel), torch, or plain (elmokit.nn as it is written, slow).",
    ),
]
NoProgress: TypeAlias = Annotated[
    bool, typer.Option("--no-progress", help="Show no bar, on a terminal either.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite what exists.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but errors on standard error.")
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more, and show the traceback of an error.")
]
