"""One batch through all layers of both directions, packed, chunk of time by chunk of time."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ..nn import BiLmState
from . import rows
from .native import NativeLayer
from .packed import PackedOrder
from .request import Request

if TYPE_CHECKING:
    from .engine import Engine

CHUNK_BYTES = 128 * 2**20
"""Memory for the gates of one direction, of one chunk of time or of the distinct words."""

MIN_SENTENCES_A_THREAD = 8
"""Fewer would spend their time on reading the weights."""


ROWS_TOGETHER = 64
"""Distinct words whose input products are a piece of work for a thread."""


class PackedRun:
    """The work of one call of `Engine.run`, whose arguments it takes."""

    def __init__(
        self,
        engine: "Engine",
        x: Tensor,
        index: NDArray[np.int64],
        lengths: NDArray[np.int64],
        request: Request,
        state: BiLmState,
    ) -> None:
        self.engine, self.x, self.index, self.request = engine, x, index, request
        self.config = engine.bilm.config.lstm
        self.weights = request.weights.tolist()  # of each output, layer by layer
        self.orders = [PackedOrder.of(lengths, backward=d == 1) for d in request.directions]
        self.layers = [
            [engine.layer(d, j) for j in range(request.num_lstm_layers)] for d in request.directions
        ]
        self.state = BiLmState(state.h.clone(), state.c.clone())
        self.order = torch.from_numpy(self.orders[0].order).to(x.device)
        # Where each token of the text goes in the result; -1 for boundaries that go nowhere.
        wanted = np.ones(len(index), dtype=bool)
        if not request.boundaries:
            ends = np.cumsum(lengths)
            wanted[ends - 1] = wanted[ends - lengths] = False
        self.target = np.where(wanted, np.cumsum(wanted) - 1, -1)
        width = x.shape[1] * len(request.directions)
        self.out = x.new_zeros(len(request.weights), int(wanted.sum()), width)
        self.ranges = self._sentence_ranges(lengths)

    def result(self) -> tuple[Tensor, BiLmState]:
        """The vectors (S, tokens, P · directions) and the state after each sentence."""
        states = [self._packed_states(half) for half in range(len(self.orders))]
        tables = self._tables()
        max_rows = CHUNK_BYTES // (16 * self.config.dim)
        for chunk in self.orders[0].chunks(max_rows):
            self._run_chunk(*chunk, states, tables)
        for half, direction in enumerate(self.request.directions):
            for j, (h, c) in enumerate(states[half]):
                self.state.h[direction, j, self.order] = h[:, : self.config.projection_dim]
                self.state.c[direction, j, self.order] = c[:, : self.config.dim]
        return self.out, self.state

    def _run_chunk(
        self,
        step: int,
        end_step: int,
        row: int,
        end_row: int,
        states: list[list[tuple[Tensor, Tensor]]],
        tables: list[Tensor | None],
    ) -> None:
        """All layers of some steps, both directions."""
        counts = torch.from_numpy(self.orders[0].counts[step:end_step])
        halves = range(len(self.orders))
        sources = [order.source[row:end_row] for order in self.orders]
        words = [self.index[source] for source in sources]
        places = [torch.from_numpy(w).to(self.x.device) for w in words]
        inputs = [
            rows.take(self.x, words[half])
            if tables[half] is None or any(weights[0] for weights in self.weights)
            else self.x[:0]
            for half in halves
        ]
        outputs = [inputs]
        for j in range(self.request.num_lstm_layers):
            known = tables if j == 0 else [None] * len(tables)
            results = self._recur(j, inputs, known, places, counts, states)
            outputs.append(inputs := results)
        # Last of all: torch's threads would be in the way of the kernel's.
        for layer, halves_of_layer in enumerate(outputs):
            for half, values in enumerate(halves_of_layer):
                self._collect(half, sources[half], values, layer)

    def _recur(
        self,
        j: int,
        inputs: list[Tensor],
        tables: Sequence[Tensor | None],
        places: list[Tensor],
        counts: Tensor,
        states: list[list[tuple[Tensor, Tensor]]],
    ) -> list[Tensor]:
        """The outputs of layer j in each direction; the states move on."""
        results, calls = [], []
        adds_input = j > 0 and self.config.skip_connections
        for half, (x, table, index) in enumerate(zip(inputs, tables, places, strict=True)):
            layer, (h, c) = self.layers[half][j], states[half][j]
            if isinstance(layer, NativeLayer):
                packed = None if table is not None else _padded(x, layer.output_dim)
                out = x.new_empty(len(index), layer.output_dim)
                results.append(out[:, : self.config.projection_dim])
                for some in self.ranges:
                    calls.append(
                        partial(
                            layer.recur, packed, table, index, counts, h, c, out, some, adds_input
                        )
                    )
            elif table is not None:
                results.append(layer.recur(table, index, counts.tolist(), h, c))
            else:
                out = layer.recur(layer.gates(x), None, counts.tolist(), h, c)
                results.append(out + x if adds_input else out)
        if calls:
            self.engine.each(calls)
        return results

    def _collect(self, half: int, source: NDArray[np.int64], values: Tensor, layer: int) -> None:
        """Add the layer's share of these packed rows to the result."""
        weights = [weights[layer] for weights in self.weights]
        if not any(weights):
            return
        target = self.target[source]
        kept = np.flatnonzero(target >= 0)
        values = rows.take(values, kept)
        columns = slice(half * self.x.shape[1], (half + 1) * self.x.shape[1])
        for out, weight in zip(self.out, weights, strict=True):
            if weight:
                rows.add(out[:, columns], target[kept], values, weight)

    def _packed_states(self, half: int) -> list[tuple[Tensor, Tensor]]:
        """The states of one direction in packed order, at the width that its layers want."""
        direction = self.request.directions[half]
        states = []
        for j, layer in enumerate(self.layers[half]):
            h, c = self.state.h[direction, j, self.order], self.state.c[direction, j, self.order]
            if isinstance(layer, NativeLayer):
                h, c = _padded(h, layer.output_dim), _padded(c, layer.dim)
            states.append((h, c))
        return states

    def _tables(self) -> list[Tensor | None]:
        """The first layers' input products of the distinct words, if that saves work."""
        is_large = len(self.x) * 16 * self.config.dim > CHUNK_BYTES
        if not self.layers[0] or len(self.x) >= len(self.index) or is_large:
            return [None] * len(self.layers)
        tables: list[Tensor | None] = []
        calls = []
        for layer, *_ in self.layers:
            if isinstance(layer, NativeLayer):
                x = _padded(self.x, layer.output_dim)
                table = x.new_empty(len(x), 4 * layer.dim)
                parts = zip(torch.split(x, ROWS_TOGETHER), torch.split(table, ROWS_TOGETHER))
                calls += [partial(layer.products, *part) for part in parts]
            else:
                table = layer.gates(self.x)
            tables.append(table)
        if calls:
            self.engine.each(calls)
        return tables

    def _sentence_ranges(self, lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Sentences for each thread of a direction, about equal in tokens."""
        threads = torch.get_num_threads() // len(self.orders)
        number = max(1, min(threads, len(lengths) // MIN_SENTENCES_A_THREAD))
        ends = np.cumsum(np.sort(lengths)[::-1])
        cuts = [int(np.searchsorted(ends, ends[-1] * k / number)) for k in range(number)]
        return [(a, b) for a, b in pairwise([*cuts, len(lengths)]) if b > a]


def _padded(t: Tensor, width: int) -> Tensor:
    """`t` with zeros up to `width` columns, in one piece; as it is if it is that already."""
    return pad(t, (0, width - t.shape[1])).contiguous() if t.shape[1] < width else t.contiguous()
