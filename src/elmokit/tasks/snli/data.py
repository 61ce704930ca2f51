"""Files of premises, hypotheses and labels: SNLI, MultiNLI, KorNLI and their like."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import FormatError, InputError
from ...files.read import json_field
from ..data.lines import Lines, filled_lines, json_lines, table_rows

log = logging.getLogger(__name__)

NAMES = (("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label"))
"""What the files call the three: ours, and the original ones."""
NO_GOLD = ("-", "-1")
"""Labels of a pair about which its annotators did not agree, by name and by number."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A premise and a hypothesis, in tokens, and what the one means for the other."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str = ""


def read_inference(path: Path | str, tokenizer: Callable[[str], list[str]]) -> list[SentencePair]:
    """The pairs of a file that have a gold label; the number of those with an empty side is said.

    The file is JSON lines, or a table with tabs and a header; either has premise, hypothesis and
    label, or sentence1, sentence2 and gold_label, and whatever else.

    Args:
        path: The file, plain or compressed.
        tokenizer: Text → tokens.
    """
    lines = filled_lines(path)
    is_json = lines[0][1].lstrip().startswith("{")
    rows = _json_rows(path, lines) if is_json else _table_rows(path, lines)
    pairs = []
    num_empty = 0
    for where, premise, hypothesis, label in rows:
        if not label:
            raise FormatError(f"{where}: the label is empty")
        if label in NO_GOLD:
            continue
        sides = tuple(tokenizer(premise)), tuple(tokenizer(hypothesis))
        num_empty += not all(sides)
        if all(sides):
            pairs.append(SentencePair(*sides, label))
    if num_empty:
        log.warning("%s: pairs with an empty side, left out: %d", path, num_empty)
    if not pairs:
        raise InputError(f"{path} has no pair with a gold label")
    return pairs


def _json_rows(path: Path | str, lines: Lines) -> Iterator[tuple[str, str, str, str]]:
    for where, record in json_lines(path, lines):
        names = NAMES[1] if NAMES[1][0] in record and NAMES[0][0] not in record else NAMES[0]
        premise, hypothesis = (json_field(record, n, str, where=where) for n in names[:2])
        label = json_field(record, names[2], str, int, where=where)
        yield where, premise, hypothesis, str(label).strip()


def _table_rows(path: Path | str, lines: Lines) -> Iterator[tuple[str, str, str, str]]:
    header = lines[0][1]
    columns = [name.strip() for name in header.split("\t")]
    names = next((names for names in NAMES if set(names) <= set(columns)), None)
    if names is None:
        raise FormatError(
            f"{path}: expected JSON lines, or a header with {', '.join(NAMES[0])} "
            f"(or {', '.join(NAMES[1])}); the first line is {header!r:.80}"
        )
    for where, (premise, hypothesis, label) in table_rows(path, *names, lines=lines):
        yield where, premise, hypothesis, label.strip()
