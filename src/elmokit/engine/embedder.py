"""Tokenised sentences → vectors: every distinct word is spelled out once a batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..nn import BiLm, BiLmState, TokenIds
from ..text.batch import WordBatch
from ..text.index import TokenIndexer
from .run import Request, run

WORDS_AT_ONCE = 512
"""Distinct words in one call of the encoder: its convolutions take about 0.5 MB each."""


class Embedder:
    """A biLM with the index that turns its words into ids."""

    def __init__(self, bilm: BiLm, indexer: TokenIndexer) -> None:
        self.bilm = bilm
        self.indexer = indexer

    def token_vectors(self, words: Sequence[str]) -> Tensor:
        """x_k of each word, (N, P): what a token is before it meets its sentence."""
        device = self.bilm.forward_lm.layers[0].bias.device
        vectors = []
        for start in range(0, max(1, len(words)), WORDS_AT_ONCE):
            ids = self.indexer(words[start : start + WORDS_AT_ONCE])
            tensors = (None if part is None else torch.from_numpy(part).to(device) for part in ids)
            vectors.append(self.bilm.encoder(TokenIds(*tensors)))
        return torch.cat(vectors)

    def run(
        self, sentences: Sequence[Sequence[str]], request: Request, state: BiLmState | None
    ) -> tuple[list[Tensor], BiLmState]:
        """The requested vectors of each sentence, (S, T, D), and the states after them."""
        batch = self.batch(sentences)
        x = self.token_vectors(batch.words)
        vectors, after = run(self.bilm, x, batch.index, batch.lengths, request, state)
        return list(torch.split(vectors, [len(s) for s in sentences], dim=1)), after

    def batch(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        """The sentences with the boundaries of this model."""
        return WordBatch.of(sentences, self.indexer.bos, self.indexer.eos)
