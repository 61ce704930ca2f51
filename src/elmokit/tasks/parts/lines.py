"""Data with one example per line: JSON objects and tab-separated tables, and what is held out."""

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ...errors import ConfigError, FormatError, InputError, quoted
from ...files.read import read_lines

T = TypeVar("T")


log = logging.getLogger(__name__)

Lines: TypeAlias = list[tuple[int, str]]
"""The lines of a file, with their numbers, from 1."""
LabelledRow: TypeAlias = tuple[str, Sequence[str], str]
"""The file and line of a row for errors, its texts and its label."""


def numbered_lines(path: Path | str) -> Lines:
    """All lines of a file that is not empty."""
    lines = list(enumerate(read_lines(path), start=1))
    if not any(line.strip() for _, line in lines):
        raise InputError(f"{path} is empty")
    return lines


def filled_lines(path: Path | str) -> Lines:
    """The lines that are not blank."""
    return [(number, line) for number, line in numbered_lines(path) if line.strip()]


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

    `lines` are those of the file, if they have been read already.
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
    if any(isinstance(column, str) for column in columns):
        first, names = lines.pop(0)
        header = [name.strip() for name in names.split("\t")]
        if not lines:
            raise InputError(f"{path} has a header and nothing else")
        for column in columns:
            if isinstance(column, str) and column not in header:
                raise FormatError(
                    f"{path}, line {first}: there is no column {quoted(column)} in a table with "
                    f"tabs; found {', '.join(header):.200}"
                )
    numbers = [header.index(c) if isinstance(c, str) else c for c in columns]
    width = len(header or lines[0][1].split("\t"))
    if not all(0 <= column < width for column in numbers):
        raise ConfigError(f"column {max(numbers)}: {path} has {width} columns, from 0")
    for number, line in lines:
        where = f"{path}, line {number}"
        values = line.split("\t")
        if len(values) != width:
            raise FormatError(f"{where}: found {len(values)} of {width} columns")
        yield where, [values[column] for column in numbers]


def tokenized_rows(
    path: Path | str,
    rows: Iterable[LabelledRow],
    tokenizer: Callable[[str], list[str]],
    without_tokens: str,
) -> Iterator[tuple[list[tuple[str, ...]], str]]:
    """The tokens of the texts of each row, and its label.

    Rows with an empty text are left out, and their number is logged as that of `without_tokens`.
    """
    num_empty = 0
    for where, texts, label in rows:
        if not label.strip():
            raise FormatError(f"{where}: the label is empty")
        tokens = [tuple(tokenizer(text)) for text in texts]
        if all(tokens):
            yield tokens, label.strip()
        else:
            num_empty += 1
    if num_empty:
        log.warning("%s: %s, left out: %d", path, without_tokens, num_empty)


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
        sides = tuple(tokenizer(first)), tuple(tokenizer(second))
        if not all(sides):
            raise FormatError(f"{where}: the text is empty; leave the line out")
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise FormatError(f"{where}: the score {score!r:.40} is not a number")
        pairs.append(ScoredPair(*sides, value))
    return pairs


def split_held_out(
    items: Iterable[T], name: Callable[[T], str], held_out: float, *, is_training: bool
) -> list[T]:
    """The held-out items, or the others for training; all of them if nothing is held out.

    Items of the same name are on the same side of the split, wherever they are in the file.

    Args:
        items: What is in the file.
        name: What identifies an item, such as its text.
        held_out: Fraction of the names that is held out.
        is_training: Which side of the split to return.
    """
    if not held_out:
        return list(items)
    return [item for item in items if (hash_fraction(name(item)) < held_out) != is_training]


def hash_fraction(name: str) -> float:
    """A hash of a name, as a number from 0 to below 1."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48
