"""`elmokit predict`: what a trained task model says about a text."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError, InputError
from ..files.read import read_lines
from ..text.batch import grouped
from .options import Device, Json, Quiet, check_text
from .report import reported

if TYPE_CHECKING:
    from ..tasks.runs.load import AnyTrainedTask

LINES_AT_ONCE = 512


@reported
def predict_cli(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder that `elmokit train` made.")],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="Text, one example per line; .gz and .xz too; - is stdin."
        ),
    ] = "-",
    question: Annotated[
        list[str] | None,
        typer.Option(
            "--question", metavar="QUESTION", help="Ask this about all of TEXT; can be repeated."
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="WORDS", help="The text itself, to ask --question about.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="Where the biLM is now; default: where it was."
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print what a trained model says about each line of a text.

    ner prints a token and its tag per line, and an empty line after each sentence; classify and
    snli print the label and the probabilities of all; squad prints the answer, srl and coref the
    text with its parts in brackets. Of a line, snli reads a premise, a tab and a hypothesis; srl a
    sentence with its [predicate] in brackets; squad a question, a tab and a text, or a JSON object
    with question and context. With --json, all print one object per line.
    """
    from ..tasks.runs.load import load_task

    if context is None:
        check_text(text)
    elif not question or text != "-":
        raise ConfigError("--context: expected --question, and no other TEXT")
    trained = load_task(run, model=model, device=device)
    lines: Iterable[str] = read_lines(text)
    if question:
        if trained.task.name != "squad":
            raise ConfigError(f"--question: {run} is a run of {trained.task.name}, not of squad")
        whole = "\n".join(lines) if context is None else context
        if not all(words.strip() for words in (*question, whole)):
            raise InputError("--question or the text is empty: expected words in both")
        lines = [json.dumps({"question": one, "context": whole}) for one in question]
    numbered = enumerate(lines, start=1)
    for window in grouped(
        numbered, lambda row: len(row[1]), max_items=LINES_AT_ONCE, max_size=1 << 20
    ):
        examples, error = _examples(trained, window, text)
        for example, prediction in zip(examples, trained.predict(examples), strict=True):
            if as_json:
                row = None if prediction is None else trained.task.as_json(example, prediction)
                print(json.dumps(row, ensure_ascii=False))
            else:
                print("" if prediction is None else trained.task.as_text(example, prediction))
        if error is not None:
            raise error


def _examples(
    trained: "AnyTrainedTask", lines: Iterable[tuple[int, str]], path: str
) -> tuple[list[Any], InputError | None]:
    """The lines as examples, up to the first that cannot be read; what is wrong with that."""
    examples = []
    for number, line in lines:
        try:
            examples.append(trained.example(line))
        except InputError as e:
            return examples, InputError(f"{path}, line {number}: {e}")
    return examples, None
