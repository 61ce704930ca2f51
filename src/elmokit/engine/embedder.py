"""Tokenised sentences → vectors: every distinct word is spelled out once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..nn import BiLmState, TokenIds
from ..text.batch import WordBatch
from ..text.index import TokenIndexer
from .cache import WordCache
from .engine import Engine
from .request import Request

WORDS_AT_ONCE = 1024
"""Distinct words in one call of the encoder."""


class Embedder:
    """An engine with the index that turns its words into ids, and a cache of words.

    Args:
        engine: What computes.
        indexer: Words to ids.
        cache_words: Words whose token vectors are remembered from call to call; 0 for none.
    """

    def __init__(self, engine: Engine, indexer: TokenIndexer, cache_words: int) -> None:
        self.engine = engine
        self.indexer = indexer
        self.cache = WordCache(cache_words)
        self._mark: tuple[object, ...] = ()

    def token_vectors(self, words: Sequence[str]) -> Tensor:
        """x_k of each of the distinct `words`, (N, P): a token before it meets its sentence."""
        mark = self.engine.encoder_mark()
        if mark != self._mark:
            self.cache.clear()
            self._mark = mark
        return self.cache.vectors(words, self._spell)

    def run(
        self, sentences: Sequence[Sequence[str]], request: Request, state: BiLmState | None
    ) -> tuple[list[Tensor], BiLmState]:
        """The requested vectors of each sentence, (S, T, D), and the states after them."""
        batch = self.batch(sentences)
        x = self.token_vectors(batch.words)
        vectors, after = self.engine.run(x, batch.index, batch.lengths, request, state)
        return list(torch.split(vectors, [len(s) for s in sentences], dim=1)), after

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

    def _spell(self, words: list[str]) -> Tensor:
        # torch's product of a few rows may round otherwise than one of many. With a number of
        # words that is a multiple of 8, a vector does not depend on which others were asked for.
        missing = 0 if self.engine.isa else -len(words) % 8
        parts = [
            self.engine.token_vectors(self.ids(some[i : i + WORDS_AT_ONCE]))
            for some in [words + words[:1] * missing]
            for i in range(0, len(some), WORDS_AT_ONCE)
        ]
        return torch.cat(parts)[: len(words)]
