"""`elmokit embed`: a text file → a file of vectors."""

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..config import StateMode
from ..errors import ConfigError, FileError
from ..files.folders import output_path
from ..files.read import read_lines
from ..vectors import check_output, write_jsonl
from .options import (
    BatchSize,
    ExecutionOptions,
    Force,
    Model,
    NoProgress,
    Quiet,
    TextSentences,
    Tokenizer,
    check_text,
    text_mode,
)
from .report import Progress, in_bytes, reported, say, short_path, shows_bar

if TYPE_CHECKING:
    from ..embed_file import OnProgress
    from ..model import Elmo


LevelName = StrEnum("LevelName", ["token", "sentence"])
PoolingName = StrEnum("PoolingName", ["mean", "max", "first", "last"])
EmptyName = StrEnum("EmptyName", ["raise", "zero", "nan"])
StateName = StrEnum("StateName", ["zero", "warm", "carry"])

StateOption = Annotated[
    StateName | None,
    typer.Option(help="Where the LSTMs start a sentence; default: as the model was saved."),
]


@reported
def embed_cli(
    model: Model,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="Text, one sentence per line; also .gz and .xz; - is stdin."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="File that ends in .h5, .npz, .parquet or .jsonl; - is JSON lines on stdout.",
        ),
    ] = "-",
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="LAYERS",
            help="average, top, all, mix, mix:NAME, or a number: 0 is the first, -1 the last. "
            "Default: average for tokens, 0 for sentences.",
        ),
    ] = None,
    level: Annotated[
        LevelName, typer.Option(help="One vector per token, or one per sentence.")
    ] = LevelName.token,
    pooling: Annotated[
        PoolingName, typer.Option(help="How a sentence's vectors become one.")
    ] = PoolingName.mean,
    empty: Annotated[
        EmptyName | None,
        typer.Option(help="With --level sentence, a blank line: an error, zeros, or NaN."),
    ] = None,
    sentences: TextSentences = None,
    tokenizer: Tokenizer = None,
    batch_size: BatchSize = 128,
    *,
    execution: ExecutionOptions,
    state: StateOption = None,
    no_progress: NoProgress = False,
    force: Force = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted (OUT.partial).")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Embed a text file, one sentence per line.

    Line N (from 0) becomes the dataset or key N, a blank line an empty one. With --sentences
    split, the entry of a line has the tokens of all its sentences, each embedded on its own. HDF5
    files are laid out as AllenNLP and bilm-tf wrote them. Files also hold each line's tokens and
    offsets, and what made the vectors (docs/files.md). OUT appears when it is complete; a run that
    was interrupted or killed continues with --resume.
    """
    if output == "-" and resume:
        raise ConfigError("--resume needs a file to continue: give one with -o OUT")
    if output != "-":
        check_output(output_path(output), force)
    check_text(source)
    options: dict[str, Any] = {
        "layers": layers, "level": level.value, "pooling": pooling.value,
        "empty": empty and empty.value, "sentences": text_mode(sentences),
        "batch_size": batch_size,
    }  # fmt: skip
    bar = shows_bar(no_progress, quiet)
    elmo = execution.load(model, tokenizer, cast(StateMode | None, state and state.value))
    progress = Progress(quiet, has_bar=bar)
    progress.model(model, elmo)
    on_progress = partial(progress, f"embedding {short_path(source)}", unit="lines")
    if output == "-":
        _embed_to_stdout(elmo, source, options, bar, on_progress)
    else:
        options |= {"force": force, "resume": resume, "on_progress": on_progress}
        _embed_to_file(elmo, source, output, options, bar, quiet)


def _embed_to_stdout(
    elmo: "Elmo",
    source: str,
    options: dict[str, Any],
    bar: bool,
    on_progress: "OnProgress",
) -> None:
    from ..embed_file import count_lines, embed_windows, num_axes, progress_bar

    windows = embed_windows(elmo, read_lines(source), **options)
    with progress_bar(count_lines(source), bar, on_progress) as shown:
        for window in windows:
            write_jsonl(sys.stdout, window, num_axes(options["layers"], options["level"]))
            shown.update(len(window))


def _embed_to_file(
    elmo: "Elmo", source: str, output: str, options: dict[str, Any], bar: bool, quiet: bool
) -> None:
    from ..embed_file import embed_file

    try:
        num_lines = embed_file(elmo, source, output, show_progress_bar=bar, **options)
    except KeyboardInterrupt:
        if elmo.config.state == "carry":
            raise
        raise KeyboardInterrupt("continue with --resume") from None
    except FileError as e:
        if not options["resume"] and Path(f"{output}.partial").is_dir():
            raise FileError(f"{e}; once that is solved, continue with --resume") from e
        raise
    if not quiet:
        written = in_bytes(Path(output).stat().st_size)
        say(f"{output}: {num_lines:,} lines, {written}")
