"""The biLM as a language model: how likely each word of a text is, in both directions.

The forward LM reads `<S> w1 … wn` and predicts `w1 … wn </S>`; the backward LM reads
`</S> wn … w1` and predicts `wn … w1 <S>`. A prediction comes from the output of the last LSTM
layer, the residual included: what the softmax reads is what `layers="top"` gives.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice, tee
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..nn import BiLmState, Softmax
from ..text.batch import Lanes, Window
from ..text.ids import BOS, EOS, UNK, Vocab
from .embedder import Embedder
from .packed import Request

LogProbabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class SentenceScore:
    """How likely a sentence is, as sums of natural log probabilities.

    Attributes:
        forward: log p of its n words and of its end, each given what is before it.
        backward: log p of its n words and of its begin, each given what is after it.
        num_tokens: Words that each direction predicts: n + 1.
        num_unknown: Words that were predicted as `<UNK>`, for want of a softmax row.
        num_characters: Characters of the n words, and a separator for each.
        num_unknown_bytes: UTF-8 bytes of those words, and one for the end of each.
        forward_tokens: The terms of `forward`, of w1 … wn and the end.
        backward_tokens: The terms of `backward`, of the begin and w1 … wn.
    """

    forward: float
    backward: float
    num_tokens: int
    num_unknown: int
    num_characters: int
    num_unknown_bytes: int
    forward_tokens: LogProbabilities = field(compare=False)
    backward_tokens: LogProbabilities = field(compare=False)

    def __repr__(self) -> str:
        return (
            f"<SentenceScore: log p {self.forward:.2f} forward, {self.backward:.2f} backward; "
            f"{self.num_tokens} predictions, {self.num_unknown} of them <UNK>; "
            f"forward_tokens {self.forward_tokens.shape}, "
            f"backward_tokens {self.backward_tokens.shape}>"
        )


class BitsPerCharacter(NamedTuple):
    """How many bits a character of a text costs, words outside the vocabulary spelled out.

    A word costs -log2 of its probability. One outside the vocabulary costs -log2 p(`<UNK>`) and
    its spelling: 8 bits for each of its UTF-8 bytes, and 8 for its end. The sum, which includes
    the sentence boundaries, is divided by the characters of all words and a separator for each. So
    a small vocabulary gains nothing, and models compare that split a text into the same tokens.

    Attributes:
        forward: Of the forward LM.
        backward: Of the backward LM.
        mean: The mean of the two.
    """

    forward: float
    backward: float
    mean: float


class Perplexity(NamedTuple):
    """exp of the mean negative log-likelihood of a word.

    It compares only between models with the same vocabulary; `bits_per_character` also compares
    between vocabularies.

    Attributes:
        forward: Of the forward LM.
        backward: Of the backward LM.
        mean: exp of the mean of both directions' means, the figure that bilm-tf reports.
        num_tokens: Words that each direction has predicted.
        num_unknown: How many of them were predicted as `<UNK>`.
        bits_per_character: Of both directions, and their mean; NaN for a text without words.
    """

    forward: float
    backward: float
    mean: float
    num_tokens: int
    num_unknown: int
    bits_per_character: BitsPerCharacter

    def __repr__(self) -> str:
        return (
            f"<Perplexity: {self.forward:.2f} forward, {self.backward:.2f} backward, "
            f"{self.mean:.2f} mean; {self.num_tokens:,} predictions, "
            f"{self.num_unknown:,} of them <UNK>>"
        )


@dataclass(slots=True)
class Tally:
    """Sums of log probabilities over a text."""

    forward: float = 0.0
    backward: float = 0.0
    num_tokens: int = 0
    num_unknown: int = 0
    num_characters: int = 0
    num_unknown_bytes: int = 0

    def add(self, more: "SentenceScore | Tally") -> None:
        """Count a sentence, or another part of the text."""
        self.forward += more.forward
        self.backward += more.backward
        self.num_tokens += more.num_tokens
        self.num_unknown += more.num_unknown
        self.num_characters += more.num_characters
        self.num_unknown_bytes += more.num_unknown_bytes

    def perplexity(self) -> Perplexity:
        """The perplexity of a text of at least one token."""
        forward, backward = self.forward / self.num_tokens, self.backward / self.num_tokens
        return Perplexity(
            _exp(-forward),
            _exp(-backward),
            _exp(-(forward + backward) / 2),
            self.num_tokens,
            self.num_unknown,
            self._bits_per_character(),
        )

    def _bits_per_character(self) -> BitsPerCharacter:
        if not self.num_characters:
            return BitsPerCharacter(math.nan, math.nan, math.nan)
        spelling = 8 * self.num_unknown_bytes
        forward, backward = (
            (spelling - log_p / math.log(2)) / self.num_characters
            for log_p in (self.forward, self.backward)
        )
        return BitsPerCharacter(forward, backward, (forward + backward) / 2)


class Likelihood:
    """An embedder with the softmax and the vocabulary that make it a language model."""

    def __init__(self, embedder: Embedder, softmax: Softmax, vocab: Vocab) -> None:
        self.embedder, self.softmax, self.vocab = embedder, softmax, vocab
        config = embedder.engine.bilm.config
        self.top = torch.zeros(1, config.num_layers)
        self.top[0, -1] = 1
        self.width = config.lstm.projection_dim
        indexer = embedder.indexer
        self._boundaries = {indexer.bos: vocab.id(BOS), indexer.eos: vocab.id(EOS)}

    def sentences(
        self, sentences: Sequence[Sequence[str]], state: BiLmState | None, *, with_state: bool
    ) -> tuple[list[SentenceScore], BiLmState]:
        """The score of each of one or more sentences, and the states after them."""
        batch = self.embedder.batch(sentences)
        x = self.embedder.token_vectors(batch.words)
        request = Request(self.top, with_state=with_state, boundaries=True)
        vectors, after = self.embedder.engine.run(x, batch.index, batch.lengths, request, state)
        targets = self._rows(batch.words)[batch.index]
        ends = np.cumsum(batch.lengths)
        # Every position but the last of a sentence predicts the next one, and the other way round.
        positions = np.delete(np.arange(len(targets)), ends - 1)
        forward = self._log_p(vectors[0, :, : self.width], positions, targets[positions + 1])
        backward = self._log_p(vectors[0, :, self.width :], positions + 1, targets[positions])
        unknown = targets == self.vocab.id(UNK)
        splits = np.cumsum(batch.lengths - 1)[:-1]
        scores = [
            SentenceScore(
                float(ahead.sum()),
                float(back.sum()),
                len(ahead),
                int(is_unknown.sum()),
                num_characters(words),
                num_spelled_bytes(words, is_unknown[1:-1]),
                ahead,
                back,
            )
            for words, ahead, back, is_unknown in zip(
                sentences,
                np.split(forward, splits),
                np.split(backward, splits),
                np.split(unknown, ends[:-1]),
                strict=True,
            )
        ]
        return scores, after

    def streams(self, sentences: Iterable[Sequence[str]], num_lanes: int, max_tokens: int) -> Tally:
        """The sums over a text that is read as bilm-tf's trainer reads it.

        The text goes one step at a time through `num_lanes` lanes, whose LSTM states start from
        zero and then go on from sentence to sentence; the incomplete tail is dropped. `max_tokens`
        run together, which changes nothing but time and memory. The tails of the two directions
        differ by a few words; what is counted of words is counted in the backward one.
        """
        begin, end = self.embedder.indexer.bos, self.embedder.indexer.eos
        ahead, back = tee(np.array([begin, *s, end], dtype=object) for s in sentences)
        lanes = zip(
            Lanes(ahead, num_lanes, 1), Lanes((s[::-1] for s in back), num_lanes, 1), strict=False
        )
        tally = Tally()
        state = None
        while windows := list(islice(lanes, max(1, max_tokens // num_lanes))):
            joined = [
                Window(*(np.concatenate(parts, axis=1) for parts in zip(*direction, strict=True)))
                for direction in zip(*windows, strict=True)
            ]
            part, state = self._window(joined[0], joined[1], state)
            tally.add(part)
        return tally

    def contexts(
        self, tokens: Sequence[str], index: int, state: BiLmState | None
    ) -> tuple[Tensor, Tensor]:
        """log p(w | left) and log p(w | right) of every word w at a position, each (V,)."""
        hidden = [*tokens[:index], self.embedder.indexer.eos, *tokens[index + 1 :]]
        (vectors,), _ = self.embedder.run([hidden], Request(self.top, boundaries=True), state)
        # With the begin of the sentence, the word is at index + 1.
        left, right = vectors[0, index, : self.width], vectors[0, index + 2, self.width :]
        log_p = self.softmax(torch.stack([left, right])).cpu().double()
        return log_p[0], log_p[1]

    def _window(
        self, ahead: Window, back: Window, state: BiLmState | None
    ) -> tuple[Tally, BiLmState]:
        """The sums over some steps of all lanes, and the states after them."""
        index: dict[str, int] = {}
        for words in (ahead.inputs, ahead.targets, back.inputs, back.targets):
            for word in words.flat:
                index.setdefault(word, len(index))
        distinct = list(index)
        x, rows = self.embedder.token_vectors(distinct), self._rows(distinct)
        lengths = np.full(ahead.inputs.shape[0], ahead.inputs.shape[1])
        sums = []
        for direction, window in enumerate((ahead, back)):
            # The engine takes text from left to right, and its backward LM reads that from the end.
            step = -1 if direction else 1
            inputs, targets = (
                np.array([index[word] for word in words[:, ::step].flat], np.int64)
                for words in window
            )
            request = Request(self.top, (direction,), with_state=True, boundaries=True)
            vectors, state = self.embedder.engine.run(x, inputs, lengths, request, state)
            sums.append(self._log_p(vectors[0], np.arange(len(inputs)), rows[targets]).sum())
        is_unknown = rows[targets] == self.vocab.id(UNK)
        read = [distinct[i] for i in targets]
        boundaries = self._boundaries
        assert state is not None
        return Tally(
            float(sums[0]),
            float(sums[1]),
            len(targets),
            int(is_unknown.sum()),
            num_characters([word for word in read if word not in boundaries]),
            num_spelled_bytes(read, is_unknown),
        ), state

    def _rows(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The softmax rows of words; the boundaries of the model may have names of their own."""
        known = self._boundaries
        rows = [known[word] if word in known else self.vocab.id(word) for word in words]
        return np.array(rows, dtype=np.int64)

    def _log_p(
        self, vectors: Tensor, positions: NDArray[np.int64], targets: NDArray[np.int64]
    ) -> LogProbabilities:
        """log p(target | vector at its position) of each."""
        h = vectors[torch.from_numpy(positions).to(vectors.device)]
        words = torch.from_numpy(targets).to(vectors.device)
        log_p: LogProbabilities = self.softmax.log_likelihood(h, words).cpu().double().numpy()
        return log_p


def num_characters(words: Iterable[str]) -> int:
    """Characters of words, and a separator for each."""
    return sum(len(word) + 1 for word in words)


def num_spelled_bytes(words: Iterable[str], is_unknown: Iterable[bool]) -> int:
    """UTF-8 bytes of the words that are unknown, and one for the end of each."""
    chosen = compress(words, is_unknown)
    return sum(len(word.encode("utf-8", "surrogatepass")) + 1 for word in chosen)


def _exp(x: float) -> float:
    return math.exp(x) if not x > 700 else math.inf
