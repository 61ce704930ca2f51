"""A word in a sentence, and its vectors on every layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..errors import FormatError, InputError
from ..model import Elmo
from ..text.marked import split_marked
from .layers import Vectors, stream_layers, with_average


class Span(Protocol):
    """A stretch of a text: `text[start:end]`."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def start(self) -> int:
        """Its first character."""

    @property
    def end(self) -> int:
        """The character after its last."""


@dataclass(frozen=True, slots=True)
class MarkedWord:
    """A word of a text: `text[start:end]`."""

    text: str
    start: int
    end: int


def read_marked(sentence: str, where: str) -> MarkedWord:
    """The sentence without its brackets, and the word that was inside them."""
    unmarked = split_marked(sentence)
    if unmarked is None or unmarked[1] == unmarked[2]:
        raise FormatError(
            f"{where}: expected exactly one word in brackets, as in: the river [bank]"
        )
    return MarkedWord(*unmarked)


def word_vectors(elmo: Elmo, words: Sequence[Span]) -> list[Vectors]:
    """The vectors of each word on each layer and on their average, (L + 1, D).

    The vector of a word is the mean of the tokens that overlap it, however the model's tokenizer
    splits.
    """
    sentences, places = [], []
    for word in words:
        (tokens,) = elmo.tokenize_with_offsets(word.text)
        place = [i for i, t in enumerate(tokens) if t.start < word.end and t.end > word.start]
        if not place:
            raise InputError(
                f"{word.text!r:.80}: no token is at {word.text[word.start : word.end]!r}"
            )
        sentences.append([token.text for token in tokens])
        places.append(place)
    layers = stream_layers(elmo, sentences)
    return [with_average(v[:, p].mean(axis=1)) for v, p in zip(layers, places, strict=True)]
