"""The token encoder with the convolutions as tables: what each character adds at each place.

A convolution over embedded characters is a sum of one term for every place of its window, and a
term depends on the character alone. With those terms in tables, a filter bank is lookups and
additions. Windows that lie wholly in the padding are all alike, so one of them is enough.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from ..nn import CharCnn, Highway, TokenEncoder, TokenIds

WORDS_AT_ONCE = 64
"""Words of similar length whose windows are summed together."""


class TableEncoder:
    """A `TokenEncoder` prepared for speed; the same values."""

    def __init__(self, encoder: TokenEncoder) -> None:
        self.words = encoder.words
        self.filters = TorchFilters(encoder.char_cnn) if encoder.char_cnn else None
        self.projection = encoder.projection
        self.activation = encoder.char_cnn.activation if encoder.char_cnn else None
        highways = encoder.char_cnn.highways if encoder.char_cnn else nn.ModuleList()
        self.highways = [_JoinedHighway(h) for h in highways if isinstance(h, Highway)]

    def __call__(self, ids: TokenIds) -> Tensor:
        """x_k of each word, (N, P)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(ids.words))
        if self.filters is not None and self.activation is not None:
            assert ids.characters is not None
            x = self.activation(self.filters(ids.characters, spelled_lengths(ids.characters)))
            for highway in self.highways:
                x = highway(x)
            parts.append(x)
        x = torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]
        return x if self.projection is None else self.projection(x)


def spelled_lengths(characters: Tensor) -> Tensor:
    """Places before the run of one character, the padding, that ends each row."""
    places = torch.arange(1, characters.shape[1] + 1, device=characters.device)
    return ((characters != characters[:, -1:]) * places).amax(dim=1)


def response_table(embedding: nn.Embedding, conv: nn.Conv1d) -> Tensor:
    """What each character adds to each filter at each place of the window: (width, chars, F)."""
    weight = conv.weight.detach().permute(2, 1, 0)
    return torch.matmul(embedding.weight.detach(), weight).contiguous()


class TorchFilters:
    """The filters of a character CNN, pooled, not yet activated: sums by `embedding_bag`."""

    def __init__(self, cnn: CharCnn) -> None:
        self.tables = []
        for conv in cnn.convolutions:
            assert isinstance(conv, nn.Conv1d) and conv.bias is not None
            table = response_table(cnn.embedding, conv)
            self.tables.append((table.flatten(0, 1), len(table), conv.bias.detach()))
        self.num_characters = cnn.embedding.num_embeddings

    def __call__(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """The maximum of each filter over each word, (N, F)."""
        order = torch.argsort(lengths)
        characters, lengths = characters[order], lengths[order]
        pooled = torch.cat(
            [
                self._pool(
                    characters[i : i + WORDS_AT_ONCE], int(lengths[i:][:WORDS_AT_ONCE].max())
                )
                for i in range(0, len(characters), WORDS_AT_ONCE)
            ]
        )
        result = torch.empty_like(pooled)
        result[order] = pooled
        return result

    def _pool(self, characters: Tensor, longest: int) -> Tensor:
        pooled = []
        for table, width, bias in self.tables:
            num_places = min(longest, characters.shape[1] - width) + 1
            windows = characters[:, : num_places + width - 1].unfold(1, width, 1)
            shifts = torch.arange(width, device=characters.device) * self.num_characters
            sums = embedding_bag((windows + shifts).reshape(-1, width), table, mode="sum")
            pooled.append(sums.view(len(characters), num_places, -1).amax(dim=1) + bias)
        return torch.cat(pooled, dim=1)


class _JoinedHighway:
    """A `Highway` with both its products in one."""

    def __init__(self, highway: Highway) -> None:
        self.weight = torch.cat([highway.transform.weight, highway.carry.weight]).detach().t()
        self.bias = torch.cat([highway.transform.bias, highway.carry.bias]).detach()

    def __call__(self, x: Tensor) -> Tensor:
        transform, gate = torch.addmm(self.bias, x, self.weight).chunk(2, dim=1)
        return torch.lerp(x, transform.relu_(), gate.sigmoid_())
