"""The nearest occurrences of a word in context, over a corpus of any size (paper, table 4)."""

import heapq
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, tee
from typing import TypeAlias

import numpy as np

from .errors import ConfigError, InputError
from .layers import Layers, Vectors, joined, normalise
from .model import Elmo
from .tables import width_of
from .text.reader import TextOrTokens, check_iterable, check_sentence, parse_marked
from .text.sentences import FoundMode, TextMode, with_text_mode

Embedded: TypeAlias = tuple[int, TextOrTokens, list[str], Vectors]
"""Number of a sentence, the sentence as it was given, its tokens and their vectors."""

Found: TypeAlias = tuple[float, int, int, TextOrTokens, list[str]]
"""Score, minus the number of the sentence and of the token, the sentence and its tokens."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Match:
    """An occurrence of a word.

    Attributes:
        score: Its cosine with the word of the query.
        index: Number of its sentence, from 0.
        position: Its position among the tokens of the sentence, from 0.
        tokens: The tokens of its sentence.
        text: Its sentence as it was given. Where tokens were given, or where a tokenizer of your
            own changes words so that they do not occur in the text: the tokens, joined by spaces.
        start, end: Where in `text` the token is: `text[start:end]`. A Korean morpheme can share
            its characters with others, or have none of its own (start equals end).
    """

    score: float
    index: int
    position: int
    tokens: list[str]
    text: str
    start: int
    end: int

    def marked(self) -> str:
        """The text, the word that was found in brackets: `She has a [gift] for music.`"""
        return "".join(self._parts())

    def in_context(self, width: int, mark_width: int = 0) -> str:
        """`marked` cut to `width` columns, with the brackets in the middle.

        Several matches line up if they are given the same widths.

        Args:
            width: Columns of a terminal; East Asian characters take two.
            mark_width: Columns to reserve for the word and its brackets, such as those of the
                widest of several matches.
        """
        before, mark, after = self._parts()
        left = max(0, (width - max(mark_width, width_of(mark))) // 2)
        before = _ending(before, left)
        after = _opening(after, max(0, width - left - width_of(mark)))
        return " " * (left - width_of(before)) + before + mark + after.rstrip()

    def mark_width(self) -> int:
        """Columns of the word that was found, with its brackets."""
        return width_of(self._parts()[1])

    def _parts(self) -> tuple[str, str, str]:
        """The text before the word, the word in brackets, and the text after it."""
        # What moves the cursor of a terminal would spoil it; offsets stay as they are.
        text = _CONTROL.sub(" ", self.text)
        start, end = self.start, self.end
        if start == end:  # a morpheme that the text only implies: show the word that implies it
            start -= len(text[:start]) - len(text[:start].rstrip())
            start = max(text.rfind(" ", 0, start) + 1, 0)
            end += len(text[end:].partition(" ")[0])
        return text[:start], f"[{text[start:end]}]", text[end:]


def _opening(text: str, width: int) -> str:
    """The words from the start of `text` that fit into `width` columns, then an ellipsis."""
    if width_of(text) <= width:
        return text
    end, room = 0, width - 2  # for a space and the ellipsis
    while room >= width_of(text[end]):
        room -= width_of(text[end])
        end += 1
    words = text[: max(0, text.rfind(" ", 0, end + 1))].rstrip()
    return f"{words} …" if words else f"{text[:end]}…" if width > 1 else ""


def _ending(text: str, width: int) -> str:
    """An ellipsis, then the words at the end of `text` that fit into `width` columns."""
    if width_of(text) <= width:
        return text
    start, room = len(text), width - 2
    while room >= width_of(text[start - 1]):
        room -= width_of(text[start - 1])
        start -= 1
    while start < len(text) and not width_of(text[start]):
        start += 1  # an accent whose letter does not fit
    space = text.find(" ", max(0, start - 1))
    words = text[space:].lstrip() if space >= 0 else ""
    return f"… {words}" if words else f"…{text[start:]}" if width > 1 else ""


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
        layer: The layer to compare, as `layers` in `Elmo.embed`; the top one tells senses apart
            best.
        same_word: Only occurrences of the same word, whatever their case.
        batch_size: Sentences that run together, at most.
        mode: How sentences are found in each text, as `sentences` of `Elmo.embed` says; a match
            has the tokens of the whole text.
    """
    if isinstance(sentences, str):
        raise InputError("nearest searches many sentences; wrap a single text as [text]")
    if k < 1:
        raise ConfigError(f"k={k}: expected 1 or more")
    if layer == "all":
        raise ConfigError("layer='all': expected one layer, 'average', 'top' or a mix")
    tokens, position = parse_marked(elmo.reader, query)
    check_iterable(sentences)
    texts, found = with_text_mode(sentences, mode)
    (vectors,) = elmo.embed([tokens], layers=layer, sentences=found, show_progress_bar=False)
    target = normalise(vectors[position])
    if not np.isfinite(target).all():
        raise InputError("the model gives no finite vector for the word; see: elmokit info")
    word = tokens[position].casefold() if same_word else None
    candidates = _Candidates(elmo, texts, found, word)
    best = _best(candidates.embedded(layer, batch_size), target, word, k)
    matches = [_match(elmo, found) for found in best]
    if not candidates.num_tokens:
        raise InputError("the corpus is empty: there is no word to compare with")
    return matches


def _match(elmo: Elmo, found: Found) -> Match:
    """What was found, with its place in the text."""
    score, index, position, sentence, tokens = found[0], -found[1], -found[2], *found[3:]
    if isinstance(sentence, str):
        # The tokens of a user's function need not occur in the text.
        with suppress(InputError):
            spans = elmo.reader.spans(sentence)
            # Sentences that were read apart may have been split into other tokens.
            if [span.text for span in spans] == tokens:
                span = spans[position]
                return Match(score, index, position, tokens, sentence, span.start, span.end)
    start = sum(len(token) + 1 for token in tokens[:position])
    end = start + len(tokens[position])
    return Match(score, index, position, tokens, " ".join(tokens), start, end)


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
        """Each text that can hold a match, embedded."""
        found, read, counted = tee(self._read(), 3)
        vectors = self.elmo.embed_stream(
            (tokens for *_, sentences in read for tokens in sentences),
            layers=layer,
            batch_size=batch_size,
        )
        arrays = joined(vectors, (len(sentences) for *_, sentences in counted))
        for (index, text, sentences), array in zip(found, arrays, strict=True):
            yield index, text, list(chain.from_iterable(sentences)), array

    def _read(self) -> Iterator[tuple[int, TextOrTokens, list[list[str]]]]:
        """Each text that can hold a match, its number, and the tokens of its sentences."""
        for index, item in enumerate(self.texts):
            text = check_sentence(item, index)
            sentences = self.elmo.reader.sentences(text, self.mode)
            tokens = list(chain.from_iterable(sentences))
            self.num_tokens += len(tokens)
            if self.word is None or any(token.casefold() == self.word for token in tokens):
                yield index, text, sentences


def _best(embedded: Iterator[Embedded], target: Vectors, word: str | None, k: int) -> list[Found]:
    """The `k` tokens nearest to `target`, best first; with `word` only those that are it."""
    best: list[Found] = []
    for index, sentence, tokens, vectors in embedded:
        scores = normalise(vectors) @ target
        candidates = range(len(tokens)) if len(best) < k else np.flatnonzero(scores > best[0][0])
        for position in map(int, candidates):
            if word is None or tokens[position].casefold() == word:
                # Among equals the first occurrence wins, so later ones count as smaller.
                item = (float(scores[position]), -index, -position, sentence, tokens)
                (heapq.heappush if len(best) < k else heapq.heappushpop)(best, item)
    return sorted(best, key=lambda found: found[:3], reverse=True)
