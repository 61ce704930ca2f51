"""An `Elmo` as the language model that it was trained as: scores, perplexity, substitutes."""

import operator
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple, SupportsIndex, overload

import numpy as np
import torch

from ..engine.likelihood import Likelihood, Perplexity, SentenceScore, Tally
from ..errors import ConfigError, InputError, quoted
from ..text.batch import batches
from ..text.groups import grouped
from ..text.marked import parse_marked
from ..text.reader import TextOrTokens, as_sentences, check_iterable, check_sentence
from ..text.vocab import BOS, EOS, UNK, Vocab
from .limits import MAX_BATCH_TOKENS, check_batch_size
from .pretrained import PretrainedElmo


class Substitute(NamedTuple):
    """A word that could stand at a place.

    Attributes:
        word: The word.
        rank: Its rank among all words of the vocabulary, from 1.
        probability: How likely it is there, given both sides.
        forward: log p of the word given all that is to its left.
        backward: log p of the word given all that is to its right.
    """

    word: str
    rank: int
    probability: float
    forward: float
    backward: float


class Substitutes(NamedTuple):
    """What could stand at a place, and what does.

    Attributes:
        best: The likeliest words, best first.
        original: The word that was there, if the vocabulary has it.
    """

    best: list[Substitute]
    original: Substitute | None


class LanguageElmo(PretrainedElmo):
    """A `PretrainedElmo` that uses its softmax."""

    @overload
    def score(  # type: ignore[overload-overlap]
        self, inputs: str, *, batch_size: int = 128
    ) -> SentenceScore: ...

    @overload
    def score(
        self, inputs: Iterable[TextOrTokens], *, batch_size: int = 128
    ) -> list[SentenceScore]: ...

    def score(
        self, inputs: TextOrTokens | Iterable[TextOrTokens], *, batch_size: int = 128
    ) -> SentenceScore | list[SentenceScore]:
        """How likely each sentence is, as sums of natural log probabilities.

        The forward LM predicts each word and the end of the sentence from what is before, the
        backward LM each word and the begin from what is after. A word outside of the softmax
        vocabulary is read by its characters and predicted as `<UNK>`. A sentence without words
        has the score of its boundary alone.

        Args:
            inputs: A text (the result is then its score alone), texts, or lists of tokens.
            batch_size: Sentences that run together, at most.
        """
        check_batch_size(batch_size)
        sentences = [self.reader.tokens(s) for s in as_sentences(inputs)]
        scores = self._score(sentences, batch_size)
        return scores[0] if isinstance(inputs, str) else scores

    def score_stream(
        self, inputs: Iterable[TextOrTokens], *, batch_size: int = 128
    ) -> Iterator[SentenceScore]:
        """The scores of `score`, one after the other, for inputs of any number.

        Some sentences are read ahead. With carried state, each `batch_size` sentences are a call.
        """
        check_batch_size(batch_size)
        self._likelihood()
        is_call = self.config.state == "carry"
        limits = (batch_size, np.inf) if is_call else (16 * batch_size, 4 * MAX_BATCH_TOKENS)
        sentences = self._sentences(inputs)
        for window in grouped(sentences, len, max_items=limits[0], max_size=limits[1]):
            yield from self._score(window, batch_size)

    def perplexity(
        self, inputs: Iterable[TextOrTokens], *, streams: int | None = None, batch_size: int = 128
    ) -> Perplexity:
        """The perplexity of a text, forward, backward and their mean; it may be of any length.

        Args:
            inputs: Texts, or lists of tokens.
            streams: None scores each sentence as `score` does. A number reads the text as
                bilm-tf's trainer does: so many lanes side by side, each taking the next sentence
                when it has ended one, with states that are zero at first and then carried from
                sentence to sentence; the tail that does not fill all lanes is left out.
            batch_size: Sentences that run together, at most, without `streams`.
        """
        if streams is None:
            tally = Tally()
            for score in self.score_stream(inputs, batch_size=batch_size):
                tally.add(score)
            if not tally.num_tokens:
                raise InputError("perplexity: there is no sentence to score")
            return tally.perplexity()
        streams = _whole("streams", streams)
        if streams < 1:
            raise ConfigError(f"streams={streams}: expected 1 or more")
        with torch.inference_mode():
            tally = self._likelihood().streams(self._sentences(inputs), streams, MAX_BATCH_TOKENS)
        if not tally.num_tokens:
            raise InputError(
                f"streams={streams}: the text has fewer sentences than that; use fewer streams"
            )
        return tally.perplexity()

    def substitutes(
        self, text: TextOrTokens, k: int = 10, *, index: int | None = None
    ) -> Substitutes:
        """The words that fit best in the place of one word of a sentence.

        The word itself is hidden. If the two sides are independent given the word w,
        p(w | both) ∝ p(w | left) p(w | right) / p(w), the forward LM after all words before the
        place and the backward LM before all words after it. `probability` is that, made to sum to
        one over the vocabulary without its special words. A checkpoint does not say how frequent
        its words are, but its vocabulary is sorted by it: p(w) is Zipf's law, 1 over the rank.

        Args:
            text: A text with one word in brackets, as in "She sat on the [bank] of the river", or
                a text or tokens without brackets and `index`.
            k: Words to return, at most.
            index: Number of the hidden token, from 0.
        """
        k = _whole("k", k)
        if k < 1:
            raise ConfigError(f"k={k}: expected 1 or more")
        likelihood = self._likelihood()
        tokens, place = self._hidden(text, index)
        with torch.inference_mode():
            forward, backward = likelihood.contexts(tokens, place, self._states().start([0]))
        rows = torch.from_numpy(_candidates(likelihood.vocab))
        forward, backward = forward[rows], backward[rows]
        rarity = torch.log(rows + 1.0).to(forward)
        probability = torch.softmax(forward + backward + rarity, dim=0)
        order = torch.argsort(probability, descending=True, stable=True)

        def substitute(rank: int) -> Substitute:
            i = order[rank]
            figures = (float(part[i]) for part in (probability, forward, backward))
            return Substitute(likelihood.vocab[int(rows[i])], rank + 1, *figures)

        found = (rows[order] == likelihood.vocab.id(tokens[place])).nonzero()
        return Substitutes(
            [substitute(rank) for rank in range(min(k, len(order)))],
            substitute(int(found[0])) if len(found) else None,
        )

    def _sentences(self, inputs: Iterable[TextOrTokens]) -> Iterator[list[str]]:
        """The tokens of each sentence, as they come."""
        if isinstance(inputs, str):
            raise InputError("expected many sentences; wrap a single text as [text]")
        items = enumerate(check_iterable(inputs))
        return (self.reader.tokens(check_sentence(item, i)) for i, item in items)

    def _hidden(self, text: TextOrTokens, index: int | None) -> tuple[list[str], int]:
        """The tokens of a sentence and the place of the hidden one."""
        if index is None:
            if isinstance(text, str):
                return parse_marked(self.reader, text)
            raise InputError("substitutes: tokens need index=, the number of the hidden one")
        tokens, index = self.reader.tokens(check_sentence(text, 0)), _whole("index", index)
        if not 0 <= index < len(tokens):
            raise InputError(
                f"index={quoted(index)}: the sentence has the tokens 0..{len(tokens) - 1}"
            )
        return tokens, index

    def _score(self, sentences: list[list[str]], batch_size: int) -> list[SentenceScore]:
        """The scores of tokenised sentences, in their order."""
        likelihood, states = self._likelihood(), self._states()
        scores: dict[int, SentenceScore] = {}
        lengths = [len(sentence) + 2 for sentence in sentences]
        with torch.inference_mode():
            for rows in batches(lengths, batch_size, MAX_BATCH_TOKENS):
                group = [sentences[i] for i in rows]
                of_group, after = likelihood.sentences(
                    group, states.start(rows), with_state=states.carries
                )
                states.finish(rows, after)
                scores |= dict(zip(rows, of_group, strict=True))
        return [scores[i] for i in range(len(sentences))]

    def _likelihood(self) -> Likelihood:
        """The model with its softmax, or an error that says what is missing."""
        if self.softmax is None or self.vocab is None:
            missing = "softmax" if self.softmax is None else "vocabulary"
            raise ConfigError(
                f"the model ({self.format}) has no {missing}, so it gives vectors but cannot "
                "predict words; official HDF5 weights come without. Name the file if you have it "
                "(Elmo.from_files(…, softmax=, vocab=)), or train one on your text: "
                "elmokit pretrain DIR --from MODEL"
            )
        if len(self.vocab) != len(self.softmax.weight):
            raise ConfigError(
                f"the vocabulary has {len(self.vocab)} words, "
                f"but the softmax {len(self.softmax.weight)} rows"
            )
        return Likelihood(self._embedder, self.softmax, self.vocab)


def _whole(name: str, value: object) -> int:
    """`value` as a number, or an error that says what it is instead."""
    if isinstance(value, SupportsIndex) and not isinstance(value, (bool, np.bool_)):
        with suppress(TypeError):  # arrays have the method, but not all of them are numbers
            return operator.index(value)
    raise ConfigError(f"{name}={quoted(value)}: expected a whole number")


def _candidates(vocab: Vocab) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The rows of real words: no special ones, no blank lines, no earlier copy of a word."""
    special = {BOS, EOS, UNK, ""}
    rows = [i for i, word in enumerate(vocab) if word not in special and vocab.id(word) == i]
    return np.array(rows, dtype=np.int64)
