"""Tokenised sentences → vectors: every distinct word is encoded once."""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ..nn import BiLmState, TokenIds
from ..text.batch import WordBatch
from ..text.ids import TokenIndexer
from .engine import Engine
from .packed import Request, take_rows

WORDS_AT_ONCE = 1024
"""Distinct words in one call of the encoder."""


class Embedder:
    """An engine with the index that turns words into ids, and a cache of `cache_words` words."""

    def __init__(self, engine: Engine, indexer: TokenIndexer, cache_words: int) -> None:
        self.engine = engine
        self.indexer = indexer
        self.cache = WordCache(cache_words)
        self._mark: tuple[object, ...] = ()

    def token_vectors(self, words: Sequence[str]) -> Tensor:
        """x_k of each of the distinct `words`, (N, P): a token before it meets its sentence."""
        mark = self.engine.mark(self.engine.bilm.encoder)
        if mark != self._mark:
            self.cache.clear()
            self._mark = mark
        return self.cache.vectors(words, self._encode)

    def run(
        self, sentences: Sequence[Sequence[str]], request: Request, state: BiLmState | None
    ) -> tuple[list[Tensor], BiLmState]:
        """The requested vectors of each sentence, (S, T, D), and the states after them."""
        batch = self.batch(sentences)
        x = self.token_vectors(batch.words)
        vectors, after = self.engine.run(x, batch.index, batch.lengths, request, state)
        sizes = [len(s) + 2 * request.boundaries for s in sentences]
        return list(torch.split(vectors, sizes, dim=1)), after

    def ids(self, words: Sequence[str]) -> TokenIds:
        """The ids of `words` where the weights are."""
        device = self.engine.bilm.forward_lm.layers[0].bias.device
        tensors = (
            None if part is None else torch.from_numpy(part).to(device)
            for part in self.indexer(words)
        )
        return TokenIds(*tensors)

    def batch(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        """The sentences with the boundaries of this model."""
        return WordBatch.of(sentences, self.indexer.bos, self.indexer.eos)

    def _encode(self, words: list[str]) -> Tensor:
        # torch's product of a few rows may round otherwise than one of many. With a number of
        # words that is a multiple of 8, a vector does not depend on which others were asked for.
        missing = 0 if self.engine.isa else -len(words) % 8
        parts = [
            self.engine.token_vectors(self.ids(some[i : i + WORDS_AT_ONCE]))
            for some in [words + words[:1] * missing]
            for i in range(0, len(some), WORDS_AT_ONCE)
        ]
        return torch.cat(parts)[: len(words)]


class WordCache:
    """Words and their vectors, in two generations of at most `capacity` words each.

    When the young generation is full it becomes the old one, and the old one is forgotten; a word
    that is found in the old one moves to the young one. So words that are in use stay.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._young, self._old = _Generation(), _Generation()

    def __reduce__(self) -> tuple[type["WordCache"], tuple[int]]:
        return WordCache, (self.capacity,)  # a copy of a model starts to remember anew

    def __len__(self) -> int:
        return len(self._young.rows.keys() | self._old.rows.keys())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._young, self._old = _Generation(), _Generation()

    def vectors(self, words: Sequence[str], compute: Callable[[list[str]], Tensor]) -> Tensor:
        """The vectors of distinct `words`; `compute` gives those that are not known."""
        if not self.capacity:
            return compute(list(words))
        with self._lock:
            young, old = self._young, self._old
            rows = [young.rows.get(word, -1) for word in words]
            missing = [i for i, row in enumerate(rows) if row < 0]
            if not missing and young.vectors is not None:
                return take_rows(young.vectors, np.array(rows))
            rows_in_old = [old.rows.get(words[i], -1) for i in missing]
            found = [i for i, row in zip(missing, rows_in_old, strict=True) if row >= 0]
            parts = [(at, take_rows(source.vectors, np.array(at_rows))) for source, at, at_rows in (
                (young, [i for i, row in enumerate(rows) if row >= 0], [r for r in rows if r >= 0]),
                (old, found, [r for r in rows_in_old if r >= 0]),
            ) if at and source.vectors is not None]  # fmt: skip
        unknown = sorted(set(missing) - set(found))
        if unknown:
            parts.append((unknown, compute([words[i] for i in unknown])))
        result = parts[0][1]
        if len(parts) > 1:
            order = np.argsort(np.concatenate([at for at, _ in parts]))
            result = take_rows(torch.cat([vectors for _, vectors in parts]), order)
        with self._lock:
            self._remember([words[i] for i in missing], take_rows(result, np.array(missing)))
        return result

    def _remember(self, words: list[str], vectors: Tensor) -> None:
        words, vectors = words[-self.capacity :], vectors[-self.capacity :]
        if len(self._young.rows) + len(words) > self.capacity:
            self._young, self._old = _Generation(), self._young
        new = [i for i, word in enumerate(words) if word not in self._young.rows]
        with torch.inference_mode(False), torch.no_grad():
            self._young.add(
                [words[i] for i in new], take_rows(vectors, np.array(new, dtype=np.int64))
            )


class _Generation:
    """Some words and the rows of their vectors."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.vectors: Tensor | None = None

    def add(self, words: Sequence[str], vectors: Tensor) -> None:
        start, end = len(self.rows), len(self.rows) + len(words)
        if self.vectors is None or end > len(self.vectors):
            grown = vectors.new_empty(max(1024, 2 * end), vectors.shape[1])
            if self.vectors is not None:
                grown[:start] = self.vectors[:start]
            self.vectors = grown
        self.vectors[start:end] = vectors
        self.rows.update(zip(words, range(start, end), strict=True))


class StartStates:
    """Where the LSTMs start a sentence: from one stored state, or from zeros.

    The original programs carry the state from call to call, so that a repeated sentence gets other
    vectors. Here that is a choice (`CarriedStates`) and not the default.
    """

    carries = False

    def __init__(self, state: BiLmState | None = None) -> None:
        self.state = state

    def start(self, rows: Sequence[int]) -> BiLmState | None:
        """The states before the sentences that have these numbers in the call; None for zeros."""
        return None if self.state is None else self.state.repeat(len(rows))

    def finish(self, rows: Sequence[int], state: BiLmState) -> None:
        """Take note of the states after them."""


class CarriedStates(StartStates):
    """The i-th sentence of a call continues the i-th of the call before."""

    carries = True
    state: BiLmState

    # Not in inference mode: tensors of it could not be changed by a later call outside of it.
    @torch.inference_mode(False)
    def start(self, rows: Sequence[int]) -> BiLmState:
        missing = max(rows, default=-1) + 1 - self.state.h.shape[2]
        if missing > 0:
            grown = (
                torch.cat([part, part.new_zeros(*part.shape[:2], missing, part.shape[3])], dim=2)
                for part in self.state
            )
            self.state = BiLmState(*grown)
        return BiLmState(self.state.h[:, :, rows], self.state.c[:, :, rows])

    def finish(self, rows: Sequence[int], state: BiLmState) -> None:
        self.state.h[:, :, rows] = state.h.detach()
        self.state.c[:, :, rows] = state.c.detach()
