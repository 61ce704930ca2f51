"""`elmokit evaluate`: how well a model predicts a text."""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from ..config import StateMode
from ..errors import ConfigError, FileError, InputError
from ..io.files import whole_file
from .embed import StateOption
from .inputs import check_text, lines_shown, load_model
from .options import BatchSize, Device, Force, Json, NoProgress, Quiet, Tokenizer, Verbose
from .report import reported, shows_bar
from .scores import print_task_scores, task_scores

if TYPE_CHECKING:
    from ..engine.likelihood import Perplexity
    from ..model import Elmo

Text = Annotated[
    str,
    typer.Argument(metavar="TEXT", help="Text, one sentence a line; .gz and .xz too; - is stdin."),
]
Scores = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Also write the log probabilities of each line, as JSON lines; - is stdout.",
    ),
]
Streams = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Read the text as bilm-tf's trainer did: so many lanes, states carried from sentence "
        "to sentence. Default: each sentence on its own.",
    ),
]
Evaluated: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A language model, or the RUN of a trained task."),
]
Bilm = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="Of a task run: where its biLM is now."),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Of a task run: which seed; default: the best.")
]
AllSeeds = Annotated[
    bool, typer.Option("--all-seeds", help="Of a task run: all, with mean and deviation.")
]


@reported
def evaluate_cli(
    model: Evaluated,
    text: Text,
    scores: Scores = None,
    streams: Streams = None,
    bilm: Bilm = None,
    seed: Seed = None,
    all_seeds: AllSeeds = False,
    state: StateOption = None,
    tokenizer: Tokenizer = None,
    batch_size: BatchSize = 128,
    device: Device = "auto",
    as_json: Json = False,
    force: Force = False,
    no_progress: NoProgress = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure how well a model predicts a text: its perplexity; or the scores of a task run.

    Counted are all words and the end (forward) or begin (backward) of each sentence; the mean is
    that of bilm-tf. Words outside of the model's vocabulary count as <UNK>. Blank lines do not
    count; with --scores they have their line, of 0 tokens. The text can be of any size.

    Of a RUN that `elmokit train` made, TEXT is labelled data, and the task's scores are printed:
    those of the seed that was best on the development data, of another one (--seed), or of all,
    with their mean and deviation (--all-seeds).
    """
    from ..tasks.folder import is_task_run

    if is_task_run(model):
        if scores or streams or state or tokenizer:
            raise ConfigError(
                "--scores, --streams, --state and --tokenizer are of language models; "
                f"{model} is a task run"
            )
        if seed is not None and all_seeds:
            raise ConfigError("--seed and --all-seeds: expected one of the two")
        rows, metric = task_scores(model, text, bilm, seed, all_seeds, device)
        print_task_scores(rows, metric, as_json)
        return
    if seed is not None or all_seeds:
        raise ConfigError(f"--seed and --all-seeds are of task runs; {model} is none")
    _check_options(scores, streams, state, as_json, force)
    check_text(text)
    elmo = load_model(model, device, tokenizer, cast(StateMode | None, state and state.value))
    lines = _Lines(elmo, lines_shown(text, shows_bar(no_progress, quiet)))
    if streams is not None:
        perplexity = elmo.perplexity(lines.sentences(), streams=streams)
    else:
        with _open_scores(scores) as file:
            perplexity = _score(elmo, lines, batch_size, file)
    facts = _facts(perplexity, lines.num_sentences)
    if as_json:
        print(json.dumps(facts))
    elif scores != "-" or not quiet:
        _print_facts(facts, sys.stderr if scores == "-" else sys.stdout)


class _Lines:
    """The lines of a text as tokens; counts those that have any."""

    def __init__(self, elmo: "Elmo", lines: Iterable[str]) -> None:
        self.elmo, self.lines = elmo, lines
        self.num_sentences = 0

    def tokens(self) -> Iterator[list[str]]:
        """The tokens of every line."""
        for line in self.lines:
            tokens = self.elmo.reader.tokens(line)
            self.num_sentences += bool(tokens)
            yield tokens

    def sentences(self) -> Iterator[list[str]]:
        """The tokens of every line that is not blank."""
        return (tokens for tokens in self.tokens() if tokens)


def _score(elmo: "Elmo", lines: _Lines, batch_size: int, file: IO[str] | None) -> "Perplexity":
    """The perplexity of the lines; what each adds to it goes to `file`."""
    from ..engine.likelihood import Tally

    tally = Tally()
    for number, score in enumerate(elmo.score_stream(lines.tokens(), batch_size=batch_size), 1):
        is_blank = score.num_tokens == 1
        if not is_blank:
            tally.add(score)
        if file is not None:
            row = {
                "line": number,
                "forward": 0.0 if is_blank else _number(score.forward),
                "backward": 0.0 if is_blank else _number(score.backward),
                "tokens": 0 if is_blank else score.num_tokens,
            }
            file.write(json.dumps(row) + "\n")
    if not tally.num_tokens:
        raise InputError("the text has no words: there is nothing to evaluate")
    return tally.perplexity()


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
        if Path(scores).is_dir():
            raise FileError(f"{scores} is a folder; expected the name of a file")
        if Path(scores).exists() and not force:
            raise FileError(f"{scores} exists already; choose another name, or force it (--force)")


@contextmanager
def _open_scores(scores: str | None) -> Iterator[IO[str] | None]:
    if scores is None or scores == "-":
        yield sys.stdout if scores else None
        return
    with whole_file(Path(scores)) as path, path.open("w", encoding="utf-8") as file:
        yield file


def _facts(perplexity: "Perplexity", num_sentences: int) -> dict[str, Any]:
    return {
        "forward": _number(perplexity.forward),
        "backward": _number(perplexity.backward),
        "mean": _number(perplexity.mean),
        "sentences": num_sentences,
        "tokens": perplexity.num_tokens,
        "unknown": perplexity.num_unknown / perplexity.num_tokens,
    }


def _print_facts(facts: dict[str, Any], file: IO[str]) -> None:
    for name in ("forward", "backward", "mean"):
        value = "not a number; see: elmokit info" if facts[name] is None else f"{facts[name]:.4f}"
        print(f"{name:<9} perplexity  {value}", file=file)
    print(f"{facts['sentences']:,} sentences, {facts['tokens']:,} tokens", end="", file=file)
    print(f", {facts['unknown']:.1%} of them outside of the vocabulary", file=file)


def _number(value: float) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else None
