"""A batch through all layers of both directions, packed: no padding, hence no work on padding.

Sentences are sorted by length. Step t takes the t-th token of every sentence that is that long,
so the active sentences are always the first `counts[t]`, and the tokens of all steps in turn
fill one matrix without holes:

    a b c d        step   0      1      2    3
    e f g     →    rows   a e h  b f i  c g  d
    h i

The two directions never mix, so both run over the packed rows side by side, layer by layer, in
chunks of time whose LSTM states continue from one to the next: a long document costs no more
memory than a short one beyond its own result.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ..config import LstmConfig
from ..nn import BiLmState
from .native import num_threads, side_by_side
from .native_lstm import NativeLayer
from .torch_lstm import TorchLayer

CHUNK_BYTES = 128 * 2**20
"""Memory for the gates of one direction, of one chunk of time or of the distinct words."""

MIN_SENTENCES_PER_THREAD = 8
"""Fewer would spend their time on reading the weights."""

ROWS_TOGETHER = 64
"""Distinct words whose input products are a piece of work for a thread."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to compute of each token.

    Attributes:
        weights: Each output as weights of the layers (S outputs, L layers): the identity for all
            layers, one row of 1/L for their average.
        directions: 0 for the forward half, 1 for the backward half, in the order of output.
        with_state: Whether the state after each sentence is wanted (it needs every layer).
        boundaries: Whether the begin and end of each sentence are part of the result.
    """

    weights: Tensor
    directions: tuple[int, ...] = (0, 1)
    with_state: bool = False
    boundaries: bool = False

    @property
    def num_lstm_layers(self) -> int:
        """LSTM layers that have to run."""
        used = self.weights.ne(0).any(dim=0).nonzero()
        highest = int(used.max()) if len(used) else 0
        return self.weights.shape[1] - 1 if self.with_state else highest


@dataclass(frozen=True, slots=True)
class PackedOrder:
    """Where each token of sentence-major text goes in the packed matrix of one direction.

    Attributes:
        counts: Sentences active at each step.
        source: For each packed row, the token's position in the sentence-major text.
        order: The sentences from longest to shortest; packed states have this order.
    """

    counts: NDArray[np.int64]
    source: NDArray[np.int64]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64], *, backward: bool) -> "PackedOrder":
        """The order in which one direction reads sentences of these lengths."""
        order = np.argsort(-lengths, kind="stable")
        longest_first = lengths[order]
        num_steps = int(lengths.max(initial=0))
        steps = np.arange(num_steps)
        counts = np.searchsorted(-longest_first, -steps, side="left")
        step_of_row = np.repeat(steps, counts)
        first_row = np.cumsum(counts) - counts
        rank = np.arange(len(step_of_row)) - first_row[step_of_row]
        starts = (np.cumsum(lengths) - lengths)[order]
        position = longest_first[rank] - 1 - step_of_row if backward else step_of_row
        return cls(counts, starts[rank] + position, order)

    def chunks(self, max_rows: int) -> list[tuple[int, int, int, int]]:
        """Runs of whole steps of at most `max_rows` rows: (first step, end, first row, end)."""
        ends = np.cumsum(self.counts)
        spans = []
        step = row = 0
        while step < len(ends):
            end = max(step + 1, int(np.searchsorted(ends, row + max_rows, side="right")))
            spans.append((step, end, row, int(ends[end - 1])))
            step, row = end, int(ends[end - 1])
        return spans


class PackedRun:
    """One batch: prepared layers of each wanted direction, and the arguments of `Engine.run`."""

    def __init__(
        self,
        config: LstmConfig,
        layers: list[list[NativeLayer | TorchLayer]],
        x: Tensor,
        index: NDArray[np.int64],
        lengths: NDArray[np.int64],
        request: Request,
        state: BiLmState,
    ) -> None:
        self.config, self.layers = config, layers
        self.x, self.index, self.request = x, index, request
        self.weights = request.weights.tolist()  # of each output, layer by layer
        self.orders = [PackedOrder.of(lengths, backward=d == 1) for d in request.directions]
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
        self.states = [self._packed_states(half) for half in range(len(self.orders))]
        self.tables = self._tables()

    def result(self) -> tuple[Tensor, BiLmState]:
        """The vectors (S, tokens, P · directions) and the state after each sentence."""
        max_rows = CHUNK_BYTES // (16 * self.config.dim)
        for chunk in self.orders[0].chunks(max_rows):
            self._run_chunk(*chunk)
        for half, direction in enumerate(self.request.directions):
            for j, (h, c) in enumerate(self.states[half]):
                self.state.h[direction, j, self.order] = h[:, : self.config.projection_dim]
                self.state.c[direction, j, self.order] = c[:, : self.config.dim]
        return self.out, self.state

    def _run_chunk(self, step: int, end_step: int, row: int, end_row: int) -> None:
        """All layers of some steps, both directions."""
        counts = torch.from_numpy(self.orders[0].counts[step:end_step])
        sources = [order.source[row:end_row] for order in self.orders]
        words = [self.index[source] for source in sources]
        indices = [torch.from_numpy(w).to(self.x.device) for w in words]
        inputs = [
            take_rows(self.x, rows)
            if table is None or any(weights[0] for weights in self.weights)
            else self.x[:0]
            for rows, table in zip(words, self.tables, strict=True)
        ]
        outputs = [inputs]
        for j in range(self.request.num_lstm_layers):
            inputs = self._recur(j, inputs, indices, counts)
            outputs.append(inputs)
        # Last of all: torch's threads would be in the way of the kernel's.
        for layer, halves_of_layer in enumerate(outputs):
            for half, values in enumerate(halves_of_layer):
                self._collect(half, sources[half], values, layer)

    def _recur(
        self, j: int, inputs: list[Tensor], indices: list[Tensor], counts: Tensor
    ) -> list[Tensor]:
        """The outputs of layer j in each direction; the states move on."""
        tables = self.tables if j == 0 else [None] * len(inputs)
        results, calls = [], []
        adds_input = j > 0 and self.config.skip_connections
        for half, (x, table, index) in enumerate(zip(inputs, tables, indices, strict=True)):
            layer, (h, c) = self.layers[half][j], self.states[half][j]
            if isinstance(layer, NativeLayer):
                packed = None if table is not None else _padded(x, layer.output_dim)
                out = x.new_empty(len(index), layer.output_dim)
                results.append(out[:, : self.config.projection_dim])
                calls += [
                    partial(layer.recur, packed, table, index, counts, h, c, out, some, adds_input)
                    for some in self.ranges
                ]
            elif table is not None:
                results.append(layer.recur(table, index, counts.tolist(), h, c))
            else:
                out = layer.recur(layer.gates(x), None, counts.tolist(), h, c)
                results.append(out + x if adds_input else out)
        side_by_side(calls)
        return results

    def _collect(self, half: int, source: NDArray[np.int64], values: Tensor, layer: int) -> None:
        """Add a layer's weighted values of these packed rows to the result."""
        weights = [weights[layer] for weights in self.weights]
        if not any(weights):
            return
        target = self.target[source]
        kept = np.flatnonzero(target >= 0)
        values = take_rows(values, kept)
        columns = slice(half * self.x.shape[1], (half + 1) * self.x.shape[1])
        for out, weight in zip(self.out, weights, strict=True):
            if weight:
                _add_rows(out[:, columns], target[kept], values, weight)

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
        side_by_side(calls)
        return tables

    def _sentence_ranges(self, lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Sentences for each thread of a direction, about equal in tokens."""
        threads = num_threads() // len(self.orders)
        number = max(1, min(threads, len(lengths) // MIN_SENTENCES_PER_THREAD))
        ends = np.cumsum(np.sort(lengths)[::-1])
        cuts = [int(np.searchsorted(ends, ends[-1] * k / number)) for k in range(number)]
        return [(a, b) for a, b in pairwise([*cuts, len(lengths)]) if b > a]


def _padded(t: Tensor, width: int) -> Tensor:
    """`t` with zeros up to `width` columns, in one piece; as it is if it is that already."""
    return pad(t, (0, width - t.shape[1])).contiguous() if t.shape[1] < width else t.contiguous()


def padded(vectors: Tensor, mask: Tensor) -> Tensor:
    """Vectors of all tokens, (L, tokens, D), as (L, B, T, D) with zeros where the mask is False."""
    shape = (len(vectors), *mask.shape, vectors.shape[2])
    return vectors.new_zeros(shape).masked_scatter(mask[..., None], vectors)


_NUMPY_TYPES = (torch.float16, torch.float32, torch.float64)


def take_rows(x: Tensor, rows: NDArray[np.int64]) -> Tensor:
    """Rows of a matrix by their numbers, without waking torch's threads for it.

    Those wait actively after each of torch's own operations and then are in the way of the kernel's
    threads; a sixth of the time of a batch went there. So NumPy does it where it can.
    """
    if _is_numpys(x):
        return torch.from_numpy(x.numpy().take(rows, axis=0))
    return x[torch.from_numpy(rows).to(x.device)]


def _add_rows(out: Tensor, rows: NDArray[np.int64], values: Tensor, weight: float) -> None:
    """Add weighted `values` to rows of `out` that are all different."""
    if _is_numpys(out):
        # A weight of 1 leaves a value as it is, so a single layer is exact.
        out.numpy()[rows] += values.numpy() if weight == 1 else values.numpy() * weight
    else:
        out.index_add_(0, torch.from_numpy(rows).to(out.device), values, alpha=weight)


def _is_numpys(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in _NUMPY_TYPES and not x.requires_grad
