"""Question answering as a task: SQuAD's JSON in, exact match and F1 out.

{"version": …, "data": [{"title": …, "paragraphs": [{"context": …, "qas": [
    {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}

The file may be compressed; KorQuAD has the same form. Answers are scored by the rules of the
official scripts of SQuAD 1.1 and KorQuAD 1.0. Both compare with each of the right answers and count
the best. Case, ASCII punctuation and the number of spaces never matter; SQuAD also leaves out
English articles and compares words, while KorQuAD reads its quotation marks and brackets as spaces
and compares characters. Two answers of which nothing is left match exactly, but their F1 is 0.
"""

import json
import logging
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...errors import FormatError, InputError
from ...files.read import json_field, read_lines
from ...text.reader import Reader
from ..parts.embedding import TaskEmbedding
from ..parts.lines import hash_fraction, split_held_out
from ..parts.passage import Passage
from ..results import Result, SquadResult
from ..task import LabelSets, Scores, Task
from .model import (
    Answer,
    BiDaf,
    Question,
    Rules,
    SquadConfig,
    spans_inside,
    window_around,
)

log = logging.getLogger(__name__)


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_KORQUAD_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))


class SquadTask(Task[SquadConfig, Question, Answer]):
    """Questions about a text: SQuAD 1.1, KorQuAD 1.0 and others of their form."""

    name: ClassVar[str] = "squad"
    metric: ClassVar[str] = "f1"
    config_class = SquadConfig
    inputs: ClassVar[tuple[str, ...]] = ("question", "text")
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {"squad": (".json",)}

    def read(
        self, path: Path, config: SquadConfig, reader: Reader, *, is_training: bool
    ) -> list[Question]:
        return read_squad(path, config, reader, is_training=is_training)

    def example(self, line: str, reader: Reader, config: SquadConfig) -> Question:
        """A question, a tab and a text; or a JSON object: `question`, `context`, perhaps `id`."""
        question, context, name = _split(line)
        tokens = tuple(reader.tokens(question))
        return Question(Passage.read(context, reader), question, tokens, name=name)

    def line(self, texts: Sequence[str], config: SquadConfig) -> str:
        question, text = texts
        return json.dumps({"question": question, "context": text})

    def unlabelled(
        self, path: Path, form: str, config: SquadConfig, reader: Reader
    ) -> list[list[Question]]:
        """All questions of a file, also those without an answer."""
        return [[question] for question in read_questions(path, reader)]

    def sentences(self, example: Question) -> list[Sequence[str]]:
        """The text, read as one sentence, and the question."""
        return [example.passage.tokens, example.tokens]

    def model(self, config: SquadConfig, label_sets: LabelSets, embedding: TaskEmbedding) -> BiDaf:
        return BiDaf(config, embedding)

    def score(self, examples: Sequence[Question], predictions: Sequence[Answer]) -> Scores:
        """F1 and exact match."""
        return dict(
            answer_scores(
                [example.answers for example in examples],
                [prediction["answer"] for prediction in predictions],
                [example.rules for example in examples],
            )
        )

    def result(self, example: Question, prediction: Answer | None) -> Result:
        """The question, its answer, where that is in the text, and its probability."""
        said: dict[str, Any] = {} if prediction is None else {**prediction}
        return SquadResult(
            task=self.name,
            text=example.passage.text,
            id=example.name or None,
            question=example.text,
            **said,
        )

    def as_text(self, example: Question, prediction: Answer) -> str:
        """The answer, as one line."""
        return " ".join(prediction["answer"].split("\n"))


def _split(line: str) -> tuple[str, str, str]:
    """Question, text and id of a line; an empty line has none of them."""
    if line.lstrip().startswith("{"):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as e:
            raise InputError(f"{line!r:.60} is not JSON: {e}") from e
        question, context = values.get("question"), values.get("context")
        if isinstance(question, str) and isinstance(context, str):
            return question, context, str(values.get("id", ""))
    elif "\t" in line or not line.strip():
        question, _, context = line.partition("\t")
        return question, context, ""
    raise InputError(
        f"{line!r:.60}: expected a question, a tab and a text, or a JSON object with "
        "'question' and 'context'"
    )


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
        reader: Text → tokens.
        is_training: Whether to learn from the questions.
    """
    values = _read_json(Path(path))
    is_korquad = "korquad" in str(values.get("version")).lower()
    automatic: Rules = "korquad" if is_korquad else "squad"
    rules = automatic if config.rules == "auto" else config.rules
    paragraphs = list(_paragraphs(values, path, config.held_out, is_training))
    if not any(paragraph.questions for paragraph in paragraphs):
        side = "training" if is_training else "development"
        hint = f" in the articles for {side} (held_out)" if config.held_out else ""
        raise InputError(f"{path} has no questions{hint}")
    if is_training and config.max_questions:
        paragraphs = _sample_paragraphs(paragraphs, config.max_questions)
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


def read_questions(path: Path | str, reader: Reader) -> list[Question]:
    """All questions of a file, whether or not it has their answers."""
    found = []
    for paragraph in _paragraphs(_read_json(Path(path)), path, 0.0, False):
        passage = Passage.read(paragraph.context, reader)
        for row in paragraph.questions:
            name = json_field(row, "id", str, where=str(path), default="")
            text = json_field(row, "question", str, where=f"{path}, question {name}")
            found.append(Question(passage, text, tuple(reader.tokens(text)), name=name))
    if not found:
        raise InputError(f"{path} has no questions")
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
        window = window_around(spans[0], len(passage.tokens), size, hash_fraction(name))
        passage, spans = passage.part(*window), list(spans_inside(spans, *window))
    question = json_field(row, "question", str, where=where)
    tokens = tuple(reader.tokens(question))
    distinct = tuple(dict.fromkeys(spans))
    return Question(passage, question, tokens, tuple(answers), distinct, rules, name)


def _paragraphs(
    values: dict[str, Any], path: Path | str, held_out: float, is_training: bool
) -> Iterator[_Paragraph]:
    """The paragraphs of the articles that are asked for."""

    def title_of(article: Any) -> str:
        title: str = json_field(article, "title", str, where=str(path), default="")
        return title

    articles = json_field(values, "data", list, where=str(path))
    for article in split_held_out(articles, title_of, held_out, is_training=is_training):
        where = f"{path}, article {title_of(article)!r:.60}"
        for paragraph in json_field(article, "paragraphs", list, where=where):
            context = json_field(paragraph, "context", str, where=where)
            yield _Paragraph(context, json_field(paragraph, "qas", list, where=where))


def _sample_paragraphs(paragraphs: Sequence[_Paragraph], max_questions: int) -> list[_Paragraph]:
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


def answer_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], rules: Sequence[Rules]
) -> dict[str, float]:
    """The mean `f1` and `exact_match` of the predictions, of 0 to 1.

    Args:
        gold: The right answers to each question.
        predicted: An answer to each.
        rules: How each is scored.
    """

    def mean(score: Callable[[str, str, Rules], float]) -> float:
        best = [
            max((score(answer, right, rule) for right in answers), default=0.0)
            for answers, answer, rule in zip(gold, predicted, rules, strict=True)
        ]
        return sum(best) / len(best) if best else 0.0

    return {"f1": mean(f1), "exact_match": mean(exact_match)}


def normalised(text: str, rules: Rules = "squad") -> str:
    """What is compared of an answer: words, with one space between them."""
    if rules == "korquad":
        return " ".join(text.translate(_KORQUAD_MARKS).lower().translate(_PUNCTUATION).split())
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str, rules: Rules = "squad") -> float:
    """1 if the two are the same in all that is compared, else 0."""
    return float(normalised(predicted, rules) == normalised(gold, rules))


def f1(predicted: str, gold: str, rules: Rules = "squad") -> float:
    """The F1 of the words of an answer, or of the characters by the rules of KorQuAD."""
    first, second = _units(predicted, rules), _units(gold, rules)
    shared = (first & second).total()
    return 2 * shared / (first.total() + second.total()) if shared else 0.0


def _units(text: str, rules: Rules) -> Counter[str]:
    words = normalised(text, rules).split()
    return Counter("".join(words) if rules == "korquad" else words)
