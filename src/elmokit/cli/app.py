"""The program `elmokit` and its verbs."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from elmokit import __version__

from .bench import bench_cli
from .convert import ConvertCommand, convert_cli
from .demo import demo_cli
from .embed import embed_cli
from .evaluate import evaluate_cli
from .info import download_cli, info_cli, models_cli
from .predict import predict_cli
from .prepare import prepare_cli
from .pretrain import pretrain_cli
from .probe import probe_app
from .reproduce import reproduce_cli
from .similar import similar_cli
from .substitutes import substitutes_cli
from .train import train_cli

app = typer.Typer(
    name="elmokit",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Text goes out as it came in, whatever LANG says; file names may hold surrogates.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    app(prog_name="elmokit")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elmokit {__version__}")
        raise typer.Exit


@app.callback()
def _elmokit(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """ELMo: deep contextualised word vectors, from every published model."""


app.command("demo")(demo_cli)
app.command("embed")(embed_cli)
app.command("info")(info_cli)
app.command("models")(models_cli)
app.command("download")(download_cli)
app.command("convert", cls=ConvertCommand)(convert_cli)
app.command("similar")(similar_cli)
app.command("evaluate")(evaluate_cli)
app.command("substitutes")(substitutes_cli)
app.command("bench")(bench_cli)
app.command("prepare")(prepare_cli)
app.command("pretrain")(pretrain_cli)
app.add_typer(probe_app, name="probe")
app.command("train")(train_cli)
app.command("predict")(predict_cli)
app.command("reproduce")(reproduce_cli)
