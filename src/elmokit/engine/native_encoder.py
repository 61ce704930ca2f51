"""The token encoder by the native kernel, and its filters with gradients.

Words are shared among threads, then columns of weights. The backward pass adds each gradient to the
table rows that made the maximum, filters shared among threads, so that no two threads add to the
same number. The results are the same from run to run for a given number of threads.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_int, c_int64, c_void_p
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from ..nn import CharCnn, TokenEncoder, TokenIds
from .native import Kernel, declare, equal_parts, num_threads, pointer, side_by_side
from .native_product import NativeLinear
from .torch_encoder import FilterBank, encode_by, filter_banks, joined_highways, spelled_lengths

MIN_WORDS_PER_THREAD, WORDS_TOGETHER = 8, 64
"""Fewer words than the first are not worth a thread; more than the second gain nothing."""

CACHE_LINE = 16
"""Floats that threads should not share."""


class _Bank(ctypes.Structure):
    _fields_ = [
        ("width", c_int64), ("num_filters", c_int64), ("num_characters", c_int64),
        ("max_characters", c_int64), ("stride", c_int64), ("table", c_void_p), ("bias", c_void_p),
    ]  # fmt: skip


_WORDS = (POINTER(_Bank), c_void_p, c_int64)
declare("filters_forward", *_WORDS, c_void_p, c_void_p, c_void_p)
declare("filters_backward", *_WORDS, c_void_p, c_void_p, c_int64, c_int64, c_void_p)
declare("highway", c_int64, c_int64, c_void_p, c_void_p)
declare("activate", c_int64, c_int, c_void_p)


class NativeEncoder:
    """A `TokenEncoder` packed for the kernel; the same values."""

    def __init__(self, encoder: TokenEncoder, kernel: Kernel) -> None:
        self.encoder, self.kernel, cnn = encoder, kernel, encoder.char_cnn
        self.banks = [] if cnn is None else [bank.detach() for bank in filter_banks(cnn)]
        highways = [] if cnn is None else joined_highways(cnn)
        self.highways = [NativeLinear(kernel, *pair) for pair in highways]
        self.projection: NativeLinear | None = None
        if encoder.projection is not None:
            weight, bias = encoder.projection.weight, encoder.projection.bias
            self.projection = NativeLinear(kernel, weight, bias)

    def __call__(self, ids: TokenIds) -> Tensor:
        """x_k of each word, (N, P)."""
        return encode_by(self.encoder, ids, self._char_cnn, self._project)

    def _project(self, linear: nn.Linear, x: Tensor) -> Tensor:
        assert self.projection is not None
        return _products(self.projection, x)[:, : linear.out_features]

    def _char_cnn(self, cnn: CharCnn, characters: Tensor) -> Tensor:
        """The character CNN of some words, (N, F): filters by words, products by columns."""
        ids = _checked(characters, cnn.embedding.num_embeddings)
        # `spelled_lengths` in NumPy, for the reason that `take` in packed.py gives.
        positions = np.arange(1, ids.shape[1] + 1)
        lengths = ((ids != ids[:, -1:]) * positions).max(axis=1, initial=0)
        filters = _Filters(
            self.kernel, self.banks, torch.from_numpy(ids.astype(np.int32)),
            torch.from_numpy(lengths),
        )  # fmt: skip
        x = filters.pooled
        spread = min(num_threads(), len(x) // MIN_WORDS_PER_THREAD)
        number = max(1, spread, -(-len(x) // WORDS_TOGETHER))
        cuts = pairwise([len(x) * i // number for i in range(number + 1)])
        is_tanh = cnn.activation is torch.tanh
        side_by_side([partial(self._activated, filters, is_tanh, a, b) for a, b in cuts])
        for highway in self.highways:
            products = _products(highway, x)
            if products.shape[1] > 2 * x.shape[1]:  # padded, for sizes of tests only
                products = products[:, : 2 * x.shape[1]].contiguous()
            self.kernel.lib.elmokit_highway(
                self.kernel.isa, *x.shape, products.data_ptr(), x.data_ptr()
            )
        return x

    def _activated(self, filters: "_Filters", is_tanh: bool, first: int, end: int) -> None:
        """Fill the activated maxima of some words."""
        filters.fill(first, end)
        x = filters.pooled[first:end]
        self.kernel.lib.elmokit_activate(self.kernel.isa, x.numel(), is_tanh, x.data_ptr())


class _Filters:
    """The filters over some words: the maximum of each, (N, F), and perhaps where it is.

    Args:
        kernel: Computes.
        banks: The filters, their tables in one piece.
        words: Rows of the tables that spell the words, int32 (N, C).
        lengths: Characters of each word, int64.
        with_positions: Whether gradients are wanted.
    """

    def __init__(
        self,
        kernel: Kernel,
        banks: Sequence[FilterBank],
        words: Tensor,
        lengths: Tensor,
        *,
        with_positions: bool = False,
    ) -> None:
        self.kernel, self.words, self.lengths, self._tensors = kernel, words, lengths, banks
        num_filters = sum(len(bias) for _, bias in banks)
        self.pooled = torch.empty(len(words), num_filters)
        self.positions = (
            torch.empty_like(self.pooled, dtype=torch.int32) if with_positions else None
        )
        self.banks, self.columns, column = list[_Bank](), list[int](), 0
        for table, bias in banks:
            width, num_characters, number = table.shape
            self.banks.append(
                _Bank(width, number, num_characters, words.shape[1], num_filters,
                      table.data_ptr(), bias.data_ptr())
            )  # fmt: skip
            self.columns.append(column)
            column += number

    def fill(self, first: int, end: int) -> None:
        """Fill the maxima of some words, in the calling thread.

        As little Python as can be: threads take turns in it.
        """
        words = self.words.data_ptr() + 4 * first * self.words.shape[1]
        lengths = self.lengths.data_ptr() + 8 * first
        out, positions = self.pooled.data_ptr(), pointer(self.positions)
        for bank, column in zip(self.banks, self.columns):
            at = 4 * (first * self.pooled.shape[1] + column)
            self.kernel.lib.elmokit_filters_forward(
                self.kernel.isa, bank, words, end - first, lengths, out + at,
                None if positions is None else positions + at,
            )  # fmt: skip

    def gradients(self, grad: Tensor) -> list[Tensor]:
        """dL/d(table) of each bank."""
        assert self.positions is not None
        tables, calls = [], []
        for bank, column in zip(self.banks, self.columns):
            table = grad.new_zeros(bank.width, bank.num_characters, bank.num_filters)
            tables.append(table)
            for first, end in equal_parts(bank.num_filters, num_threads(), CACHE_LINE):
                calls.append(
                    partial(
                        self.kernel.lib.elmokit_filters_backward, self.kernel.isa, bank,
                        self.words.data_ptr(), len(self.words), grad.data_ptr() + 4 * column,
                        self.positions.data_ptr() + 4 * column, first, end, table.data_ptr(),
                    )
                )  # fmt: skip
        side_by_side(calls)
        return tables


def _products(linear: NativeLinear, x: Tensor) -> Tensor:
    """`linear` of all rows; each thread reads the weights of some columns only."""
    out = x.new_empty(len(x), linear.output_dim)
    parts = equal_parts(linear.output_dim, num_threads(), linear.kernel.panel)
    side_by_side([partial(linear.fill, x, out, *part) for part in parts])
    return out


def pooled_filters(cnn: CharCnn, characters: Tensor, isa: str | None = None) -> Tensor:
    """The maximum of each filter over each word, (N, F), before the activation; with gradients."""
    used, words = _renumber(characters, cnn.embedding.num_embeddings)
    rows = embedding(used, cnn.embedding.weight, cnn.embedding.padding_idx)
    banks = list(filter_banks(cnn, rows))
    tables, biases = zip(*banks, strict=True)
    pooled: Tensor = _Pool.apply(  # type: ignore[no-untyped-call]
        Kernel(isa), words, spelled_lengths(characters), *tables, *biases
    )
    return pooled


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Kernel, words: Tensor, lengths: Tensor, *tensors: Tensor
    ) -> Tensor:
        number = len(tensors) // 2
        tables = [table.contiguous() for table in tensors[:number]]
        banks = list(map(FilterBank, tables, tensors[number:]))
        filters = _Filters(kernel, banks, words, lengths, with_positions=True)
        parts = equal_parts(len(words), num_threads())
        side_by_side([partial(filters.fill, *part) for part in parts])
        pooled = filters.pooled
        # A context that holds its output, or a view of it, is never freed.
        filters.pooled = pooled.new_empty(0)
        ctx.filters = filters
        return pooled

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        filters: _Filters = ctx.filters
        grad = grad.contiguous()
        sizes = [bank.num_filters for bank in filters.banks]
        return None, None, None, *filters.gradients(grad), *torch.split(grad.sum(dim=0), sizes)


def _renumber(characters: Tensor, num_characters: int) -> tuple[Tensor, Tensor]:
    """The distinct characters, and each character of each word as its number among them."""
    ids = _checked(characters, num_characters)
    is_used = np.zeros(ids.max(initial=0) + 1, dtype=bool)
    is_used[ids] = True
    numbers = np.cumsum(is_used, dtype=np.int32) - 1
    return torch.from_numpy(np.flatnonzero(is_used)), torch.from_numpy(numbers[ids])


def _checked(characters: Tensor, num_characters: int) -> NDArray[np.integer]:
    """The ids; those that would read outside of the tables are refused."""
    ids = np.ascontiguousarray(characters.numpy())
    low, high = ids.min(initial=0), ids.max(initial=0)
    if low < 0 or high >= num_characters:
        raise IndexError(f"character ids {low}..{high} outside 0..{num_characters - 1}")
    return ids
