"""`elmokit predict`: what a trained task model says about a text."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
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
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Format of TEXT: text, or one of the task's data (conll, klue, tsv, jsonl, trees, "
            "squad); default: by the suffix, and text for all others.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="Where the biLM is now; default: where it was."
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="For translate: width of the beam; 1 is greedy."),
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="For translate: print the N best, with scores."),
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="For translate, with --json: the attention, too.")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print what a trained model says about each line of a text, or about a data file.

    ner prints a token and its tag per line, and an empty line after each sentence; classify and
    snli print the label and the probabilities of all; squad prints the answer, extract the
    summary, translate the translation, srl and coref the text with its parts in brackets. Of a
    line, snli reads a premise, a tab and a hypothesis; srl a sentence with each [predicate] in
    brackets; squad a question, a tab and a text, or a JSON object with question and context. With
    --json, all print one object per text, with the text itself and the offsets of what was found
    in it.

    TEXT can also be a file of the kind that the task trains on, such as CoNLL columns or SQuAD's
    JSON; the labels in it are ignored.
    """
    from ..tasks.runs.load import load_task

    if context is not None and (not question or text != "-"):
        raise ConfigError("--context: expected --question, and no other TEXT")
    if question and form not in (None, "text"):
        raise ConfigError(f"--question asks about text; --format {form} has its own questions")
    if context is None and not Path(text).is_dir():  # a task may read a folder of files
        check_text(text)
    if align and not as_json:
        raise ConfigError("--align: expected --json, which has a place for the attention")
    trained = load_task(run, model=model, device=device)
    asked = {"beam": beam, "n_best": n_best, "align": align or None}
    changes = {name: value for name, value in asked.items() if value is not None}
    if changes:
        trained = trained.decoding(**changes)
    chosen = "text" if question else form or trained.task.format_of(text)
    if chosen != "text":
        every = trained.unlabelled(text, chosen)
        for examples in grouped(every, len, max_items=LINES_AT_ONCE, max_size=LINES_AT_ONCE):
            _print(trained, examples, as_json)
        return
    lines: Iterable[str] = read_lines(text) if context is None else [context]
    if question:
        if trained.task.name != "squad":
            raise ConfigError(f"--question: {run} is a run of {trained.task.name}, not of squad")
        lines = _asked(trained, question, lines)
    numbered = enumerate(lines, start=1)
    for window in grouped(
        numbered, lambda row: len(row[1]), max_items=LINES_AT_ONCE, max_size=1 << 20
    ):
        found, error = _examples(trained, window, text)
        _print(trained, found, as_json)
        if error is not None:
            raise error


def _asked(trained: "AnyTrainedTask", questions: Sequence[str], lines: Iterable[str]) -> list[str]:
    """A line for each question about the whole text."""
    whole = "\n".join(lines)
    if not all(words.strip() for words in (*questions, whole)):
        raise InputError("--question or the text is empty: expected words in both")
    return [trained.task.line((question, whole), trained.config) for question in questions]


def _print(trained: "AnyTrainedTask", texts: Sequence[Sequence[Any]], as_json: bool) -> None:
    if as_json:
        for result in trained.results(texts):
            print(json.dumps(result.to_dict(), ensure_ascii=False))
        return
    examples = [example for of_text in texts for example in of_text]
    for example, prediction in zip(examples, trained.predict(examples), strict=True):
        print("" if prediction is None else trained.task.as_text(example, prediction))


def _examples(
    trained: "AnyTrainedTask", lines: Iterable[tuple[int, str]], path: str
) -> tuple[list[list[Any]], InputError | None]:
    """The examples of each line, up to the first that cannot be read; what is wrong with that."""
    examples = []
    for number, line in lines:
        try:
            examples.append(trained.examples(line))
        except InputError as e:
            return examples, InputError(f"{path}, line {number}: {e}")
    return examples, None
