"""Data with one example a line: JSON objects, and tab-separated tables."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ...errors import ConfigError, FormatError, InputError, quoted
from ...files.read import read_lines

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
    """The JSON objects of a file, one a line, each with its place for errors.

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
    """The values of some columns, row by row, each with its place for errors.

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
