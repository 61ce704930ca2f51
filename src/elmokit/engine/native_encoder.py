"""The token encoder by the native kernel: words shared among threads, then columns of weights."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from ..nn import CharCnn, Highway, TokenEncoder, TokenIds
from .native import Filters, Kernel, NativeLinear
from .spelling import response_table

MIN_WORDS_A_THREAD, WORDS_TOGETHER = 8, 64
"""Fewer words than the first are not worth a thread; more than the second gain nothing."""

Each: TypeAlias = Callable[[Sequence[Callable[[], object]]], None]
"""Runs calls side by side."""


class NativeEncoder:
    """A `TokenEncoder` packed for the kernel; the same values.

    Args:
        encoder: The encoder.
        kernel: The kernel.
        each: Runs calls side by side.
    """

    def __init__(self, encoder: TokenEncoder, kernel: Kernel, each: Each) -> None:
        self.each = each
        self.words = encoder.words
        self.cnn = None if encoder.char_cnn is None else _NativeCharCnn(encoder.char_cnn, kernel)
        self.projection = None
        if encoder.projection is not None:
            weight, bias = encoder.projection.weight.detach(), encoder.projection.bias.detach()
            self.projection = NativeLinear(kernel, weight, bias)
            self.output_dim = len(weight)

    def __call__(self, ids: TokenIds) -> Tensor:
        """x_k of each word, (N, P)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(ids.words))
        if self.cnn is not None:
            assert ids.characters is not None
            parts.append(self._spell(ids.characters.contiguous(), self.cnn))
        x = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        if self.projection is None:
            return x
        return self._products(self.projection, x)[:, : self.output_dim]

    def _spell(self, characters: Tensor, cnn: "_NativeCharCnn") -> Tensor:
        """The character CNN of some words, (N, F): filters by words, products by columns."""
        x = torch.empty(len(characters), cnn.num_filters)
        lengths = torch.from_numpy(cnn.check(characters))
        spread = min(torch.get_num_threads(), len(x) // MIN_WORDS_A_THREAD)
        number = max(1, spread, -(-len(x) // WORDS_TOGETHER))
        cuts = pairwise([len(x) * i // number for i in range(number + 1)])
        self.each([partial(cnn.spell, characters[a:b], lengths[a:b], x[a:b]) for a, b in cuts])
        for highway in cnn.highways:
            cnn.carry(self._products(highway, x), x)
        return x

    def _products(self, linear: NativeLinear, x: Tensor) -> Tensor:
        """`linear` of all rows; each thread reads the weights of some columns only."""
        out = x.new_empty(len(x), linear.output_dim)
        parts = linear.parts(torch.get_num_threads())
        self.each([partial(linear.fill, x, out, *part) for part in parts])
        return out


class _NativeCharCnn:
    """A `CharCnn` packed for the kernel."""

    def __init__(self, cnn: CharCnn, kernel: Kernel) -> None:
        self.kernel = kernel
        self.num_characters = cnn.embedding.num_embeddings
        self.is_tanh = cnn.activation is torch.tanh
        self.banks: list[tuple[int, int, Tensor, Tensor]] = []
        for conv in cnn.convolutions:
            assert isinstance(conv, nn.Conv1d) and conv.bias is not None
            extra = kernel.round_up(conv.out_channels) - conv.out_channels
            table = pad(response_table(cnn.embedding, conv), (0, extra)).contiguous()
            bias = pad(conv.bias.detach(), (0, extra))
            self.banks.append((conv.kernel_size[0], conv.out_channels, table, bias))
        self.num_filters = sum(number for _, number, _, _ in self.banks)
        self.highways = [
            NativeLinear(
                kernel,
                torch.cat([highway.transform.weight, highway.carry.weight]).detach(),
                torch.cat([highway.transform.bias, highway.carry.bias]).detach(),
            )
            for highway in cnn.highways
            if isinstance(highway, Highway)
        ]

    def check(self, characters: Tensor) -> NDArray[np.int64]:
        """The lengths of the words; ids that would read outside of the tables are refused."""
        ids = characters.numpy()
        low, high = ids.min(initial=0), ids.max(initial=0)
        if low < 0 or high >= self.num_characters:
            raise IndexError(f"character ids {low}..{high} outside 0..{self.num_characters - 1}")
        # `spelled_lengths` in NumPy, for the reason that `rows.py` gives.
        places = np.arange(1, ids.shape[1] + 1)
        lengths: NDArray[np.int64] = ((ids != ids[:, -1:]) * places).max(axis=1, initial=0)
        return lengths

    def spell(self, characters: Tensor, lengths: Tensor, x: Tensor) -> None:
        """Fill `x`, (N, F), with what the filters find in some words, in the calling thread.

        As little Python as can be: threads take turns in it.
        """
        lib, isa = self.kernel.lib, self.kernel.isa
        column = 0
        for width, number, table, bias in self.banks:
            struct = Filters(
                width, number, table.shape[2], table.shape[1], characters.shape[1],
                self.num_filters, table.data_ptr(), bias.data_ptr(),
            )  # fmt: skip
            lib.elmokit_char_cnn(
                isa, struct, characters.data_ptr(), len(x), lengths.data_ptr(),
                x.data_ptr() + 4 * column,
            )  # fmt: skip
            column += number
        lib.elmokit_activate(isa, x.numel(), self.is_tanh, x.data_ptr())

    def carry(self, products: Tensor, x: Tensor) -> None:
        """Move `x` through the highway whose products these are."""
        if products.shape[1] > 2 * self.num_filters:  # padded, for sizes of tests only
            products = products[:, : 2 * self.num_filters].contiguous()
        self.kernel.lib.elmokit_highway(
            self.kernel.isa, len(x), self.num_filters, products.data_ptr(), x.data_ptr()
        )
