"""`elmokit evaluate`: how well a model predicts texts, or a task run labels data."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice, tee
from pathlib import Path
from statistics import mean, stdev
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from ..config import StateMode
from ..errors import ConfigError, FileError, InputError
from ..files.folders import output_path
from ..files.read import read_lines
from ..files.write import whole_file
from ..tables import format_table
from ..text.normalize import normalize
from ..text.sentences import SAMPLED_LINES, SentenceMode, choose_mode, find_sentences
from .embed import StateOption
from .options import (
    BatchSize,
    ExecutionOptions,
    Force,
    Json,
    NoProgress,
    Quiet,
    Tokenizer,
    check_text,
    lines_shown,
)
from .prepare import SENTENCES_HELP, SentencesName
from .report import Progress, reported, say, short_path, shows_bar, vocabulary_facts

if TYPE_CHECKING:
    from ..corpus.corpus import Mode
    from ..engine.likelihood import SentenceScore, Tally
    from ..model import Elmo


Row: TypeAlias = dict[str, Any]
"""What is measured of a text, of a sentence, or of one seed of a task run, as JSON holds it."""


@reported
def evaluate_cli(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A language model, or the RUN of a trained task.")
    ],
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT",
            help="Text files, plain, .gz, .xz or .zst; - is stdin. For task runs, labelled data.",
        ),
    ],
    scores: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Also write the log probabilities of each sentence, as JSON lines; - is stdout.",
        ),
    ] = None,
    streams: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Read each text as bilm-tf's trainer did: in N lanes, with states carried from "
            "sentence to sentence. Default: each sentence on its own.",
        ),
    ] = None,
    sentences: Annotated[
        SentencesName | None,
        typer.Option(
            help=f"{SENTENCES_HELP}; auto: chosen for each TEXT by how it looks. Default: lines."
        ),
    ] = None,
    bilm: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="For task runs: where the biLM is now."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="For task runs: which seed; default: the best.")
    ] = None,
    all_seeds: Annotated[
        bool, typer.Option("--all-seeds", help="For task runs: all seeds, with mean and deviation.")
    ] = False,
    state: StateOption = None,
    tokenizer: Tokenizer = None,
    batch_size: BatchSize = 128,
    *,
    execution: ExecutionOptions,
    as_json: Json = False,
    force: Force = False,
    no_progress: NoProgress = False,
    quiet: Quiet = False,
) -> None:
    """Measure how well a model predicts texts (their perplexity), or score a task run.

    Counts every word plus the end (forward) or start (backward) of each sentence; the mean is
    bilm-tf's. Words outside the model's vocabulary count as <UNK>. Blank lines do not count; with
    --scores and one sentence per line they have a row with 0 tokens. Several texts are measured one
    by one and together. A text can be of any size.

    Perplexities compare only between models with the same vocabulary. Bits per character (forward,
    backward, mean) compare between vocabularies too: a word outside the vocabulary costs
    -log2 p(<UNK>) and 8 bits for each UTF-8 byte of it and for its end; the sum is divided by the
    characters of all words and a separator for each.

    For a RUN that `elmokit train` made, TEXT is labelled data. The scores are those of the seed
    that was best on the development data, of another one (--seed), or of all, with their mean and
    deviation (--all-seeds).
    """
    from ..tasks.runs.files import is_task_run

    if texts.count("-") > 1:
        raise ConfigError("standard input (-) can be read only once")
    if is_task_run(model):
        is_for_text = state or tokenizer or execution.engine != "auto"
        if scores or streams or sentences or is_for_text:
            raise ConfigError(
                "--scores, --streams, --sentences, --state, --tokenizer and --engine are for "
                f"language models; {model} is a task run"
            )
        if seed is not None and all_seeds:
            raise ConfigError("--seed and --all-seeds: expected one of the two")
        results, metric = _task_scores(model, texts, bilm, seed, all_seeds, execution.device)
        _print_task_scores(results, metric, all_seeds, as_json)
        return
    if seed is not None or all_seeds or bilm is not None:
        raise ConfigError(f"--seed, --all-seeds and --model are for task runs; {model} is none")
    _check_options(scores, streams, state, as_json, force)
    _check_texts(texts)
    elmo = execution.load(model, tokenizer, cast(StateMode | None, state and state.value))
    progress = Progress(quiet, has_bar=shows_bar(no_progress, quiet))
    progress.model(model, elmo)
    with _open_scores(scores) as file:
        rows = []
        for row in _perplexities(
            elmo,
            texts,
            None if sentences is None else sentences.value,
            progress,
            streams,
            batch_size,
            file,
        ):
            rows.append(row)
            if as_json:
                print(json.dumps(row, ensure_ascii=False), flush=True)
    if not as_json and (scores != "-" or not quiet):
        _print_table(rows, sys.stderr if scores == "-" else sys.stdout)


def _check_texts(texts: Sequence[str]) -> None:
    """Fail for a text that cannot be read, or has no words, before a model is loaded for it."""
    for name in texts:
        is_file = name != "-" and not Path(name).is_fifo()
        if is_file and not any(line.strip() for line in read_lines(name)):
            raise _no_words(name)


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


def _perplexities(
    elmo: "Elmo", names: Sequence[str], mode: "Mode | None", progress: Progress,
    streams: int | None, batch_size: int, file: IO[str] | None,
) -> Iterator[Row]:  # fmt: skip
    """The perplexity of each text as plain data, then that of all if there are several.

    `streams` are lanes to read each text in; with None each sentence stands on its own, and its
    scores go to `file` as JSON lines.
    """
    from ..engine.likelihood import Tally
    from ..model.language_model import warn_of_unknown_words

    vocabulary = {"vocabulary": vocabulary_facts(elmo)}
    is_one = len(names) == 1
    total, num_sentences, modes = Tally(), 0, set()
    for name in names:
        has_bar = progress.is_silent and not progress.quiet
        lines = lines_shown(name, has_bar, progress, f"evaluating {short_path(name)}")
        text = _Text(elmo, lines, mode)
        if text.reason and not progress.quiet:
            say(f"{name}: --sentences {text.mode}: {text.reason}")
        elmo.reset_state()  # each text stands alone
        if streams is not None:
            tally = _in_streams(text, streams)
        else:
            tally = Tally()
            for score, row in _scores(text, batch_size):
                if row["tokens"]:
                    tally.add(score)
                if file is not None:
                    row = row if is_one else {"text": name, **row}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
        if not tally.num_tokens:
            raise _no_words(name)
        warn_of_unknown_words(tally, name)
        yield _row(name, tally, text.num_sentences, text.mode) | vocabulary
        total.add(tally)
        num_sentences += text.num_sentences
        modes.add(text.mode)
    if not is_one:
        mode_of_all = modes.pop() if len(modes) == 1 else "mixed"
        yield _row(None, total, num_sentences, mode_of_all) | vocabulary


class _Text:
    """The sentences of a text as the model's tokens; the mode "auto" looks at the first lines."""

    def __init__(self, elmo: "Elmo", lines: Iterable[str], mode: "Mode | None") -> None:
        self.elmo, self.reason = elmo, ""
        self.lines = iter(lines)
        self.num_sentences = 0
        if mode == "auto":
            sample = list(islice(self.lines, SAMPLED_LINES))
            choice = choose_mode(sample)
            self.lines = chain(sample, self.lines)
            mode, self.reason = choice.mode, choice.reason
        self.is_default = mode is None
        self.mode: SentenceMode = mode or "lines"

    def sentences(self) -> Iterator[tuple[int, list[str]]]:
        """The line number and the tokens of every sentence; counts those that have any."""
        reader = self.elmo.reader
        # Prepared corpora were normalised before they were split.
        lines = (normalize(line, reader.normalization) for line in self.lines)
        for number, sentence in find_sentences(lines, self.mode, reader.split):
            (tokens,) = reader.sentences(sentence, None if self.is_default else "lines")
            self.num_sentences += bool(tokens)
            yield number, tokens


def _scores(text: _Text, batch_size: int) -> Iterator[tuple["SentenceScore", Row]]:
    """The score of each sentence, and its row of the file of scores."""
    numbered, read = tee(text.sentences())
    scores = text.elmo.score_stream((tokens for _, tokens in read), batch_size=batch_size)
    for (number, _), score in zip(numbered, scores, strict=True):
        is_blank = score.num_tokens == 1
        yield (
            score,
            {
                "line": number,
                "forward": 0.0 if is_blank else _number(score.forward),
                "backward": 0.0 if is_blank else _number(score.backward),
                "tokens": 0 if is_blank else score.num_tokens,
            },
        )


def _in_streams(text: _Text, streams: int) -> "Tally":
    from ..model.language_model import LanguageModel

    sentences = (tokens for _, tokens in text.sentences() if tokens)
    return LanguageModel(text.elmo).in_streams(sentences, streams)


def _no_words(name: str) -> InputError:
    """The error for a text without words."""
    return InputError(f"{name}: the text has no words, so there is nothing to evaluate")


def _row(name: str | None, tally: "Tally", num_sentences: int, mode: str) -> Row:
    perplexity = tally.perplexity()
    return {
        "text": name,
        "forward": _number(perplexity.forward),
        "backward": _number(perplexity.backward),
        "mean": _number(perplexity.mean),
        "bits_per_character": {
            name: _number(bits) for name, bits in perplexity.bits_per_character._asdict().items()
        },
        "sentences": num_sentences,
        "tokens": perplexity.num_tokens,
        "characters": tally.num_characters,
        "unknown": perplexity.num_unknown / perplexity.num_tokens,
        "mode": mode,
    }


def _number(value: float) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else None


def _print_table(rows: Sequence[Row], file: IO[str]) -> None:
    titles = ("forward", "backward", "mean")
    table = []
    for row in rows:
        perplexities = (_in_table(row[name]) for name in titles)
        bits = "/".join(_in_table(row["bits_per_character"][name]) for name in titles)
        numbers = (f"{row['sentences']:,}", f"{row['tokens']:,}", f"{row['unknown']:.1%}")
        table.append((short_path(row["text"] or "all"), *perplexities, bits, *numbers))
    columns = ["text", *titles, "bits/character", "sentences", "tokens", "OOV"]
    print(format_table(columns, table), file=file)
    vocabulary = rows[0]["vocabulary"]
    print(
        "perplexities compare only between models with this vocabulary "
        f"({vocabulary['words']:,} words, {vocabulary['fingerprint']}); bits per character "
        "(forward/backward/mean) also between vocabularies, for the same tokens",
        file=file,
    )
    if any(row[name] is None for row in rows for name in titles):
        print("NaN: the perplexity is infinite or not a number; see: elmokit info", file=file)


def _in_table(value: float | None) -> str:
    return "NaN" if value is None else f"{value:.2f}"


def _task_scores(
    run: str, texts: Sequence[str], bilm: str | None, seed: int | None, all_seeds: bool, device: str
) -> tuple[dict[str, list[Row]], str]:
    """The scores of each seed that is asked for by data file, and the name of the main score."""
    from ..tasks.runs.files import seed_numbers
    from ..tasks.runs.load import load_seeds, load_task

    for text in texts:
        if not Path(text).is_dir():  # a task may read a folder of files
            check_text(text)
    if all_seeds and "-" in texts and len(seed_numbers(Path(run))) > 1:
        raise ConfigError("--all-seeds: expected a file, which can be read for each seed")
    results: dict[str, list[Row]] = {text: [] for text in texts}
    metric = ""
    models = (
        load_seeds(run, model=bilm, device=device)
        if all_seeds
        else [load_task(run, model=bilm, seed=seed, device=device)]
    )
    for trained in models:
        for text, rows in results.items():
            rows.append({"seed": trained.seed, **trained.evaluate(text)})
        metric = trained.task.metric
    return results, metric


def _print_task_scores(
    results: dict[str, list[Row]], metric: str, all_seeds: bool, as_json: bool
) -> None:
    """Print the scores of one seed, or what all come to, for each data file."""
    for i, (text, rows) in enumerate(results.items()):
        if as_json:
            scores = _summary(rows, metric) if all_seeds else rows[0]
            print(json.dumps({"text": text, **scores}, ensure_ascii=False))
            continue
        if len(results) > 1:
            print(f"{'' if i == 0 else chr(10)}{text}")
        _print_seeds(rows, metric)


def _print_seeds(rows: list[Row], metric: str) -> None:
    if len(rows) == 1:
        _print_seed(rows[0])
        return
    summary = _summary(rows, metric)
    for row in rows:
        print(f"seed {row['seed']:<7}  {metric} {row[metric]:.4f}")
    print(f"{'mean':<12}  {metric} {summary['mean']:.4f} ± {summary['deviation']:.4f}")


def _summary(rows: list[Row], metric: str) -> Row:
    """The scores of all seeds; the deviation of a single one is 0, as in `metrics.json`."""
    values = [row[metric] for row in rows]
    deviation = stdev(values) if len(values) > 1 else 0.0
    return {"metric": metric, "mean": mean(values), "deviation": deviation, "seeds": rows}


def _print_seed(metrics: Row) -> None:
    for name, value in metrics.items():
        if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
            for label, scores in value.items():
                print(f"  {label:<12}  {_in_words(scores)}")
        else:
            print(f"{name:<12}  {_in_words(value)}")


def _in_words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "  ".join(f"{name} {_in_words(inner)}" for name, inner in value.items())
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
