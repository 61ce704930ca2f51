"""Files of sentences with the roles of each predicate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import FormatError, InputError
from ...files.read import json_field
from ..data.lines import json_lines
from ..tags import bio_fault


@dataclass(frozen=True, slots=True)
class Frame:
    """A sentence, one of its predicates, and the BIO tags of that predicate's arguments."""

    tokens: tuple[str, ...]
    predicate: int
    tags: tuple[str, ...]


def read_frames(path: Path | str) -> list[Frame]:
    """The frames of a file of sentences, one JSON object a line.

    An object has `words` and `frames`; each frame has `pred`, the place of the predicate from 0,
    and `tags`, a BIO tag a word. Sentences without frames give none.
    """
    frames = []
    for where, record in json_lines(path):
        tokens = _texts(json_field(record, "words", list, where=where), "words", where)
        if not all(token.strip() for token in tokens):
            raise FormatError(f"{where}: word {_first_blank(tokens)} is empty")
        for i, frame in enumerate(json_field(record, "frames", list, where=where)):
            frames.append(_frame(frame, tokens, f"{where}, frame {i}"))
    if not frames:
        raise InputError(f"{path} has no frames: no sentence has a predicate")
    return frames


def _frame(record: Any, tokens: tuple[str, ...], where: str) -> Frame:
    if not isinstance(record, dict):
        raise FormatError(f"{where}: expected an object with pred and tags, found {record!r:.40}")
    predicate = json_field(record, "pred", int, where=where)
    if not 0 <= predicate < len(tokens):
        raise FormatError(f"{where}: pred={predicate}, but the sentence has {len(tokens)} words")
    tags = _texts(json_field(record, "tags", list, where=where), "tags", where)
    if len(tags) != len(tokens):
        raise FormatError(f"{where}: found {len(tags)} tags for {len(tokens)} words")
    if fault := bio_fault(tags):
        raise FormatError(f"{where}, word {fault[0]}: {fault[1]}")
    return Frame(tokens, predicate, tags)


def _texts(values: list[Any], name: str, where: str) -> tuple[str, ...]:
    for value in values:
        if not isinstance(value, str):
            raise FormatError(f"{where}: {name} has {value!r:.40}; expected text")
    return tuple(values)


def _first_blank(tokens: tuple[str, ...]) -> int:
    return next(i for i, token in enumerate(tokens) if not token.strip())
