"""The filters of the character CNN with gradients, by tables instead of convolutions.

The same values as `nn.CharCnn` before its activation. What a character adds to a filter at a
place of the window is a table that is small and the same for all words of a batch; a window is a
sum of a few of its rows; and the gradient of a maximum reaches one window only. `native_cnn.py`
does the lookups in C.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from ..engine.spelling import spelled_lengths
from ..nn import CharCnn
from . import native_cnn

WORDS_TOGETHER = 64
"""Words of similar length whose windows are summed together."""


def pooled_filters(cnn: CharCnn, characters: Tensor) -> Tensor:
    """The maximum of each filter over each word, (N, F), before the activation."""
    if native_cnn.available(cnn.embedding.weight):
        return native_cnn.pooled_filters(cnn, characters)
    if characters.device.type == "cpu":
        return pooled_filters_torch(cnn, characters)
    spelled = cnn.embedding(characters).transpose(1, 2)  # what GPUs are made for
    return torch.cat([conv(spelled).amax(dim=-1) for conv in cnn.convolutions], dim=-1)


def pooled_filters_torch(cnn: CharCnn, characters: Tensor) -> Tensor:
    """`pooled_filters` by torch alone."""
    lengths = spelled_lengths(characters)
    order = torch.argsort(lengths, stable=True)
    sorted_characters, longest = characters[order], lengths[order]
    parts = []
    for conv in cnn.convolutions:
        assert isinstance(conv, nn.Conv1d) and conv.bias is not None
        table = torch.einsum("cd,fdk->kcf", cnn.embedding.weight, conv.weight)
        pooled = _Pool.apply(table, sorted_characters, longest)  # type: ignore[no-untyped-call]
        parts.append(pooled + conv.bias)
    pooled = torch.cat(parts, dim=1)
    return torch.empty_like(pooled).index_copy(0, order, pooled)


class _Pool(torch.autograd.Function):
    """The maxima of windows whose values are sums of table rows."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, characters: Tensor, lengths: Tensor) -> Tensor:
        width, num_characters, num_filters = table.shape
        flat = table.reshape(-1, num_filters)
        shifts = torch.arange(width, device=table.device) * num_characters
        values, places = [], []
        for a in range(0, len(characters), WORDS_TOGETHER):
            some = characters[a : a + WORDS_TOGETHER]
            # One window that lies wholly in the padding stands for all of them.
            longest = int(lengths[a : a + WORDS_TOGETHER].max())
            num_places = min(longest, characters.shape[1] - width) + 1
            windows = some[:, : num_places + width - 1].unfold(1, width, 1) + shifts
            sums = embedding_bag(windows.reshape(-1, width), flat, mode="sum")
            best = sums.view(len(some), num_places, num_filters).max(dim=1)
            values.append(best.values)
            places.append(best.indices)
        ctx.save_for_backward(characters, torch.cat(places))
        ctx.shape = table.shape
        return torch.cat(values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, None, None]:
        characters, places = ctx.saved_tensors
        dtable = dout.new_zeros(ctx.shape)
        for k, rows in enumerate(dtable):
            rows.scatter_add_(0, characters.gather(1, places + k), dout)
        return dtable, None, None
