"""Texts with a label or a score: sentiment trees, tab-separated tables, JSON lines, pairs."""

import logging
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ...errors import FormatError, quoted
from .examples import LabelledText, ScoredPair
from .held_out import one_side, text_of
from .lines import Lines, filled_lines, json_lines, table_rows

log = logging.getLogger(__name__)

_TREE_TOKEN = re.compile(r"[()]|[^()\s]+")
_TREE_LABELS = ("0", "1", "2", "3", "4")
# What the treebank had to write otherwise; a biLM has read it as people do.
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "``": '"', "''": '"'}


def read_trees(
    path: Path | str,
    *,
    phrases: bool = False,
    held_out: float = 0.0,
    is_training: bool = True,
    lines: Lines | None = None,
) -> list[LabelledText]:
    """The sentences of a file of sentiment trees, one a line, with the labels "0" to "4".

    Brackets, quotes and slashes come as people write them: `-LRB-` as `(`, an opening or closing
    quote as `"`, an escaped slash without its backslash.

    Args:
        path: The file, plain or compressed.
        phrases: Also every distinct phrase of the trees, after the sentences: for training.
        held_out: Share of the trees that are for development alone.
        is_training: Whether the others are asked for.
        lines: The lines of the file, if they have been read already.
    """
    lines = filled_lines(path) if lines is None else lines
    every = [_parse_tree(line, f"{path}, line {number}") for number, line in lines]
    trees = one_side(every, lambda t: text_of(t[-1].tokens), held_out, is_training=is_training)
    sentences = [tree[-1] for tree in trees]
    if not phrases:
        return sentences
    inner = dict.fromkeys(phrase for tree in trees for phrase in tree[:-1])
    known = set(sentences)
    return sentences + [phrase for phrase in inner if phrase not in known]


def read_tsv(
    path: Path | str,
    tokenizer: Callable[[str], list[str]],
    *,
    text: str | int,
    label: str | int,
    lines: Lines | None = None,
) -> list[LabelledText]:
    """The texts of a tab-separated table; quotation marks are text like any other.

    Rows without a text are left out, and their number is said.

    Args:
        path: The file, plain or compressed.
        tokenizer: Text → tokens.
        text: The column of the texts: its name, or its number from 0.
        label: The column of the labels, likewise. If either is a name, the first line is a header.
        lines: The lines of the file, if they have been read already.
    """
    rows = table_rows(path, text, label, lines=lines)
    return _labelled(path, tokenizer, ((where, words, name) for where, (words, name) in rows))


def read_jsonl(
    path: Path | str,
    tokenizer: Callable[[str], list[str]],
    *,
    text: str,
    label: str,
    lines: Lines | None = None,
) -> list[LabelledText]:
    """The texts of a file with one JSON object a line; a label may be text or a whole number."""
    rows = (
        (where, _field(record, text, (str,), where), str(_field(record, label, (str, int), where)))
        for where, record in json_lines(path, lines)
    )
    return _labelled(path, tokenizer, rows)


def _labelled(
    path: Path | str,
    tokenizer: Callable[[str], list[str]],
    rows: Iterable[tuple[str, str, str]],
) -> list[LabelledText]:
    """The rows (place, text, label) that have a text."""
    examples = []
    num_empty = 0
    for where, words, label in rows:
        if not label.strip():
            raise FormatError(f"{where}: the label is empty")
        tokens = tuple(tokenizer(words))
        num_empty += not tokens
        if tokens:
            examples.append(LabelledText(tokens, label.strip()))
    if num_empty:
        log.warning("%s: examples without a text, left out: %d", path, num_empty)
    return examples


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


def _field(record: dict[str, Any], name: str, kinds: tuple[type, ...], where: str) -> Any:
    if name not in record:
        raise FormatError(
            f"{where}: the field {quoted(name)} is missing; "
            f"found {', '.join(map(repr, record)):.200}"
        )
    if type(record[name]) not in kinds:
        kind = " or ".join(k.__name__ for k in kinds)
        raise FormatError(f"{where}: {name}={record[name]!r:.40}; expected {kind}")
    return record[name]


def _parse_tree(line: str, where: str) -> list[LabelledText]:
    """The phrases of a tree, each after those that it is made of; the sentence is the last."""
    phrases: list[LabelledText] = []
    open_nodes: list[tuple[str, list[str]]] = []
    tokens: list[str] = []
    parts = iter(_TREE_TOKEN.findall(line))
    closed = False
    for part in parts:
        if closed or (part != "(" and not open_nodes):
            raise FormatError(f"{where}: {part!r:.40} stands outside the tree")
        if part == "(":
            label = next(parts, "the end")
            if label not in _TREE_LABELS:
                raise FormatError(f"{where}: the label {label!r:.40} is not one of 0..4")
            open_nodes.append((label, []))
        elif part == ")":
            label, tokens = open_nodes.pop()
            if not tokens:
                raise FormatError(f"{where}: a phrase without words")
            phrases.append(LabelledText(tuple(tokens), label))
            if open_nodes:
                open_nodes[-1][1].extend(tokens)
            closed = not open_nodes
        else:
            open_nodes[-1][1].append(_unescaped(part))
    if not closed:
        raise FormatError(f"{where}: the tree does not close; {len(open_nodes)} `)` are missing")
    return phrases


def _unescaped(word: str) -> str:
    return _ESCAPED.get(word, word.replace("\\/", "/").replace("\\*", "*"))
