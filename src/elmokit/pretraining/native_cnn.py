"""The filters of the character CNN by the native kernel, with gradients.

The lookups and maxima are done in C, words shared among threads; the way back adds each gradient
to the table rows that made the maximum, filters shared among threads, so that no two threads add
to the same number. The tables, of the characters that the words have, are torch's. The results are
the same from run to run for a given number of threads.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from ..engine.native_training import Bank, TrainingKernel
from ..engine.spelling import spelled_lengths
from ..engine.threads import equal_parts, num_threads, side_by_side
from ..nn import CharCnn
from .native_recurrence import available as available

CACHE_LINE = 16
"""Floats that threads should not share."""


def pooled_filters(cnn: CharCnn, characters: Tensor, isa: str | None = None) -> Tensor:
    """The maximum of each filter over each word, (N, F), before the activation.

    Args:
        cnn: The character CNN.
        characters: Character ids of the words, (N, C).
        isa: The instruction set; None for that of `ELMOKIT_ISA` or the best.
    """
    used, words = _renumber(characters, cnn.embedding.num_embeddings)
    rows = embedding(used, cnn.embedding.weight, cnn.embedding.padding_idx)
    tables, biases = [], []
    for conv in cnn.convolutions:
        assert isinstance(conv, nn.Conv1d) and conv.bias is not None
        tables.append(torch.matmul(rows, conv.weight.permute(2, 1, 0)))
        biases.append(conv.bias)
    lengths = spelled_lengths(characters)
    pooled: Tensor = _Pool.apply(  # type: ignore[no-untyped-call]
        TrainingKernel(isa), words, lengths, *tables, *biases
    )
    return pooled


def _renumber(characters: Tensor, num_characters: int) -> tuple[Tensor, Tensor]:
    """The distinct characters, and for each place of each word the number of its character."""
    ids = np.ascontiguousarray(characters.numpy())
    low, high = ids.min(initial=0), ids.max(initial=0)
    if low < 0 or high >= num_characters:
        raise IndexError(f"character ids {low}..{high} outside 0..{num_characters - 1}")
    is_used = np.zeros(high + 1, dtype=bool)
    is_used[ids] = True
    numbers = np.cumsum(is_used, dtype=np.int32) - 1
    return torch.from_numpy(np.flatnonzero(is_used)), torch.from_numpy(numbers[ids])


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: TrainingKernel, words: Tensor, lengths: Tensor, *tensors: Tensor
    ) -> Tensor:
        number = len(tensors) // 2
        tables, biases = [t.contiguous() for t in tensors[:number]], tensors[number:]
        num_filters = sum(map(len, biases))
        banks = [
            Bank(*table.shape[:1], table.shape[2], table.shape[1], words.shape[1], num_filters,
                 table.data_ptr(), bias.data_ptr())
            for table, bias in zip(tables, biases)
        ]  # fmt: skip
        pooled = torch.empty(len(words), num_filters)
        places = torch.empty(len(words), num_filters, dtype=torch.int32)

        def spell(first: int, end: int) -> None:
            column = 0
            for bank in banks:
                at = 4 * (first * num_filters + column)
                kernel.lib.elmokit_filters_forward(
                    kernel.isa, bank, words.data_ptr() + 4 * first * words.shape[1], end - first,
                    lengths.data_ptr() + 8 * first, pooled.data_ptr() + at, places.data_ptr() + at,
                )  # fmt: skip
                column += bank.num_filters

        parts = equal_parts(len(words), num_threads())
        side_by_side([partial(spell, *part) for part in parts])
        ctx.kernel, ctx.banks = kernel, banks
        ctx.save_for_backward(words, places)
        return pooled

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        words, places = ctx.saved_tensors
        kernel, grad = ctx.kernel, grad.contiguous()
        tables, calls, column = [], [], 0
        for bank in ctx.banks:
            table = grad.new_zeros(bank.width, bank.num_characters, bank.num_filters)
            tables.append(table)
            for first, end in equal_parts(bank.num_filters, num_threads(), CACHE_LINE):
                calls.append(
                    partial(
                        kernel.lib.elmokit_filters_backward, kernel.isa, bank, words.data_ptr(),
                        len(words), grad.data_ptr() + 4 * column, places.data_ptr() + 4 * column,
                        first, end, table.data_ptr(),
                    )
                )  # fmt: skip
            column += bank.num_filters
        side_by_side(calls)
        biases = torch.split(grad.sum(dim=0), [bank.num_filters for bank in ctx.banks])
        return None, None, None, *tables, *biases
