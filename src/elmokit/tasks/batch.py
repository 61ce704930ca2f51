"""Sentences → the tensors that every task model reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..nn.shapes import Bool, Float, Int
from ..text.chars import PADDING, ByteCharacters
from .config import WordsConfig
from .features import LayerSource, Tokens
from .words import WordTable


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """A batch of sentences; B sentences, T tokens, N distinct words, C characters, L layers.

    Attributes:
        mask: True for real tokens.
        words: Row of each token in the word table.
        characters: Spelling of each distinct word.
        spelled: Row of each token in `characters`.
        layers: Layers of the biLM.
    """

    mask: Bool[Tensor, "B T"]
    words: Int[Tensor, "B T"] | None = None
    characters: Int[Tensor, "N C"] | None = None
    spelled: Int[Tensor, "B T"] | None = None
    layers: Float[Tensor, "L B T D"] | None = None


class TokenReader:
    """Turns sentences into batches.

    Args:
        config: The word inputs.
        table: Rows of the words; None for no word vectors.
        source: Layers of the biLM; None for a model without ELMo.
        device: Where the batches go.
    """

    def __init__(
        self,
        config: WordsConfig,
        table: WordTable | None,
        source: LayerSource | None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.table, self.source, self.device = table, source, torch.device(device)
        self.characters = ByteCharacters(config.max_characters) if config.char_filters else None
        self.margin = config.char_width

    def __call__(self, sentences: Sequence[Tokens]) -> TokenBatch:
        """The batch of tokenised sentences."""
        lengths = np.array([len(s) for s in sentences], dtype=np.int64)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        words = characters = spelled = layers = None
        if self.table is not None:
            words = self._padded([self.table.rows(s) for s in sentences], mask)
        if self.characters is not None:
            distinct: dict[str, int] = {}
            rows = [[distinct.setdefault(t, len(distinct)) for t in s] for s in sentences]
            spelled = self._padded(rows, mask)
            characters = self._spell(list(distinct))
        if self.source is not None:
            layers = self.source.layers(sentences).to(self.device)
        return TokenBatch(
            torch.from_numpy(mask).to(self.device), words, characters, spelled, layers
        )

    def _spell(self, words: list[str]) -> Tensor:
        assert self.characters is not None
        ids = self.characters.encode(words)
        # Columns beyond one whole filter of padding add nothing to the maximum over places.
        longest = int((ids != PADDING).sum(axis=1).max(initial=0))
        return torch.from_numpy(ids[:, : longest + self.margin]).to(self.device)

    def _padded(self, rows: Sequence[Sequence[int]], mask: np.ndarray) -> Tensor:
        padded = np.zeros(mask.shape, dtype=np.int64)
        padded[mask] = [i for row in rows for i in row]
        return torch.from_numpy(padded).to(self.device)
