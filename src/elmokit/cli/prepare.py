"""`elmokit prepare`: text → a corpus to pre-train on."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Force, Json, NoProgress, Quiet, Verbose
from .report import reported, say, shows_bar
from .sizes import in_bytes

if TYPE_CHECKING:
    from ..data.report import Cropped, Report


class SentencesName(StrEnum):
    """How sentences are found."""

    # Upper case, because `split` is a method of every string.
    AUTO = "auto"
    LINES = "lines"
    SPLIT = "split"
    WRAPPED = "wrapped"


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Text files, plain, .gz, .xz or .zst; folders of them; - is stdin.",
        show_default=False,
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")
]  # fmt: skip
TokenizerName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="regex, whitespace (the text is tokenised), spacy:LANGUAGE or kiwi."
    ),
]
Sentences = Annotated[
    SentencesName,
    typer.Option(
        help="lines: one a line; split: several a line; wrapped: they run over line ends, and "
        "blank lines part paragraphs; auto: as the text looks."
    ),
]
MaxLength = Annotated[
    int, typer.Option(min=1, metavar="N", help="Words of a sentence; longer ones are cut.")
]
VocabSize = Annotated[
    int, typer.Option(min=4, metavar="N", help="Words that the model learns to predict, at most.")
]
MinCount = Annotated[
    int, typer.Option(min=1, metavar="N", help="How often each of them must occur.")
]
MaxCharacters = Annotated[
    int, typer.Option(min=3, max=1000, metavar="N", help="Bytes of a word that are seen, and two.")
]
Valid = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Text to hold out; may be given several times."),
]
ValidFraction = Annotated[
    float,
    typer.Option(
        min=0,
        max=0.5,
        metavar="SHARE",
        help="Without --valid, the share of the text to hold out, by a hash of each line; at most "
        "200,000 tokens.",
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Processes; default: one a core.")
]


@reported
def prepare_cli(
    inputs: Inputs,
    output: Output,
    tokenizer: TokenizerName = "regex",
    sentences: Sentences = SentencesName.AUTO,
    max_length: MaxLength = 400,
    vocab_size: VocabSize = 50_000,
    min_count: MinCount = 1,
    max_characters: MaxCharacters = 50,
    valid: Valid = None,
    valid_fraction: ValidFraction = 0.01,
    workers: Workers = None,
    force: Force = False,
    as_json: Json = False,
    no_progress: NoProgress = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make a corpus to pre-train on from plain text.

    All text is checked before work begins. DIR appears when it is complete; a run that was
    interrupted or killed continues where it stopped when the same command is given again.
    """
    from ..data.config import PrepareConfig
    from ..data.prepare import prepare

    config = PrepareConfig(
        tokenizer=tokenizer, sentences=sentences.value, max_length=max_length,
        vocab_size=vocab_size, min_count=min_count, max_characters=max_characters,
        valid_fraction=valid_fraction,
    )  # fmt: skip
    bar = shows_bar(no_progress, quiet)
    try:
        report = prepare(
            inputs, output, config, valid=valid or (), workers=workers, force=force,
            show_progress_bar=bar,
        )  # fmt: skip
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command continues") from None
    memory = _memory(report)
    if as_json:
        print(json.dumps({**asdict(report), "memory": memory}, ensure_ascii=False))
    elif not quiet:
        say(f"{output}: {in_bytes(sum(f.stat().st_size for f in output.iterdir()))}")
        print("\n".join(_lines(report, memory)))


def _lines(report: "Report", memory: dict[str, int]) -> Iterator[str]:
    """The report for a person: a fact a line, and what to do about it below."""
    yield _row("text", f"{in_bytes(report.bytes)} in {_count(report.files, 'file')}, "
               f"{_count(report.lines, 'line')}")  # fmt: skip
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


_HOW = {
    "lines": "one a line (--sentences lines)",
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
    if report.duplicated_lines:
        share = report.duplicated_lines / max(1, report.lines - report.empty_lines)
        advice = "; consider removing them (sort -u, or deduplicate pages)" if share > 0.1 else ""
        yield _row("duplicates", f"{report.duplicated_lines:,} lines ({share:.1%}){advice}")
    if report.leaked_lines:
        yield _row("leaked", f"{report.leaked_lines:,} held-out lines are in the training text too")
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


def _memory(report: "Report") -> dict[str, int]:
    """Bytes that training each preset takes on this corpus."""
    from ..train.memory import memory_estimate
    from ..train.presets import PRESETS

    return {name: memory_estimate(config, report.vocab_size) for name, config in PRESETS.items()}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _row(name: str, text: str) -> str:
    return f"{name:12} {text}"
