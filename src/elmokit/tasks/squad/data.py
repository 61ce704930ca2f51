"""Questions from SQuAD's JSON, plain or compressed; KorQuAD has the same form.

{"version": …, "data": [{"title": …, "paragraphs": [{"context": …, "qas": [
    {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import FormatError, InputError
from ...files.read import json_field, read_lines
from ...text.reader import Reader
from ..data.held_out import one_side, share_of
from .config import Rules, SquadConfig
from .passage import Passage, Span, spans_inside, window_around

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a passage.

    Attributes:
        passage: What holds the answer.
        text: The question.
        tokens: Its tokens.
        answers: The right answers; none where they are not known.
        spans: Where in the passage they are.
        rules: How an answer is scored.
        name: Its id, if it has one.
    """

    passage: Passage
    text: str
    tokens: tuple[str, ...]
    answers: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    rules: Rules = "squad"
    name: str = ""


class _Paragraph(NamedTuple):
    """A paragraph of a file, not yet in tokens."""

    context: str
    questions: list[dict[str, Any]]


def read_squad(
    path: Path | str, config: SquadConfig, reader: Reader, *, is_training: bool
) -> list[Question]:
    """The questions of a file that have an answer.

    To be scored, also those whose answer no token holds, which cannot be found. For training, a
    paragraph longer than `max_paragraph_tokens` is cut to a window that holds the answer; which of
    the possible ones is settled by the question's id.

    Args:
        path: The file.
        config: Which articles and how many questions to read, and how they are scored.
        reader: Makes tokens of text.
        is_training: Whether to learn from the questions.
    """
    values = _read_json(Path(path))
    rules = config.rules if config.rules != "auto" else _rules(values)
    paragraphs = list(_paragraphs(values, path, config.held_out, is_training))
    if not any(paragraph.questions for paragraph in paragraphs):
        raise InputError(f"{path} has no questions" + _hint(config, is_training))
    if is_training and config.max_questions:
        paragraphs = _drawn(paragraphs, config.max_questions)
    size = config.max_paragraph_tokens if is_training else None
    found: list[Question] = []
    num_left_out = 0
    for paragraph in paragraphs:
        passage = Passage.read(paragraph.context, reader)
        for row in paragraph.questions:
            question = _question(row, passage, reader, rules, size, path)
            if question is None:
                num_left_out += 1
            else:
                found.append(question)
    if num_left_out:
        log.warning("%s: %d questions without an answer are left out", path, num_left_out)
    return found


def _question(
    row: dict[str, Any],
    passage: Passage,
    reader: Reader,
    rules: Rules,
    size: int | None,
    path: Path | str,
) -> Question | None:
    """A question of a file, None if it has no answer; about a part of the text if that is long."""
    name = json_field(row, "id", str, where=str(path))
    where = f"{path}, question {name}"
    answers, spans = [], []
    for answer in json_field(row, "answers", list, where=where):
        text = json_field(answer, "text", str, where=where)
        start = json_field(answer, "answer_start", int, where=where)
        if start < 0 or passage.text[start : start + len(text)] != text:
            raise FormatError(f"{where}: {text!r:.60} is not at character {start} of its paragraph")
        answers.append(text)
        span = passage.cover(start, start + len(text))
        if span is not None:
            spans.append(span)
    if not spans and (size is not None or not answers):
        return None
    if size is not None and len(passage.tokens) > size:
        window = window_around(spans[0], len(passage.tokens), size, share_of(name))
        passage, spans = passage.part(*window), list(spans_inside(spans, *window))
    question = json_field(row, "question", str, where=where)
    tokens = tuple(reader.tokens(question))
    places = tuple(dict.fromkeys(spans))
    return Question(passage, question, tokens, tuple(answers), places, rules, name)


def _paragraphs(
    values: dict[str, Any], path: Path | str, held_out: float, is_training: bool
) -> Iterator[_Paragraph]:
    """The paragraphs of the articles that are asked for."""

    def title_of(article: Any) -> str:
        title: str = json_field(article, "title", str, where=str(path), default="")
        return title

    articles = json_field(values, "data", list, where=str(path))
    for article in one_side(articles, title_of, held_out, is_training=is_training):
        where = f"{path}, article {title_of(article)!r:.60}"
        for paragraph in json_field(article, "paragraphs", list, where=where):
            context = json_field(paragraph, "context", str, where=where)
            yield _Paragraph(context, json_field(paragraph, "qas", list, where=where))


def _drawn(paragraphs: Sequence[_Paragraph], max_questions: int) -> list[_Paragraph]:
    """Some of the paragraphs, in their order, with so many questions; fewer are a part of more.

    Whole paragraphs, as the biLM reads each only once, from all over the file, as the articles
    differ; the same ones in every run.
    """
    kept: dict[int, _Paragraph] = {}
    left = max_questions
    for i in np.random.default_rng(0).permutation(len(paragraphs)).tolist():
        context, questions = paragraphs[i]
        kept[i] = _Paragraph(context, questions[:left])
        left -= len(kept[i].questions)
        if not left:
            break
    return [kept[i] for i in sorted(kept)]


def _read_json(path: Path) -> dict[str, Any]:
    text = "\n".join(read_lines(path))
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{path} is not JSON: {e}") from e
    if not isinstance(values, dict):
        raise FormatError(f"{path}: expected SQuAD's JSON, an object with data")
    return values


def _rules(values: dict[str, Any]) -> Rules:
    return "korquad" if "korquad" in str(values.get("version")).lower() else "squad"


def _hint(config: SquadConfig, is_training: bool) -> str:
    if not config.held_out:
        return ""
    return f" in the articles for {'training' if is_training else 'development'} (held_out)"
