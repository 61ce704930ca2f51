"""`elmokit evaluate`: how well a model predicts texts."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

from ..config import StateMode
from ..errors import ConfigError, FileError
from ..files.folders import output_path
from ..files.read import read_lines
from ..files.write import whole_file
from .embed import StateOption
from .options import (
    BatchSize,
    Device,
    Engine,
    Force,
    Json,
    NoProgress,
    Quiet,
    Tokenizer,
    Verbose,
    load_model,
)
from .prepare import SentencesName
from .report import aligned, reported, shows_bar
from .scores import print_task_scores, task_scores

if TYPE_CHECKING:
    from .perplexity import Facts

Texts = Annotated[
    list[str],
    typer.Argument(
        metavar="TEXT",
        help="Text files, plain, .gz, .xz or .zst; - is stdin. For task runs, labelled data.",
    ),
]
Scores = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Also write the log probabilities of each sentence, as JSON lines; - is stdout.",
    ),
]
Streams = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Read each text as bilm-tf's trainer did: in N lanes, with states carried from "
        "sentence to sentence. Default: each sentence on its own.",
    ),
]
Sentences = Annotated[
    SentencesName,
    typer.Option(
        help="lines: one per line; split: several per line; wrapped: they run over line ends, and "
        "blank lines separate paragraphs; auto: chosen for each TEXT by how it looks."
    ),
]
Evaluated: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A language model, or the RUN of a trained task."),
]
Bilm = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="For task runs: where the biLM is now."),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="For task runs: which seed; default: the best.")
]
AllSeeds = Annotated[
    bool, typer.Option("--all-seeds", help="For task runs: all seeds, with mean and deviation.")
]


@reported
def evaluate_cli(
    model: Evaluated,
    texts: Texts,
    scores: Scores = None,
    streams: Streams = None,
    sentences: Sentences = SentencesName.LINES,
    bilm: Bilm = None,
    seed: Seed = None,
    all_seeds: AllSeeds = False,
    state: StateOption = None,
    tokenizer: Tokenizer = None,
    batch_size: BatchSize = 128,
    device: Device = "auto",
    engine: Engine = "auto",
    as_json: Json = False,
    force: Force = False,
    no_progress: NoProgress = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure how well a model predicts texts (their perplexity), or score a task run.

    Counts every word plus the end (forward) or start (backward) of each sentence; the mean is
    bilm-tf's. Words outside the model's vocabulary count as <UNK>. Blank lines do not count; with
    --scores and one sentence per line they have a row with 0 tokens. Several texts are measured one
    by one and together. A text can be of any size.

    For a RUN that `elmokit train` made, TEXT is labelled data. The scores are those of the seed
    that was best on the development data, of another one (--seed), or of all, with their mean and
    deviation (--all-seeds).
    """
    from ..tasks.runs.files import is_task_run
    from .perplexity import perplexities

    if texts.count("-") > 1:
        raise ConfigError("standard input (-) can be read only once")
    if is_task_run(model):
        is_for_text = state or tokenizer or engine != "auto" or sentences != SentencesName.LINES
        if scores or streams or is_for_text:
            raise ConfigError(
                "--scores, --streams, --sentences, --state, --tokenizer and --engine are for "
                f"language models; {model} is a task run"
            )
        if seed is not None and all_seeds:
            raise ConfigError("--seed and --all-seeds: expected one of the two")
        results, metric = task_scores(model, texts, bilm, seed, all_seeds, device)
        print_task_scores(results, metric, as_json)
        return
    if seed is not None or all_seeds or bilm is not None:
        raise ConfigError(f"--seed, --all-seeds and --model are for task runs; {model} is none")
    _check_options(scores, streams, state, as_json, force)
    _check_texts(texts)
    elmo = load_model(
        model, device, tokenizer, cast(StateMode | None, state and state.value), engine
    )
    bar = shows_bar(no_progress, quiet)
    with _open_scores(scores) as file:
        facts = perplexities(elmo, texts, sentences.value, bar, streams, batch_size, file, quiet)
        rows = []
        for row in facts:
            rows.append(row)
            if as_json:
                print(json.dumps(row, ensure_ascii=False), flush=True)
    if not as_json and (scores != "-" or not quiet):
        _print_table(rows, sys.stderr if scores == "-" else sys.stdout)


def _check_texts(texts: Sequence[str]) -> None:
    """Fail for a text that cannot be read, or has no words, before a model is loaded for it."""
    from .perplexity import no_words

    for name in texts:
        is_file = name != "-" and not Path(name).is_fifo()
        if is_file and not any(line.strip() for line in read_lines(name)):
            raise no_words(name)


def _check_options(
    scores: str | None, streams: int | None, state: object, as_json: bool, force: bool
) -> None:
    """Fail for options that cannot work together before a model is loaded for them."""
    if streams is not None and (scores is not None or state is not None):
        name = "--scores" if scores is not None else "--state"
        raise ConfigError(
            f"{name} is about sentences on their own, --streams about running text; "
            "use one of the two"
        )
    if scores == "-" and as_json:
        raise ConfigError("--scores - and --json both want standard output; give --scores a file")
    if scores is not None and scores != "-":
        path = output_path(scores)
        if path.is_dir():
            raise FileError(f"{scores} is a folder; expected the name of a file")
        if path.exists() and not force:
            raise FileError(f"{scores} exists already; choose another name, or force it (--force)")


@contextmanager
def _open_scores(scores: str | None) -> Iterator[IO[str] | None]:
    if scores is None or scores == "-":
        yield sys.stdout if scores else None
        return
    with whole_file(Path(scores)) as path, path.open("w", encoding="utf-8") as file:
        yield file


def _print_table(rows: "Sequence[Facts]", file: IO[str]) -> None:
    titles = ("forward", "backward", "mean")
    table: list[tuple[str, ...]] = [("text", *titles, "sentences", "tokens", "OOV")]
    for row in rows:
        perplexities = ("NaN" if row[name] is None else f"{row[name]:.2f}" for name in titles)
        numbers = (f"{row['sentences']:,}", f"{row['tokens']:,}", f"{row['unknown']:.1%}")
        table.append((row["text"] or "all", *perplexities, *numbers))
    for line in aligned(table):
        print(line, file=file)
    if any(row[name] is None for row in rows for name in titles):
        print("NaN: the perplexity is infinite or not a number; see: elmokit info", file=file)
