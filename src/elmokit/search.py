"""The nearest occurrences of a word in context, over a corpus of any size (paper, table 4)."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, tee
from typing import TypeAlias

import numpy as np

from .errors import ConfigError, InputError
from .layers import Layers, Vectors, joined, normalise
from .model import Elmo
from .text.reader import TextOrTokens, check_sentence, parse_marked
from .text.sentences import FoundMode, TextMode, with_text_mode

Embedded: TypeAlias = tuple[int, list[str], Vectors]
"""Number, tokens and vectors of a sentence."""


@dataclass(frozen=True, slots=True)
class Match:
    """An occurrence of a word.

    Attributes:
        score: Its cosine with the word of the query.
        index: Number of its sentence, from 0.
        position: Its position among the tokens of the sentence, from 0.
        tokens: The sentence.
    """

    score: float
    index: int
    position: int
    tokens: list[str]

    def marked(self) -> list[str]:
        """The tokens, the one that was found in brackets."""
        return [f"[{t}]" if i == self.position else t for i, t in enumerate(self.tokens)]


def nearest(
    elmo: Elmo,
    sentences: Iterable[TextOrTokens],
    query: str,
    k: int = 10,
    layer: Layers = "top",
    same_word: bool = False,
    batch_size: int = 128,
    mode: TextMode | None = None,
) -> list[Match]:
    """The `k` tokens of `sentences` that are used most like the bracketed word of `query`.

    Only a few sentences and the best matches are in memory at a time. A sentence of the corpus
    that equals the query is a match like any other.

    Args:
        elmo: The model.
        sentences: The corpus: texts, or lists of tokens.
        query: A sentence with one word in brackets, as in "He has a [gift] for music".
        k: Matches to return, at most.
        layer: The layer to compare, as in `Elmo.embed`; the top one tells senses apart best.
        same_word: Only occurrences of the same word, whatever their case.
        batch_size: Sentences that run together, at most.
        mode: How sentences are found in each text, as `sentences` of `Elmo.embed` says; a match
            has the tokens of the whole text.
    """
    if k < 1:
        raise ConfigError(f"k={k}: expected 1 or more")
    if layer == "all":
        raise ConfigError("layer='all': expected one layer, 'average', 'top' or a mix")
    tokens, position = parse_marked(elmo.reader, query)
    texts, found = with_text_mode(sentences, mode)
    (vectors,) = elmo.embed([tokens], layers=layer, sentences=found, show_progress_bar=False)
    target = normalise(vectors[position])
    if not np.isfinite(target).all():
        raise InputError("the model gives no finite vector for the word; see: elmokit info")
    word = tokens[position].casefold() if same_word else None
    candidates = _Candidates(elmo, texts, found, word)
    best = _best(candidates.embedded(layer, batch_size), target, word, k)
    if not candidates.num_tokens:
        raise InputError("the corpus is empty: there is no word to compare with")
    return best


class _Candidates:
    """The sentences that can hold a match, with their vectors; counts the tokens of all."""

    def __init__(
        self,
        elmo: Elmo,
        texts: Iterable[TextOrTokens],
        mode: FoundMode | None,
        word: str | None,
    ) -> None:
        self.elmo, self.texts, self.mode = elmo, texts, mode
        # A sentence that is left out would not pass on its state.
        self.word = None if elmo.config.state == "carry" else word
        self.num_tokens = 0

    def embedded(self, layer: Layers, batch_size: int) -> Iterator[Embedded]:
        """Number, tokens and vectors of each text."""
        found, read, counted = tee(self._read(), 3)
        vectors = self.elmo.embed_stream(
            (tokens for _, sentences in read for tokens in sentences),
            layers=layer,
            batch_size=batch_size,
        )
        arrays = joined(vectors, (len(sentences) for _, sentences in counted))
        for (index, sentences), array in zip(found, arrays, strict=True):
            yield index, list(chain.from_iterable(sentences)), array

    def _read(self) -> Iterator[tuple[int, list[list[str]]]]:
        """Number of each text that can hold a match, and the tokens of its sentences."""
        for index, item in enumerate(self.texts):
            sentences = self.elmo.reader.sentences(check_sentence(item, index), self.mode)
            tokens = list(chain.from_iterable(sentences))
            self.num_tokens += len(tokens)
            if self.word is None or any(token.casefold() == self.word for token in tokens):
                yield index, sentences


def _best(embedded: Iterator[Embedded], target: Vectors, word: str | None, k: int) -> list[Match]:
    """The `k` tokens nearest to `target`, best first; with `word` only those that are it."""
    best: list[tuple[float, int, int, list[str]]] = []
    for index, tokens, vectors in embedded:
        scores = normalise(vectors) @ target
        candidates = range(len(tokens)) if len(best) < k else np.flatnonzero(scores > best[0][0])
        for position in map(int, candidates):
            if word is None or tokens[position].casefold() == word:
                # Among equals the first occurrence wins, so later ones count as smaller.
                item = (float(scores[position]), -index, -position, tokens)
                (heapq.heappush if len(best) < k else heapq.heappushpop)(best, item)
    return [Match(s, -i, -p, tokens) for s, i, p, tokens in sorted(best, reverse=True)]
