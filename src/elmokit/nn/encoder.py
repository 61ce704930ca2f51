"""The token encoder θx: a word's characters, its row in a table, or both → x_k."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..config import CharCnnConfig, EncoderConfig
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


class CharCnn(nn.Module):
    """A word's spelling → one vector (Kim et al. 2016; paper, section 3.4).

    Convolutions over the characters, max-pooled, then highway layers.

    Of bytes, id 0 is the padding of whole words and stays a zero vector. The padding *inside* a
    word is a character like any other: the published models pool over it, so its position matters.
    """

    def __init__(self, config: CharCnnConfig) -> None:
        super().__init__()
        rows = torch.empty(config.num_characters, config.dim).uniform_(-1, 1)
        padding = 0 if config.characters == "bytes" else None
        if padding is not None:
            rows[padding] = 0
        self.embedding = nn.Embedding(
            config.num_characters, config.dim, padding_idx=padding, _weight=rows
        )
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.dim, number, width) for width, number in config.filters
        )
        self.activation = torch.relu if config.activation == "relu" else torch.tanh
        self.highways = nn.ModuleList(
            Highway(config.num_filters) for _ in range(config.num_highway)
        )

    def forward(self, characters: Int[Tensor, "N C"]) -> Float[Tensor, "N F"]:
        spelled = self.embedding(characters).transpose(1, 2)
        # Both activations grow, so pooling before them gives the same values with less work.
        pooled = [conv(spelled).amax(dim=-1) for conv in self.convolutions]
        x = self.activation(torch.cat(pooled, dim=-1))
        for highway in self.highways:
            x = highway(x)
        return x


class Highway(nn.Module):
    """y = g·relu(x W_transform + b_transform) + (1 - g)·x with g = σ(x W_carry + b_carry).

    By Srivastava et al. (2015). The gate keeps the name that the published files give it, although
    it opens the transform.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = nn.Linear(dim, dim)
        self.carry = nn.Linear(dim, dim)
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, x: Float[Tensor, "N F"]) -> Float[Tensor, "N F"]:
        gate = torch.sigmoid(self.carry(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x
