"""`elmokit predict`: what a trained task model says about a text."""

import json
from typing import Annotated

import typer

from ..io.files import read_lines
from ..text.groups import grouped
from .inputs import check_text
from .options import Device, Json, Quiet, Verbose
from .report import reported

TaskRun = Annotated[str, typer.Argument(metavar="RUN", help="Folder that `elmokit train` made.")]
Text = Annotated[
    str,
    typer.Argument(metavar="TEXT", help="Text, one sentence a line; .gz and .xz too; - is stdin."),
]
Bilm = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="Where the biLM is now; default: where it was."),
]
LINES_AT_ONCE = 512


@reported
def predict_cli(
    run: TaskRun,
    text: Text = "-",
    model: Bilm = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print what a trained model says about each line of a text.

    ner prints a token and its tag a line, and an empty line after each sentence; sentiment prints
    the label and the probabilities of all. With --json, both print an object a line of the text.
    """
    from ..tasks.load import load_task

    check_text(text)
    trained = load_task(run, model=model, device=None if device == "auto" else device)
    lines = read_lines(text)
    for window in grouped(lines, len, max_items=LINES_AT_ONCE, max_size=1 << 20):
        for example, prediction in trained.predict_texts(window):
            if as_json:
                row = None if prediction is None else trained.task.row(example, prediction)
                print(json.dumps(row, ensure_ascii=False))
            else:
                print("" if prediction is None else trained.task.text(example, prediction))
