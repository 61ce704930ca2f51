"""A question and the passage that answers it: characters to tokens and back, and windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, TypeAlias

from ...text.reader import Reader

Rules: TypeAlias = Literal["squad", "korquad"]


class Span(NamedTuple):
    """Tokens from `first` to `last`, both of them included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A text, or the part of it that its tokens stand for.

    Attributes:
        text: The whole text.
        tokens: What the biLM reads of it.
        offsets: Where each token begins and ends in `text`. Morphemes may share characters, and
            have none if the text only implies them.
    """

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, text: str, reader: Reader) -> Self:
        """A text by its tokens."""
        spans = reader.spans(text)
        return cls(text, tuple(t.text for t in spans), tuple((t.start, t.end) for t in spans))

    def cover(self, start: int, end: int) -> Span | None:
        """The tokens that hold the characters from `start` up to `end`; None if there is none."""
        inside = [i for i, (a, b) in enumerate(self.offsets) if a < end and b > start]
        return Span(inside[0], inside[-1]) if inside else None

    def characters(self, span: Span) -> tuple[int, int]:
        """Where the tokens of a span begin and end in the text.

        One that the text only implies stands for the token before it, or else for the next.
        """
        first, last = span
        while True:
            offsets = self.offsets[first : last + 1]
            start, end = min(start for start, _ in offsets), max(end for _, end in offsets)
            if start < end or (first, last) == (0, len(self.offsets) - 1):
                return start, end
            first, last = (first - 1, last) if first else (first, last + 1)

    def part(self, start: int, end: int) -> Self:
        """The tokens from `start` up to `end` of the same text."""
        return type(self)(self.text, self.tokens[start:end], self.offsets[start:end])


def windows(num_tokens: int, size: int) -> list[tuple[int, int]]:
    """Windows over so many tokens, each reaching half of its size into the next.

    So every span of up to half a window is whole in one of them.

    >>> windows(10, 4)
    [(0, 4), (2, 6), (4, 8), (6, 10)]
    """
    last = max(0, num_tokens - size)
    starts = [*range(0, last, max(1, size // 2)), last]
    return [(start, min(start + size, num_tokens)) for start in starts]


def window_around(span: Span, num_tokens: int, size: int, choice: float) -> tuple[int, int]:
    """A window that holds a span whole, though it be longer than `size`.

    Args:
        span: What it must hold.
        num_tokens: Tokens in all.
        size: Tokens of the window.
        choice: Which of the possible windows, of 0 up to 1.
    """
    size = min(num_tokens, max(size, span.last - span.first + 1))
    lowest, highest = max(0, span.last + 1 - size), min(span.first, num_tokens - size)
    start = lowest + int(choice * (highest - lowest + 1))
    return start, start + size


def spans_inside(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """The spans that lie in a window, counted from its start."""
    return tuple(
        Span(span.first - start, span.last - start)
        for span in spans
        if start <= span.first and span.last < end
    )


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
