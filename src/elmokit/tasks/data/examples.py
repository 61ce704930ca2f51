"""What a task learns from, one example at a time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence with one tag a token."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, in tokens, of one class."""

    tokens: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts, in tokens, and how much they have in common."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    score: float
