"""The token encoder θx: a word's characters, its row in a table, or both → x_k."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..config import EncoderConfig
from .char_cnn import CharCnn
from .shapes import Float, Int


class TokenIds(NamedTuple):
    """Ids of N words: their characters, their rows in the word table, or both."""

    characters: Int[Tensor, "N C"] | None
    words: Int[Tensor, " N"] | None


class TokenEncoder(nn.Module):
    """The context-free token vector x_k = W [word; CharCnn(characters)] + b.

    Characters alone give the published ELMo, words and characters ELMoForManyLangs, words
    alone (and no projection) a cached token-embedding file.
    """

    def __init__(self, config: EncoderConfig, output_dim: int) -> None:
        super().__init__()
        self.words = None
        if config.num_words:
            rows = torch.empty(config.num_words, config.word_dim).uniform_(-1, 1)
            self.words = nn.Embedding(config.num_words, config.word_dim, _weight=rows)
        self.char_cnn = CharCnn(config.char_cnn) if config.char_cnn else None
        self.projection = (
            nn.Linear(config.unprojected_dim, output_dim) if config.projected else None
        )

    def forward(self, ids: TokenIds) -> Float[Tensor, "N P"]:
        parts = []
        if self.words is not None:
            parts.append(self.words(ids.words))
        if self.char_cnn is not None:
            parts.append(self.char_cnn(ids.characters))
        x = torch.cat(parts, dim=-1)
        return x if self.projection is None else self.projection(x)
