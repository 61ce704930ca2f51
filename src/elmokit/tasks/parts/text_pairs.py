"""Texts and what should become of them, such as translations: readers of the field's files.

A pair is a row of a table with a header, a line of two parallel files, or a JSON object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError, FormatError, quoted
from ...text.normalize import without_surrogates
from .lines import Lines, filled_lines, json_lines, numbered_lines, table_rows


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text, and one or more texts that it may become; the first target is the original one."""

    source: str
    targets: tuple[str, ...]


def read_text_pairs(
    path: Path | str,
    target_path: Path | str | None = None,
    *,
    source: str = "source",
    target: str = "target",
) -> list[TextPair]:
    """The pairs of a file, or of two files whose lines belong together.

    The first line of a single file tells its format: a JSON object, or the header of a table with
    tabs. Quotation marks in a table are text like any other. A row without a source or a target is
    an error; blank lines are none.

    Args:
        path: The file, plain or compressed; the sources alone if there is a `target_path`.
        target_path: The file with the target of each line.
        source: Name of the column or field of the sources.
        target: Likewise of the targets. A JSON object may have a list of them, under this name
            and an s.

    Example:
        >>> read_text_pairs("pairs.tsv")[0]  # doctest: +SKIP
        TextPair(source='Mind your own business.', targets=('¡Métete en tus asuntos!',))
    """
    if target_path is not None:
        return list(_parallel(path, target_path))
    lines = filled_lines(path)
    is_json = lines[0][1].lstrip().startswith("{")
    read = _json_pairs if is_json else _table_pairs
    return list(read(path, lines, source, target))


def with_all_targets(pairs: Iterable[TextPair]) -> list[TextPair]:
    """One pair per distinct source, in order, with the targets of all of its rows: for scores.

    Example:
        >>> with_all_targets([TextPair("Hi.", ("Hola.",)), TextPair("Hi.", ("Buenas.",))])
        [TextPair(source='Hi.', targets=('Hola.', 'Buenas.'))]
    """
    targets: dict[str, dict[str, None]] = {}
    for pair in pairs:
        targets.setdefault(pair.source, {}).update(dict.fromkeys(pair.targets))
    return [TextPair(source, tuple(found)) for source, found in targets.items()]


def _table_pairs(
    path: Path | str, lines: Lines, source: str, target: str
) -> Iterator[TextPair]:  # fmt: skip
    for where, (text, other) in table_rows(path, source, target, lines=lines):
        yield TextPair(_text(text, where, source), (_text(other, where, target),))


def _json_pairs(path: Path | str, lines: Lines, source: str, target: str) -> Iterator[TextPair]:
    for where, record in json_lines(path, lines):
        text = _text(field_of(record, source, where), where, source)
        yield TextPair(text, tuple(targets_of(record, target, where)))


def targets_of(record: Mapping[str, Any], name: str, where: str) -> Iterator[str]:
    """The target of a JSON object, or each of its list of targets."""
    names = f"{name}s"
    if name in record and names in record:
        raise FormatError(f"{where}: expected {quoted(name)} or {quoted(names)}, found both")
    if names not in record:
        yield _text(field_of(record, name, where, names), where, name)
        return
    values = record[names]
    if not isinstance(values, list) or not values:
        raise FormatError(f"{where}: {names}={quoted(values)}; expected a list of texts")
    for value in values:
        yield _text(value, where, f"entry of {names}")


def field_of(record: Mapping[str, Any], name: str, where: str, *others: str) -> object:
    if name not in record:
        names = " or ".join(map(quoted, (name, *others)))
        raise FormatError(
            f"{where}: the field {names} is missing; found {', '.join(map(quoted, record)):.200}"
        )
    return record[name]


def _parallel(path: Path | str, target_path: Path | str) -> Iterator[TextPair]:
    """The lines of two files; those that are blank in both are left out."""
    if str(path) == "-" and str(target_path) == "-":
        raise ConfigError("standard input (-) can be read only once; give one side as a file")
    sources, targets = (_texts(name) for name in (path, target_path))
    if len(sources) != len(targets):
        raise FormatError(
            f"{path} has {len(sources):,} lines and {target_path} {len(targets):,}; parallel files "
            "have as many, in the same order"
        )
    for number, (source, target) in enumerate(zip(sources, targets), start=1):
        if source.strip() or target.strip():
            text = _text(source, f"{path}, line {number}", "source")
            yield TextPair(text, (_text(target, f"{target_path}, line {number}", "target"),))


def _texts(path: Path | str) -> Sequence[str]:
    return [line for _, line in numbered_lines(path)]


def _text(value: object, where: str, name: str) -> str:
    """A text that is there, as UTF-8 can hold it."""
    if not isinstance(value, str):
        raise FormatError(f"{where}: the {name} is {quoted(value)}; expected text")
    if not value.strip():
        raise FormatError(f"{where}: the {name} is empty; leave the row out")
    return without_surrogates(value)
