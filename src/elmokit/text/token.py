"""What a tokenizer is, and what it returns."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Token:
    """A token and the span of the text that it stands for.

    `text` is normalised, and a morpheme may differ from the characters of its span.
    """

    text: str
    start: int
    end: int


class Tokenizer(Protocol):
    """Splits normalised text into tokens, none of which contains whitespace."""

    @property
    def name(self) -> str:
        """What `load_tokenizer` knows it by, recorded in the model's card."""

    def words(self, text: str) -> list[str]:
        """The text of every token: the quick way when offsets do not matter."""

    def tokens(self, text: str) -> list[Token]:
        """Every token with its offsets into `text`."""
