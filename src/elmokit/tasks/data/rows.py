"""The rows of tagged files: a token a line, blank lines between sentences."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from ...errors import FormatError, InputError
from ...files.read import read_lines
from ..tags import bio_fault, iob1_to_bio, is_iob1

Line: TypeAlias = tuple[int, str]
"""A line and its number, from 1."""


@dataclass(slots=True)
class Rows:
    """The rows of a sentence, and the line that each stands in."""

    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def column(self, number: int) -> list[str]:
        """One value of every row."""
        return [row[number] for row in self.rows]


def numbered_lines(path: Path | str) -> list[Line]:
    """All lines of a file that is not empty."""
    lines = list(enumerate(read_lines(path), start=1))
    if not any(line.strip() for _, line in lines):
        raise InputError(f"{path} is empty")
    return lines


def read_rows(
    lines: Iterable[Line],
    path: Path | str,
    *,
    is_comment: Callable[[str], bool],
    split: Callable[[str], list[str]],
    num_columns: int | None = None,
) -> list[Rows]:
    """The sentences of a file.

    Args:
        lines: The file.
        path: Its name, for errors.
        is_comment: Whether to skip a line; asked only before the first row of a sentence.
        split: A line → its columns.
        num_columns: How many each row must have; None for as many as the first.
    """
    sentences = list(_sentences(lines, is_comment, split))
    if not sentences:
        raise InputError(f"{path} has no sentences in it, only comments")
    num = num_columns or len(sentences[0].rows[0])
    for sentence in sentences:
        for row, line in zip(sentence.rows, sentence.lines, strict=True):
            if len(row) != num:
                raise FormatError(f"{path}, line {line}: found {len(row)} of {num} columns")
    return sentences


def as_bio(tags: list[list[str]], sentences: Sequence[Rows], path: Path | str) -> list[list[str]]:
    """The tags of all sentences as BIO; a file is IOB1 if all of it can be."""
    faults = [bio_fault(of_sentence) for of_sentence in tags]
    if any(faults) and all(map(is_iob1, tags)):
        return [iob1_to_bio(of_sentence) for of_sentence in tags]
    for fault, sentence in zip(faults, sentences, strict=True):
        if fault:
            raise FormatError(f"{path}, line {sentence.lines[fault[0]]}: {fault[1]}")
    return tags


def _sentences(
    lines: Iterable[Line], is_comment: Callable[[str], bool], split: Callable[[str], list[str]]
) -> Iterator[Rows]:
    sentence = Rows()
    for number, line in chain(lines, [(0, "")]):
        if not line.strip(" \t"):
            if sentence.rows:
                yield sentence
            sentence = Rows()
        elif sentence.rows or not is_comment(line):
            sentence.rows.append(split(line))
            sentence.lines.append(number)
