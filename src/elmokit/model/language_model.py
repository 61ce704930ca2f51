"""An `Elmo` as the language model that it was trained as: scores, perplexity, substitutes."""

import logging
import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

import numpy as np
import torch

from ..engine.likelihood import Likelihood, Perplexity, SentenceScore, Tally
from ..errors import ConfigError, InputError, quoted
from ..text.batch import batches
from ..text.ids import BOS, EOS, UNK
from ..text.reader import TextOrTokens, check_iterable, check_sentence, parse_marked
from ..text.sentences import TextMode
from .execution import MAX_BATCH_TOKENS, check_batch_size, num_words, windows

if TYPE_CHECKING:
    from .elmo import Elmo

log = logging.getLogger(__name__)

MANY_UNKNOWN = 0.2
"""Share of unknown words above which a perplexity misleads."""


_SHOWN = 5
"""Words that the repr of `Substitutes` shows."""


class Substitute(NamedTuple):
    """A word that could stand at a position.

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
    """What could stand at a position, and what does.

    Attributes:
        best: The likeliest words, best first.
        original: The word that was there, if the vocabulary has it.
    """

    best: list[Substitute]
    original: Substitute | None

    def __repr__(self) -> str:
        words = ", ".join(f"{s.word} {s.probability:.3f}" for s in self.best[:_SHOWN])
        more = f", … ({len(self.best)})" if len(self.best) > _SHOWN else ""
        original = "outside the vocabulary"
        if self.original is not None:
            original = f"{quoted(self.original.word)} at rank {self.original.rank:,}"
        return f"<Substitutes: {words}{more}; original {original}>"


class LanguageModel:
    """An `Elmo` with its softmax; what `Elmo.score`, `perplexity` and `substitutes` do."""

    def __init__(self, elmo: "Elmo") -> None:
        self.elmo, self.reader = elmo, elmo.reader
        self.likelihood = _likelihood(elmo)

    def scores(self, read: Sequence[Sequence[list[str]]], batch_size: int) -> list[SentenceScore]:
        """The score of each text, the sum of those of its tokenised sentences."""
        scores = iter(self._scores(list(chain.from_iterable(read)), batch_size))
        return [_sum(list(islice(scores, len(text)))) for text in read]

    def _scores(self, sentences: list[list[str]], batch_size: int) -> list[SentenceScore]:
        check_batch_size(batch_size)
        states = self.elmo._states()
        found: dict[int, SentenceScore] = {}
        lengths = [len(sentence) + 2 for sentence in sentences]
        with torch.inference_mode():
            for rows in batches(lengths, batch_size, MAX_BATCH_TOKENS):
                group = [sentences[i] for i in rows]
                of_group, after = self.likelihood.sentences(
                    group, states.start(rows), with_state=states.carries
                )
                states.finish(rows, after)
                found |= dict(zip(rows, of_group, strict=True))
        return [found[i] for i in range(len(sentences))]

    def score_stream(
        self, inputs: Iterable[TextOrTokens], sentences: TextMode | None, batch_size: int
    ) -> Iterator[SentenceScore]:
        """The scores of inputs of any number, one after the other."""
        carries = self.elmo.config.state == "carry"
        read = self._read(inputs, sentences)
        for window in windows(read, num_words, carries=carries, batch_size=batch_size):
            yield from self.scores(window, batch_size)

    def perplexity(
        self,
        inputs: Iterable[TextOrTokens],
        streams: int | None,
        sentences: TextMode | None,
        batch_size: int,
    ) -> Perplexity:
        """The perplexity of a text, sentence by sentence or in streams."""
        tally = Tally()
        if streams is not None:
            tally = self.in_streams(inputs, streams, sentences)
        else:
            for score in self.score_stream(inputs, sentences, batch_size):
                tally.add(score)
            if not tally.num_tokens:
                raise InputError("perplexity: there is no sentence to score")
        warn_of_unknown_words(tally)
        return tally.perplexity()

    def in_streams(
        self, inputs: Iterable[TextOrTokens], streams: int, sentences: TextMode | None = None
    ) -> Tally:
        """The sums over a text that is read as bilm-tf's trainer reads it."""
        streams = _as_integer("streams", streams)
        if streams < 1:
            raise ConfigError(f"streams={streams}: expected 1 or more")
        with torch.inference_mode():
            read = chain.from_iterable(self._read(inputs, sentences))
            tally = self.likelihood.streams(read, streams, MAX_BATCH_TOKENS)
        if not tally.num_tokens:
            raise InputError(
                f"streams={streams}: the text has fewer sentences than that; use fewer streams"
            )
        return tally

    def substitutes(self, text: TextOrTokens, k: int, index: int | None) -> Substitutes:
        """The words that fit best at the position of one word of a sentence."""
        k = _as_integer("k", k)
        if k < 1:
            raise ConfigError(f"k={k}: expected 1 or more")
        vocab = self.likelihood.vocab
        tokens, position = self._locate(text, index)
        with torch.inference_mode():
            start = self.elmo._states().start([0])
            forward, backward = self.likelihood.contexts(tokens, position, start)
        # Real words: no special ones, no blank lines, no earlier copy of a word.
        special = {BOS, EOS, UNK, ""}
        real = [i for i, w in enumerate(vocab) if w not in special and vocab.id(w) == i]
        rows = torch.tensor(real, dtype=torch.int64)
        forward, backward = forward[rows], backward[rows]
        rarity = torch.log(rows + 1.0).to(forward)
        probability = torch.softmax(forward + backward + rarity, dim=0)
        order = torch.argsort(probability, descending=True, stable=True)

        def substitute(rank: int) -> Substitute:
            i = order[rank]
            figures = (float(part[i]) for part in (probability, forward, backward))
            return Substitute(vocab[int(rows[i])], rank + 1, *figures)

        found = (rows[order] == vocab.id(tokens[position])).nonzero()
        return Substitutes(
            [substitute(rank) for rank in range(min(k, len(order)))],
            substitute(int(found[0])) if len(found) else None,
        )

    def _read(
        self, inputs: Iterable[TextOrTokens], sentences: TextMode | None
    ) -> Iterator[list[list[str]]]:
        """The tokens of each sentence of each text, as they come."""
        if isinstance(inputs, str):
            raise InputError("expected many sentences; wrap a single text as [text]")
        items = enumerate(check_iterable(inputs))
        return self.elmo._read((check_sentence(item, i) for i, item in items), sentences)

    def _locate(self, text: TextOrTokens, index: int | None) -> tuple[list[str], int]:
        """The tokens of a sentence and the position of the hidden one."""
        if index is None:
            if isinstance(text, str):
                return parse_marked(self.reader, text)
            raise InputError("substitutes: tokens need index=, the number of the hidden one")
        tokens, index = self.reader.tokens(check_sentence(text, 0)), _as_integer("index", index)
        if not 0 <= index < len(tokens):
            raise InputError(
                f"index={quoted(index)}: the sentence has the tokens 0..{len(tokens) - 1}"
            )
        return tokens, index


def warn_of_unknown_words(tally: Tally, where: str = "the text") -> None:
    """Say when so many words are unknown that a perplexity means little."""
    if tally.num_unknown > MANY_UNKNOWN * tally.num_tokens:
        log.warning(
            "%s: %.0f%% of the tokens are outside the model's vocabulary and count as <UNK>, "
            "which is easy to predict: the perplexity is too low to mean much; use a model of "
            "this language and tokenizer, and compare by bits per character",
            where,
            100 * tally.num_unknown / tally.num_tokens,
        )


def _sum(scores: Sequence[SentenceScore]) -> SentenceScore:
    """The score of sentences together."""
    if len(scores) == 1:
        return scores[0]
    return SentenceScore(
        sum(score.forward for score in scores),
        sum(score.backward for score in scores),
        sum(score.num_tokens for score in scores),
        sum(score.num_unknown for score in scores),
        sum(score.num_characters for score in scores),
        sum(score.num_unknown_bytes for score in scores),
        np.concatenate([score.forward_tokens for score in scores]),
        np.concatenate([score.backward_tokens for score in scores]),
    )


def _likelihood(elmo: "Elmo") -> Likelihood:
    """The model with its softmax, or an error that says what is missing."""
    if elmo.softmax is None or elmo.vocab is None:
        missing = "softmax" if elmo.softmax is None else "vocabulary"
        raise ConfigError(
            f"the model ({elmo.format}) has no {missing}, so it gives vectors but cannot "
            "predict words; official HDF5 weights come without. Name the file if you have it "
            "(Elmo.from_files(…, softmax=, vocab=)), or train one on your text: "
            "elmokit pretrain DIR --from MODEL"
        )
    if len(elmo.vocab) != len(elmo.softmax.weight):
        raise ConfigError(
            f"the vocabulary has {len(elmo.vocab)} words, "
            f"but the softmax {len(elmo.softmax.weight)} rows"
        )
    return Likelihood(elmo._embedder, elmo.softmax, elmo.vocab)


def _as_integer(name: str, value: object) -> int:
    """`value` as a number, or an error that says what it is instead."""
    if isinstance(value, SupportsIndex) and not isinstance(value, (bool, np.bool_)):
        with suppress(TypeError):  # arrays have the method, but not all of them are numbers
            return operator.index(value)
    raise ConfigError(f"{name}={quoted(value)}: expected a whole number")
