"""What a trained task says about a text: small objects, each of which is a row of JSON.

Offsets are characters of the text as it was given, so that `text[start:end]` is the text of an
entity, argument or mention. `predictions.schema.json`, beside this file, describes the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from ..errors import quoted


class _Readable:
    """Something whose fields are worth reading: long texts shortened, probabilities rounded."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self) if f.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False)
class TextSpan(_Readable):
    """A piece of a text: a mention of coreference, or a predicate."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, repr=False)
class Argument(_Readable):
    """An argument of a predicate."""

    text: str
    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, repr=False)
class Entity(_Readable):
    """A named entity; `score` is the probability that these tokens are one, of that label."""

    text: str
    label: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class SrlFrame(_Readable):
    """A predicate and its arguments; `tags` are the BIO tags of the tokens, predicate included."""

    predicate: TextSpan
    arguments: tuple[Argument, ...]
    tags: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Result(_Readable):
    """What a task says about a text.

    Attributes:
        task: The name of the task.
        text: The text as it was given; tokens of a file are joined by single spaces.
    """

    task: str = field(repr=False)
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The row that `elmokit predict --json` prints."""
        row: dict[str, Any] = _plain(self)
        return row


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class NerResult(Result):
    """The entities of a text, and the BIO tags of its tokens."""

    entities: tuple[Entity, ...] = ()
    tokens: tuple[str, ...] = field(default=(), repr=False)
    tags: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class LabelResult(Result):
    """The most probable label of a text, and the probabilities of all; None if it has no words."""

    label: str | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SnliResult(LabelResult):
    """What a premise means for a hypothesis; `text` is both, with a tab between them."""

    text: str = field(repr=False)
    premise: str
    hypothesis: str


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SrlResult(Result):
    """The frames of a text, one for each predicate that was asked about."""

    frames: tuple[SrlFrame, ...] = ()
    tokens: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class CorefResult(Result):
    """The clusters of mentions that mean the same."""

    clusters: tuple[tuple[TextSpan, ...], ...] = ()
    tokens: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SquadResult(Result):
    """The answer to a question about a text; None where either has no words.

    Attributes:
        id: The question's, where a file has one.
        answer: `text[start:end]`.
        probability: Of this answer among all that are possible.
    """

    id: str | None = None
    question: str
    answer: str | None = None
    start: int | None = None
    end: int | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ScoredText(_Readable):
    """A text that a model wrote; `score` is its normalised log probability."""

    text: str
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class Alignment(_Readable):
    """How much a model looked at each source unit when it wrote each target unit.

    `weights` has a row for each target unit, the last of which is the end of the text.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TranslateResult(Result):
    """The translation of a text, and the n best; None of a text without words."""

    translation: str | None = None
    hypotheses: tuple[ScoredText, ...] = field(default=(), repr=False)
    alignment: Alignment | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class ScoredSentence(_Readable):
    """A sentence of a summary; `score` is its probability among those of the text."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ExtractResult(Result):
    """The best sentences of a text, in its order, and the summary that they make."""

    summary: str | None = None
    sentences: tuple[ScoredSentence, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class OtherResult(Result):
    """What a task of another package says, in its own words."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The task, the text and the values, which may replace them."""
        return {"task": self.task, "text": self.text, **self.values}


def _plain(value: Any) -> Any:
    """A value as JSON data."""
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(k)}: {_short(v)}" for k, v in value.items()) + "}"
    return quoted(value) if isinstance(value, str) else repr(value)
