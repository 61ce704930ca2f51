"""Sentences with one tag per token: CoNLL columns, CoNLL-U, and the character tags of KLUE."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

from ...errors import ConfigError, FormatError, InputError, quoted
from ...text.tokenize import Token
from .lines import Lines, numbered_lines
from .passage import Passage
from .tags import bio_fault, iob1_to_bio, is_iob1, is_tag, spans

Tagset: TypeAlias = Literal["upos", "xpos"]
_CONLLU_COLUMNS = 10
_BLANKS = re.compile("[ \t]+")


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence with one tag per token, and the text that it was, if it was one."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    source: Passage | None = field(default=None, repr=False, compare=False)


@dataclass(slots=True)
class Rows:
    """The rows of a sentence, and the line that each stands in."""

    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def column(self, number: int) -> list[str]:
        """One value of every row."""
        return [row[number] for row in self.rows]


def read_rows(
    lines: Lines,
    path: Path | str,
    *,
    is_comment: Callable[[str], bool],
    split: Callable[[str], list[str]],
    num_columns: int | None = None,
) -> list[Rows]:
    """The sentences of a file.

    Args:
        lines: All lines of the file.
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
    lines: Lines, is_comment: Callable[[str], bool], split: Callable[[str], list[str]]
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


def read_tagged(
    path: Path | str,
    *,
    tag: Tagset = "upos",
    tokenizer: Callable[[str], list[Token]] | None = None,
    token_column: int | None = None,
    tag_column: int = -1,
) -> list[TaggedSentence]:
    """The sentences of a file in any of the formats that are read here.

    CoNLL-U is known by its ten columns or its suffix, KLUE by its `##` lines; all else is columns.

    Args:
        path: The file, plain or compressed.
        tag: Which tag of CoNLL-U.
        tokenizer: Splits the text of KLUE, which has characters only.
        token_column: As for `read_columns`.
        tag_column: Likewise.
    """
    lines = numbered_lines(path)
    if _is_conllu(path, lines):
        return read_conllu(path, tag=tag, lines=lines)
    if _is_klue(lines):
        if tokenizer is None:
            raise ConfigError(f"{path} has tags of characters; give a tokenizer to make tokens")
        return read_klue(path, tokenizer, lines)
    return read_columns(path, token_column=token_column, tag_column=tag_column, lines=lines)


def read_columns(
    path: Path | str,
    *,
    token_column: int | None = None,
    tag_column: int = -1,
    lines: Lines | None = None,
    labelled: bool = True,
) -> list[TaggedSentence]:
    """The sentences of a file with one token and its BIO tag per line, and blank lines between.

    Columns are separated by tabs, or by spaces in a line without tabs. Comments (`#`) before a
    sentence and -DOCSTART- are skipped. A file in IOB1, as CoNLL-2003 is, comes out as BIO.

    Args:
        path: The file, plain or compressed.
        token_column: Number of the column with the tokens, from 0 or, if negative, from the end.
            None: the second one where the first one counts 1, 2, 3…, else the first.
        tag_column: Number of the column with the tags, likewise.
        lines: The lines of the file, if they have been read already.
        labelled: Whether the tags matter; without, all are O, and there may be no column of them.
    """
    lines = lines or numbered_lines(path)
    is_bare = not labelled and all(len(_split(line)) == 1 for _, line in lines)
    is_comment = _separates_documents if is_bare else _is_comment
    sentences = read_rows(lines, path, is_comment=is_comment, split=_split)
    width = len(sentences[0].rows[0])
    if labelled and width < 2:
        line = sentences[0].lines[0]
        raise FormatError(f"{path}, line {line}: found one column; expected a token and its tag")
    if token_column is None:
        token_column = 1 if width > 2 and all(map(_counts, sentences)) else 0
    for name, column in (("token", token_column), ("tag", tag_column)):
        if not -width <= column < width:
            raise ConfigError(f"{name}_column={column}: {path} has {width} columns")
    if labelled:
        tags = as_bio([sentence.column(tag_column) for sentence in sentences], sentences, path)
    else:
        tags = [["O"] * len(sentence.rows) for sentence in sentences]
    return [
        _tagged(sentence.column(token_column), of_sentence, sentence.lines, path)
        for sentence, of_sentence in zip(sentences, tags, strict=True)
    ]


def _split(line: str) -> list[str]:
    """The columns of a line; a token of tab-separated columns may contain spaces."""
    return line.split("\t") if "\t" in line else _BLANKS.split(line.strip(" "))


def _is_comment(line: str) -> bool:
    """Whether a line before a sentence is a comment, rather than a token such as `#` or `#tag`."""
    if not line.startswith("#"):
        return _separates_documents(line)
    return line.startswith("# ") if "\t" in line else not is_tag(_split(line)[-1], "BI")


def _separates_documents(line: str) -> bool:
    return line.startswith("-DOCSTART-")


def _counts(sentence: Rows) -> bool:
    """Whether the first column counts 1, 2, 3…"""
    return all(value == str(i) for i, value in enumerate(sentence.column(0), start=1))


def _tagged(
    tokens: Sequence[str], tags: Sequence[str], lines: Sequence[int], path: Path | str
) -> TaggedSentence:
    for token, tag, line in zip(tokens, tags, lines, strict=True):
        if not token.strip() or not tag.strip():
            missing = "tag" if token.strip() else "token"
            raise FormatError(f"{path}, line {line}: the {missing} is missing")
    return TaggedSentence(tuple(tokens), tuple(tags))


def _is_klue(lines: Lines) -> bool:
    first = next(line for _, line in lines if line.strip())
    return first.startswith("##") and not is_tag(_split(first)[-1], "BI")


def _is_conllu(path: Path | str, lines: Lines) -> bool:
    if ".conllu" in Path(path).suffixes:
        return True
    row = next((line for _, line in lines if line.strip() and not line.startswith("#")), "")
    return row[:1].isdigit() and len(row.split("\t")) == _CONLLU_COLUMNS


def read_conllu(
    path: Path | str, *, tag: Tagset = "upos", lines: Lines | None = None
) -> list[TaggedSentence]:
    """The sentences of a CoNLL-U file with one of their part-of-speech tags.

    Ranges of several words (`3-4`) and empty nodes (`5.1`) are skipped: their words are there too.
    """
    if tag not in ("upos", "xpos"):
        raise ConfigError(f"tag={quoted(tag)}: expected 'upos' or 'xpos'")
    column = 3 if tag == "upos" else 4
    rows = read_rows(
        lines or numbered_lines(path),
        path,
        is_comment=lambda line: line.startswith("#"),
        split=lambda line: line.split("\t"),
        num_columns=_CONLLU_COLUMNS,
    )
    sentences = []
    for sentence in rows:
        kept = [i for i in range(len(sentence.rows)) if _is_word(sentence, i, path)]
        numbers = [sentence.lines[i] for i in kept]
        tokens = [sentence.rows[i][1] for i in kept]
        tags = [sentence.rows[i][column] for i in kept]
        for line, token, found in zip(numbers, tokens, tags, strict=True):
            if found == "_" and token != "_":
                raise FormatError(f"{path}, line {line}: {quoted(token)} has no {tag} tag")
        sentences.append(_tagged(tokens, tags, numbers, path))
    return sentences


def _is_word(sentence: Rows, i: int, path: Path | str) -> bool:
    number = sentence.rows[i][0]
    if number.isdecimal():
        return True
    if re.fullmatch(r"\d+[-.]\d+", number):
        return False
    raise FormatError(
        f"{path}, line {sentence.lines[i]}: {quoted(number)} is not the number of a word; "
        "expected 3, 3-4 or 3.1"
    )


def read_klue(
    path: Path | str,
    tokenizer: Callable[[str], list[Token]],
    lines: Lines | None = None,
    *,
    labelled: bool = True,
) -> list[TaggedSentence]:
    """The sentences of a KLUE-NER file, its tags of characters made tags of tokens.

    A token belongs to the entity of its first tagged character, whatever else it holds: in Korean
    a token often is a name and its particle. So an entity is lost where every token that touches
    it holds an earlier one.

    Args:
        path: The file, plain or compressed: one character, a tab and its BIO tag per line.
        tokenizer: Text → tokens with offsets, such as `Reader(...).spans`.
        lines: The lines of the file, if they have been read already.
        labelled: Whether the tags matter; without, all are O, and the text is kept.
    """
    rows = read_rows(
        lines or numbered_lines(path),
        path,
        # A comment has two marks: a sentence may begin with the character itself.
        is_comment=lambda line: line.startswith("##"),
        split=lambda line: line.split("\t"),
        num_columns=2,
    )
    tags = as_bio([sentence.column(1) for sentence in rows], rows, path) if labelled else None
    sentences = []
    for i, sentence in enumerate(rows):
        characters = sentence.column(0)
        text = "".join(characters)
        tokens = tokenizer(text)
        if not tokens:
            raise FormatError(f"{path}, line {sentence.lines[0]}: a sentence without tokens")
        if tags is None:
            source = Passage.of(text, tokens)
            sentences.append(TaggedSentence(source.tokens, ("O",) * len(tokens), source))
        else:
            texts = tuple(token.text for token in tokens)
            sentences.append(TaggedSentence(texts, token_tags(tokens, characters, tags[i])))
    return sentences


def token_tags(
    tokens: Sequence[Token], characters: Sequence[str], tags: Sequence[str]
) -> tuple[str, ...]:
    """BIO tags of tokens, each of which belongs to the entity of its first tagged character.

    Args:
        tokens: Tokens with offsets into the joined characters; they may overlap.
        characters: What the tags stand for, of one or more code points each.
        tags: BIO tags of the characters.
    """
    entities = spans(tags)
    entity_of: list[int | None] = [None] * len(characters)
    for number, (_, start, end) in enumerate(entities):
        entity_of[start:end] = [number] * (end - start)
    of_code_point = [n for c, n in zip(characters, entity_of, strict=True) for _ in c]
    found: list[str] = []
    previous: int | None = None
    for token in tokens:
        inside = of_code_point[token.start : token.end]
        entity = next((n for n in inside if n is not None), None)
        if entity is None:
            found.append("O")
        else:
            found.append(f"{'I' if entity == previous else 'B'}-{entities[entity][0]}")
        previous = entity
    return tuple(found)
