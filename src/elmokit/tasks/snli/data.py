"""Files of premises, hypotheses and labels: SNLI, MultiNLI, KorNLI and their like."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import FormatError, InputError
from ...io.files import json_field, read_lines
from ..data.lines import json_lines, table_rows

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
    """The pairs of a file that have a gold label.

    The file is JSON lines, or a table with tabs and a header; either has premise, hypothesis and
    label, or sentence1, sentence2 and gold_label, and whatever else.

    Args:
        path: The file, plain or compressed.
        tokenizer: Text → tokens.
    """
    first = next((line for line in read_lines(path) if line.strip()), None)
    if first is None:
        raise InputError(f"{path} is empty")
    rows = _json_rows(path) if first.lstrip().startswith("{") else _table_rows(path, first)
    pairs = []
    for where, premise, hypothesis, label in rows:
        if not label:
            raise FormatError(f"{where}: the label is empty")
        if label in NO_GOLD:
            continue
        sides = tuple(tokenizer(premise)), tuple(tokenizer(hypothesis))
        for name, tokens in zip(("premise", "hypothesis"), sides):
            if not tokens:
                raise FormatError(f"{where}: the {name} is empty; leave the line out")
        pairs.append(SentencePair(*sides, label))
    if not pairs:
        raise InputError(f"{path} has no pair with a gold label")
    return pairs


def _json_rows(path: Path | str) -> Iterator[tuple[str, str, str, str]]:
    for where, record in json_lines(path):
        names = NAMES[1] if NAMES[1][0] in record and NAMES[0][0] not in record else NAMES[0]
        premise, hypothesis = (json_field(record, n, str, where=where) for n in names[:2])
        label = json_field(record, names[2], str, int, where=where)
        yield where, premise, hypothesis, str(label).strip()


def _table_rows(path: Path | str, header: str) -> Iterator[tuple[str, str, str, str]]:
    columns = [name.strip() for name in header.split("\t")]
    names = next((names for names in NAMES if set(names) <= set(columns)), None)
    if names is None:
        raise FormatError(
            f"{path}: expected JSON lines, or a header with {', '.join(NAMES[0])} "
            f"(or {', '.join(NAMES[1])}); the first line is {header!r:.80}"
        )
    for where, (premise, hypothesis, label) in table_rows(path, *names):
        yield where, premise, hypothesis, label.strip()
