"""Arguments and options that several verbs share, and what they name.

That is models, layers, texts and files of settings.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..config import StateMode
from ..errors import FormatError
from ..files.read import MAX_JSON_BYTES, check_readable, is_there, read_json, read_lines

if TYPE_CHECKING:
    from ..model import Elmo
    from ..text.sentences import TextMode
    from .report import Progress

Model: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Name of a bundled or published model (elmokit models lists them), or folder, file, "
        "archive, address or Hub id of one in any published format.",
    ),
]
Tokenizer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="regex, whitespace (the text is tokenised), spacy:LANGUAGE or kiwi; default: the "
        "model's own.",
    ),
]
TextSentences: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sentences",
        metavar="lines|split|auto",
        help="lines: one per line (the default); split: several per line, each read on its own; "
        "auto: chosen by how the text looks.",
    ),
]
BatchSize: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Sentences that run together, at most.")
]
Device: TypeAlias = Annotated[
    str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda, cuda:1, mps, …")
]
Engine: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, native (the C kernel), torch, or plain (elmokit.nn as it is written, slow).",
    ),
]
NoProgress: TypeAlias = Annotated[
    bool, typer.Option("--no-progress", help="Show no bar, on a terminal either.")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Such as train.lr=1e-3; can be repeated."),
]
Resume: TypeAlias = Annotated[
    bool, typer.Option("--resume", help="Continue where the run stopped.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite what exists.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but errors on standard error.")
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more, and show the traceback of an error.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutionOptions:
    """Where and how a model runs, as options of a command."""

    device: Device = "auto"
    engine: Engine = "auto"

    def load(
        self, source: str, tokenizer: str | None = None, state: StateMode | None = None
    ) -> "Elmo":
        """The model at `source`, ready to embed."""
        from ..model import Elmo

        return Elmo.from_pretrained(
            source, device=self.device, engine=self.engine, tokenizer=tokenizer, state=state
        )


def text_mode(sentences: str | None) -> "TextMode | None":
    """The value of --sentences, if it is one that keeps an entry for each line."""
    from ..text.sentences import with_text_mode

    mode: TextMode | None = sentences  # type: ignore[assignment]
    with_text_mode((), mode)
    return mode


def check_text(source: str) -> None:
    """Fail for a text that cannot be read before a model is loaded for it."""
    path = Path(source)
    if source != "-" and not (is_there(path) and path.is_fifo()):
        next(read_lines(source), None)


def lines_shown(
    source: str, show_bar: bool, progress: "Progress | None" = None, stage: str = ""
) -> Iterable[str]:
    """The lines of a text, under a bar of them if one is wanted; else `progress` gets a stage."""
    from ..embed_file import count_lines

    if not show_bar:
        if progress is None or progress.is_silent:
            return read_lines(source)
        return _counted(read_lines(source), count_lines(source), progress, stage)
    from tqdm.auto import tqdm

    lines: Iterable[str] = tqdm(
        read_lines(source), total=count_lines(source), unit=" lines", leave=False
    )
    return lines


def _counted(
    lines: Iterable[str], total: int | None, progress: "Progress", stage: str
) -> Iterator[str]:
    for number, line in enumerate(lines):
        progress(stage, number, total, "lines")
        yield line


def apply_file(values: dict[str, Any], path: str) -> None:
    """Put the settings of a TOML or JSON file on top of `values`."""
    _merge(values, _read_settings(Path(path)))


def _read_settings(path: Path) -> dict[str, Any]:
    if path.suffix != ".toml":
        return read_json(path)
    check_readable(path, MAX_JSON_BYTES)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise FormatError(f"{path} is not TOML: {e}") from e


def _merge(values: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value
