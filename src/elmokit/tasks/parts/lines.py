"""Data with one example per line: JSON objects and tab-separated tables, and what is held out."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ...errors import ConfigError, FormatError, InputError, quoted
from ...files.read import read_lines

T = TypeVar("T")


Lines: TypeAlias = list[tuple[int, str]]
"""The lines of a file, with their numbers."""


def filled_lines(path: Path | str) -> Lines:
    """The lines that are not blank, with their numbers."""
    lines = [(i, line) for i, line in enumerate(read_lines(path), start=1) if line.strip()]
    if not lines:
        raise InputError(f"{path} is empty")
    return lines


def json_object(line: str) -> dict[str, Any] | None:
    """The JSON object that a line is; None if it is other text."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_lines(
    path: Path | str, lines: Lines | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, one per line, each with its file and line for errors.

    Args:
        path: The file, plain or compressed.
        lines: Its lines, if they have been read already.
    """
    for number, line in filled_lines(path) if lines is None else lines:
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as e:
            raise FormatError(f"{where}: not JSON ({e})") from e
        if not isinstance(record, dict):
            raise FormatError(f"{where}: expected a JSON object, found {line!r:.40}")
        yield where, record


def table_rows(
    path: Path | str, *columns: str | int, lines: Lines | None = None
) -> Iterator[tuple[str, list[str]]]:
    """The values of some columns, row by row, each with its file and line for errors.

    Args:
        path: The file, plain or compressed.
        columns: Names, or numbers from 0. If any is a name, the first line is a header.
        lines: Its lines, if they have been read already.
    """
    lines = list(lines) if lines is not None else filled_lines(path)
    header: list[str] = []
    where = f"{path}, line {lines[0][0]}"
    if any(isinstance(column, str) for column in columns):
        header = [name.strip() for name in lines.pop(0)[1].split("\t")]
        if not lines:
            raise InputError(f"{path} has a header and nothing else")
    numbers = [_column(column, header, where) for column in columns]
    width = len(header or lines[0][1].split("\t"))
    if not all(0 <= column < width for column in numbers):
        raise ConfigError(f"column {max(numbers)}: {path} has {width} columns, from 0")
    for number, line in lines:
        where = f"{path}, line {number}"
        values = line.split("\t")
        if len(values) != width:
            raise FormatError(f"{where}: found {len(values)} of {width} columns")
        yield where, [values[column] for column in numbers]


def _column(column: str | int, header: Sequence[str], where: str) -> int:
    if isinstance(column, int):
        return column
    if column not in header:
        names = ", ".join(header)
        raise FormatError(
            f"{where}: there is no column {quoted(column)} in a table with tabs; found {names:.200}"
        )
    return header.index(column)


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts, in tokens, and how much they have in common."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    score: float


def read_pairs(path: Path | str, tokenizer: Callable[[str], list[str]]) -> list[ScoredPair]:
    """The pairs of a similarity table, whose header has score, sentence1 and sentence2."""
    pairs = []
    for where, (first, second, score) in table_rows(path, "sentence1", "sentence2", "score"):
        sides = _tokens(tokenizer, first, where), _tokens(tokenizer, second, where)
        pairs.append(ScoredPair(*sides, _number(score, where)))
    return pairs


def _tokens(tokenizer: Callable[[str], list[str]], text: str, where: str) -> tuple[str, ...]:
    tokens = tuple(tokenizer(text))
    if not tokens:
        raise FormatError(f"{where}: the text is empty; leave the line out")
    return tokens


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FormatError(f"{where}: the score {text!r:.40} is not a number")
    return value


def one_side(
    items: Iterable[T], name: Callable[[T], str], held_out: float, *, is_training: bool
) -> list[T]:
    """The items for development, or the others for training; all of them if nothing is held out.

    Items of the same name are on the same side, wherever they are in the file.

    Args:
        items: What is in the file.
        name: What an item is known by, such as its text.
        held_out: Share of the names that are for development.
        is_training: Which side is asked for.
    """
    if not held_out:
        return list(items)
    return [item for item in items if (share_of(name(item)) < held_out) != is_training]


def text_of(tokens: Iterable[str]) -> str:
    """What a sentence is known by."""
    return " ".join(tokens)


def share_of(name: str) -> float:
    """A number of 0 up to 1 that depends on nothing but a name."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48
