"""A text beside its tokens: what is found in tokens is shown in the characters of the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self

from ...text.reader import Reader
from ...text.tokenize import Token


class Span(NamedTuple):
    """Tokens from `first` to `last`, both of them included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A text, or the part of it that its tokens stand for.

    Attributes:
        text: The whole text, as its writer wrote it.
        tokens: What the biLM reads of it.
        offsets: Where each token begins and ends in `text`. Morphemes may share characters, and
            have none if the text only implies them.
    """

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, text: str, reader: Reader) -> Self:
        """A text as a reader tokenises it."""
        return cls.of(text, reader.spans(text))

    @classmethod
    def of(cls, text: str, tokens: Sequence[Token]) -> Self:
        """A text with its tokens."""
        return cls(text, tuple(t.text for t in tokens), tuple((t.start, t.end) for t in tokens))

    @classmethod
    def of_tokens(cls, tokens: Sequence[str]) -> Self:
        """The text of tokens that come without one: a single space stands between them."""
        ends = list(accumulate((len(token) + 1 for token in tokens), initial=0))
        offsets = tuple((end, end + len(token)) for end, token in zip(ends, tokens))
        return cls(" ".join(tokens), tuple(tokens), offsets)

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

    def piece(self, first: int, end: int) -> tuple[str, int, int]:
        """The text of some tokens, from `first` up to `end`, and where it begins and ends."""
        start, stop = self.characters(Span(first, end - 1))
        return self.text[start:stop], start, stop

    def part(self, start: int, end: int) -> Self:
        """The tokens from `start` up to `end` of the same text."""
        return type(self)(self.text, self.tokens[start:end], self.offsets[start:end])
