"""The frozen layers of sentences and of marked words, computed once, and the layers' names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, FormatError, InputError
from ..model import Elmo
from ..text.reader import split_marked

if TYPE_CHECKING:
    from .homographs import Occurrence

Layers16: TypeAlias = NDArray[np.float16]
Vectors: TypeAlias = NDArray[np.float32]

T = TypeVar("T")


def layer_names(num_layers: int) -> tuple[str, ...]:
    """The layers and their average, as results name them: `0`, `1`, …, `average`."""
    return (*map(str, range(num_layers)), "average")


def layer_title(name: str) -> str:
    """The name of a row as tables show it: `layer 0`, `average`."""
    return f"layer {name}" if name.isdigit() else name


def with_average(layers: Vectors) -> Vectors:
    """(L, …) → (L + 1, …): the layers, then their average."""
    return np.concatenate([layers, layers.mean(axis=0, keepdims=True)])


def stream_layers(elmo: Elmo, sentences: Sequence[Sequence[str] | str]) -> Iterator[Vectors]:
    """All layers of each sentence, (L, T, D), a few sentences in memory at a time."""
    for vectors in elmo.embed_stream(sentences, layers="all"):
        if not np.isfinite(vectors).all():
            raise InputError("the model gives vectors that are not finite; see: elmokit info")
        yield vectors


def token_layers(
    elmo: Elmo, sentences: Sequence[Sequence[str]], *, split: bool = False
) -> Layers16:
    """All layers of all tokens one after the other, (L, N, D), in half precision.

    100,000 tokens of the original model take 0.6 GB. With `split`, the model reads tokens as its
    own tokenizer splits them, and the vector of a token is the mean of its parts.
    """
    num_tokens = sum(map(len, sentences))
    result = np.empty((elmo.num_layers, num_tokens, elmo.dim), np.float16)
    limit = np.finfo(np.float16).max
    end = 0
    for vectors in _means_of_parts(elmo, sentences) if split else stream_layers(elmo, sentences):
        start, end = end, end + vectors.shape[1]
        result[:, start:end] = vectors.clip(-limit, limit)
    return result


def _means_of_parts(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> Iterator[Vectors]:
    """The layers of each sentence's tokens, read as the model's tokenizer splits them."""
    split = [_split(elmo, sentence) for sentence in sentences]
    layers = stream_layers(elmo, [parts for parts, _ in split])
    for vectors, (_, member) in zip(layers, split, strict=True):
        yield np.einsum("ltd,nt->lnd", vectors, member)


def _split(elmo: Elmo, sentence: Sequence[str]) -> tuple[list[str], Vectors]:
    """The parts of a sentence's tokens, and what each has of a token: rows that sum to one.

    A token of which the tokenizer leaves nothing has a row of zeros.
    """
    ends = np.cumsum([len(token) + 1 for token in sentence])
    (parts,) = elmo.tokenize_with_offsets(" ".join(sentence))
    member = np.zeros((len(sentence), len(parts)), np.float32)
    for i, part in enumerate(parts):
        first = int(np.searchsorted(ends, part.start, side="right"))
        last = int(np.searchsorted(ends, max(part.start, part.end - 1), side="right"))
        member[first : last + 1, i] = 1
    return [part.text for part in parts], member / member.sum(axis=1, keepdims=True).clip(1)


def splits_words(elmo: Elmo) -> bool:
    """Whether the model has read parts of words, as Korean morphemes are."""
    return elmo.reader.tokenizer.name == "kiwi"


def spread(items: Sequence[T], number: int | None) -> Sequence[T]:
    """At most `number` of the items, at even distances: corpora are sorted by kind of text."""
    if number is None or number >= len(items):
        return items
    if number < 1:
        raise ConfigError(f"max_sentences={number}: expected 1 or more")
    return [items[i * len(items) // number] for i in range(number)]


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


def word_vectors(elmo: Elmo, words: "Sequence[MarkedWord | Occurrence]") -> list[Vectors]:
    """The vectors of each word on each layer and on their average, (L + 1, D).

    The vector of a word is the mean of the tokens that overlap it, however the model's tokenizer
    splits.
    """
    sentences, positions = [], []
    for word in words:
        (tokens,) = elmo.tokenize_with_offsets(word.text)
        overlapping = [i for i, t in enumerate(tokens) if t.start < word.end and t.end > word.start]
        if not overlapping:
            raise InputError(
                f"{word.text!r:.80}: no token is at {word.text[word.start : word.end]!r}"
            )
        sentences.append([token.text for token in tokens])
        positions.append(overlapping)
    layers = stream_layers(elmo, sentences)
    return [with_average(v[:, p].mean(axis=1)) for v, p in zip(layers, positions, strict=True)]
