"""The token encoder with the convolutions as tables: what each character adds at each position.

A convolution over embedded characters is a sum of one term for every position of its window, and a
term depends on the character alone. With those terms in tables, a filter bank is lookups and
additions, and the gradient of a maximum reaches one window only. Windows that lie wholly in the
padding are all alike, so one of them is enough.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from ..nn import CharCnn, Highway, TokenEncoder, TokenIds

WORDS_TOGETHER = 64
"""Words of similar length whose windows are summed together."""


class TorchEncoder:
    """A `TokenEncoder` prepared for speed; the same values."""

    def __init__(self, encoder: TokenEncoder) -> None:
        self.encoder, cnn = encoder, encoder.char_cnn
        self.banks = [] if cnn is None else [bank.detach() for bank in filter_banks(cnn)]
        highways = [] if cnn is None else joined_highways(cnn)
        self.highways = [(weight.detach().t(), bias.detach()) for weight, bias in highways]

    def __call__(self, ids: TokenIds) -> Tensor:
        """x_k of each word, (N, P)."""
        return encode_by(self.encoder, ids, self._char_cnn, lambda linear, x: linear(x))

    def _char_cnn(self, cnn: CharCnn, characters: Tensor) -> Tensor:
        x = cnn.activation(pooled_filters(self.banks, characters))
        for weight, bias in self.highways:
            transform, gate = torch.addmm(bias, x, weight).chunk(2, dim=1)
            x = torch.lerp(x, transform.relu_(), gate.sigmoid_())
        return x


def encode_by(
    encoder: TokenEncoder,
    ids: TokenIds,
    char_cnn: Callable[[CharCnn, Tensor], Tensor],
    projection: Callable[[nn.Linear, Tensor], Tensor],
) -> Tensor:
    """`TokenEncoder.forward` with functions that compute its character CNN and its projection."""
    parts = []
    if encoder.words is not None:
        parts.append(encoder.words(ids.words))
    if encoder.char_cnn is not None:
        assert ids.characters is not None
        parts.append(char_cnn(encoder.char_cnn, ids.characters))
    x = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
    return x if encoder.projection is None else projection(encoder.projection, x)


class FilterBank(NamedTuple):
    """The filters of one width."""

    table: Tensor
    """What each character adds to each filter at each position: (width, characters, F)."""
    bias: Tensor

    def detach(self) -> "FilterBank":
        """The same without gradients, in one piece."""
        return FilterBank(self.table.detach().contiguous(), self.bias.detach())


def filter_banks(cnn: CharCnn, characters: Tensor | None = None) -> Iterator[FilterBank]:
    """The filters of a character CNN by width; of some embedded characters only, if given."""
    rows = cnn.embedding.weight if characters is None else characters
    for conv in cnn.convolutions:
        assert isinstance(conv, nn.Conv1d) and conv.bias is not None
        yield FilterBank(torch.matmul(rows, conv.weight.permute(2, 1, 0)), conv.bias)


def joined_highways(cnn: CharCnn) -> Iterator[tuple[Tensor, Tensor]]:
    """The weight and the bias of each `Highway`, both its products in one."""
    for highway in cnn.highways:
        assert isinstance(highway, Highway)
        both = highway.transform, highway.carry
        yield torch.cat([part.weight for part in both]), torch.cat([part.bias for part in both])


def spelled_lengths(characters: Tensor) -> Tensor:
    """Characters before the run of one character, the padding, that ends each row."""
    positions = torch.arange(1, characters.shape[1] + 1, device=characters.device)
    return ((characters != characters[:, -1:]) * positions).amax(dim=1)


def pooled_filters(banks: Sequence[FilterBank], characters: Tensor) -> Tensor:
    """The maximum of each filter over each word, (N, F), not yet activated; with gradients."""
    lengths = spelled_lengths(characters)
    order = torch.argsort(lengths, stable=True)
    characters, lengths = characters[order], lengths[order]
    parts = [
        _Pool.apply(table, characters, lengths) + bias  # type: ignore[no-untyped-call]
        for table, bias in banks
    ]
    pooled = torch.cat(parts, dim=1)
    return torch.empty_like(pooled).index_copy(0, order, pooled)


class _Pool(torch.autograd.Function):
    """The maxima of windows whose values are sums of table rows."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, characters: Tensor, lengths: Tensor) -> Tensor:
        width, num_characters, num_filters = table.shape
        flat = table.reshape(-1, num_filters)
        shifts = torch.arange(width, device=table.device) * num_characters
        values, positions = [], []
        for a in range(0, len(characters), WORDS_TOGETHER):
            some = characters[a : a + WORDS_TOGETHER]
            longest = int(lengths[a : a + WORDS_TOGETHER].max())
            num_windows = min(longest, characters.shape[1] - width) + 1
            windows = some[:, : num_windows + width - 1].unfold(1, width, 1) + shifts
            sums = embedding_bag(windows.reshape(-1, width), flat, mode="sum")
            sums = sums.view(len(some), num_windows, num_filters)
            if ctx.needs_input_grad[0]:
                best = sums.max(dim=1)
                positions.append(best.indices)
                values.append(best.values)
            else:
                values.append(sums.amax(dim=1))
        if positions:
            ctx.save_for_backward(characters, torch.cat(positions))
        ctx.shape = table.shape
        return torch.cat(values) if values else table.new_zeros(0, num_filters)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, None, None]:
        characters, positions = ctx.saved_tensors
        dtable = dout.new_zeros(ctx.shape)
        for k, rows in enumerate(dtable):
            rows.scatter_add_(0, characters.gather(1, positions + k), dout)
        return dtable, None, None
