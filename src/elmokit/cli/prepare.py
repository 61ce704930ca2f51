"""`elmokit prepare`: text → a corpus to pre-train on."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from ..tables import format_table
from .options import Force, Json, NoProgress, Quiet
from .report import Progress, in_bytes, reported, say, short_path, shows_bar

if TYPE_CHECKING:
    from ..corpus.report import Cropped, Input, Report


class SentencesName(StrEnum):
    """How sentences are found."""

    # Upper case, because `split` is a method of every string.
    AUTO = "auto"
    LINES = "lines"
    SPLIT = "split"
    WRAPPED = "wrapped"


SENTENCES_HELP = (
    "lines: one per line; split: several per line; wrapped: they run over line ends, and blank "
    "lines separate paragraphs"
)


@reported
def prepare_cli(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="Text files, plain, .gz, .xz or .zst; folders of them; - is stdin.",
            show_default=False,
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    tokenizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="regex, whitespace (the text is tokenised), spacy:LANGUAGE or kiwi.",
        ),
    ] = "regex",
    sentences: Annotated[
        SentencesName,
        typer.Option(help=f"{SENTENCES_HELP}; auto: chosen for each INPUT by how it looks."),
    ] = SentencesName.AUTO,
    max_length: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Maximum words per sentence; longer ones are cut."),
    ] = 400,
    vocab_size: Annotated[
        int,
        typer.Option(min=4, metavar="N", help="Maximum words that the model learns to predict."),
    ] = 50_000,
    min_count: Annotated[
        int, typer.Option(min=1, metavar="N", help="How often each of them must occur.")
    ] = 1,
    max_characters: Annotated[
        int,
        typer.Option(
            min=3,
            max=1000,
            metavar="N",
            help="Maximum UTF-8 bytes per word, including two boundary markers.",
        ),
    ] = 50,
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="W1,W2,…",
            help="How often each sentence occurs in the training text, one number per INPUT; 0.5 "
            "keeps half of the lines.",
        ),
    ] = None,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Remove markup, and drop boilerplate, duplicate lines and training lines "
            "that are held out too.",
        ),
    ] = False,
    valid: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Text to hold out; may be given several times."),
    ] = None,
    valid_fraction: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.5,
            metavar="SHARE",
            help="Without --valid, the share of the text to hold out, by a hash of each line; at "
            "most 200,000 tokens.",
        ),
    ] = 0.01,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes; default: one per core.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    no_progress: NoProgress = False,
    quiet: Quiet = False,
) -> None:
    """Make a corpus to pre-train on from plain text.

    All text is checked before work begins. DIR appears when it is complete; a run that was
    interrupted or killed continues where it stopped when the same command is given again.
    """
    from ..corpus.corpus import PrepareConfig
    from ..corpus.prepare import prepare
    from ..pretraining.config import PRESETS, memory_estimate

    config = PrepareConfig(
        tokenizer=tokenizer, sentences=sentences.value, max_length=max_length,
        vocab_size=vocab_size, min_count=min_count, max_characters=max_characters,
        valid_fraction=valid_fraction, clean=clean,
    )  # fmt: skip
    bar = shows_bar(no_progress, quiet)
    progress = Progress(quiet, has_bar=bar)
    progress.header(
        f"preparing {output}",
        f"{_count(len(inputs), 'input')}",
        f"tokenizer {tokenizer}",
        f"sentences {sentences.value}",
    )
    try:
        report = prepare(
            inputs, output, config, weights=_weights(weight), valid=valid or (), workers=workers,
            force=force, show_progress_bar=bar, on_stage=partial(progress, unit="bytes"),
        )  # fmt: skip
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command continues") from None
    memory = {name: memory_estimate(preset, report.vocab_size) for name, preset in PRESETS.items()}
    if as_json:
        print(json.dumps({**asdict(report), "memory": memory}, ensure_ascii=False))
    elif not quiet:
        say(f"{output}: {in_bytes(sum(f.stat().st_size for f in Path(output).iterdir()))}")
        print("\n".join(_lines(report, memory)))


def _weights(text: str | None) -> list[float] | None:
    """The numbers of --weight."""
    if text is None:
        return None
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as e:
        raise ConfigError(
            f"--weight {text}: expected one number per input with commas between, as in 1,2,0.5"
        ) from e


def _lines(report: "Report", memory: dict[str, int]) -> Iterator[str]:
    """The report for a person: one fact per line, and what to do about it below."""
    yield _row("text", f"{in_bytes(report.bytes)} in {_count(report.files, 'file')}, "
               f"{_count(report.lines, 'line')}")  # fmt: skip
    if len(report.inputs) == 1:
        yield _row("sentences", f"{_HOW[report.mode]}: {report.reason}")
    for name, num_sentences, num_tokens in (
        ("training", report.train_sentences, report.train_tokens),
        ("held out", report.valid_sentences, report.valid_tokens),
    ):
        yield _row(name, f"{_count(num_tokens, 'token')} in {_count(num_sentences, 'sentence')}")
    yield _row("words", f"{report.words:,} distinct, {report.vocab_size:,} in the vocabulary")
    shares = ", ".join(f"{share:.2%} by {size:,}" for size, share in report.coverage)
    yield _row("coverage", f"of the training text: {shares}")
    if dict(report.coverage)[report.vocab_size] < 0.9:
        yield _row("", "a larger --vocab-size, or for Korean --tokenizer kiwi, covers more")
    if report.valid_tokens:
        yield _row("", f"outside of it in the held-out text: {report.unknown_share:.2%}")
    yield from _oddities(report)
    sizes = ", ".join(f"{name} {in_bytes(size)}" for name, size in memory.items())
    yield _row("memory", f"to train, about: {sizes}")
    if len(report.inputs) > 1:
        yield from _input_rows(report.inputs)
    if report.cleaned:
        yield from _cleaned_rows(report)


_HOW = {
    "lines": "one per line (--sentences lines)",
    "split": "found within each line (--sentences split)",
    "wrapped": "found across lines (--sentences wrapped)",
}


def _oddities(report: "Report") -> Iterator[str]:
    """What may be wrong with the text, each with what to do."""
    cut = report.cut_sentences
    if report.empty_files:
        yield _row("empty files", f"for example {report.empty_files[0]}")
    if report.empty_lines and report.mode != "wrapped":
        yield _row("empty lines", f"{report.empty_lines:,}, passed over")
    if report.duplicated_lines and not report.cleaned:
        fraction = report.duplicated_lines / max(1, report.lines - report.empty_lines)
        advice = "; --clean drops them" if fraction > 0.1 else ""
        yield _row("duplicates", f"{report.duplicated_lines:,} lines ({fraction:.1%}){advice}")
    if report.leaked_lines and not report.cleaned:
        yield _row(
            "leaked",
            f"{report.leaked_lines:,} held-out lines are in the training text too; --clean drops "
            "them there",
        )
    if cut:
        advice = "; try --sentences split" if report.mode == "lines" else ""
        yield _row("cut", f"{cut:,} sentences of more than {report.max_length} words{advice}")
    yield _row("cropped", _cropped(report.cropped, report))


def _cropped(cropped: "Cropped", report: "Report") -> str:
    if not cropped.words:
        return f"no word is longer than {report.max_characters - 2} bytes"
    examples = ", ".join(word if len(word) <= 30 else f"{word[:29]}…" for word in cropped.examples)
    tokens = _count(cropped.tokens, "token")
    text = f"{_count(cropped.words, 'word')} ({tokens}), for example {examples}"
    if cropped.needed > report.max_characters:
        return f"{text}; --max-characters {cropped.needed} would hold 99.99 % of the text"
    return text


def _input_rows(inputs: Sequence["Input"]) -> Iterator[str]:
    """One row per input."""
    rows = [
        (
            short_path(text.name), f"{text.weight:g}", in_bytes(text.bytes), f"{text.lines:,}",
            f"{text.sentences:,}", f"{text.tokens:,}", f"{text.share:.1%}",
            f"{text.mode}: {text.reason}",
        )
        for text in inputs[:_MAX_ROWS]
    ]  # fmt: skip
    yield ""
    yield format_table(_INPUT_TITLES, rows)
    if len(inputs) > _MAX_ROWS:
        yield f"and {len(inputs) - _MAX_ROWS:,} more; --json shows all"


_INPUT_TITLES = (
    "input", "weight", "size", "lines", "sentences", "tokens", "of training", "sentences found by",
)  # fmt: skip
_MAX_ROWS = 20


def _cleaned_rows(report: "Report") -> Iterator[str]:
    """What cleaning did, to each input if there are several, and to all."""
    titles = ("changed", "markup", "boilerplate", "duplicates", "leaked")
    inputs = report.inputs[:_MAX_ROWS] if len(report.inputs) > 1 else []
    found = [
        *((short_path(text.name), text.cleaned) for text in inputs),
        ("all lines", report.cleaned),
    ]
    rows = [(name, *(f"{getattr(done, title):,}" for title in titles)) for name, done in found]
    yield ""
    yield format_table(("cleaned", *titles), rows)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _row(name: str, text: str) -> str:
    return f"{name:12} {text}"
