"""Fast inference with an `nn.BiLm`: the same numbers, packed and in bounded memory.

The two directions never mix, so each runs alone, over all its layers, in chunks of time whose
LSTM states continue from one to the next: a long document costs no more memory than a short one
beyond its own result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..nn import BiLm, BiLmState, ProjectedLstm
from .packed import PackedOrder

CHUNK_BYTES = 64 * 2**20
"""Memory for the gates of one chunk of time."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to compute of each token.

    Attributes:
        weights: Each output as weights of the layers (S outputs, L layers): the identity for all
            layers, one row of 1/L for their average.
        directions: 0 for the forward half, 1 for the backward half, in the order of output.
        with_state: Whether the state after each sentence is wanted (it needs every layer).
    """

    weights: Tensor
    directions: tuple[int, ...] = (0, 1)
    with_state: bool = False

    @property
    def num_lstm_layers(self) -> int:
        """LSTM layers that have to run."""
        used = self.weights.ne(0).any(dim=0).nonzero()
        highest = int(used.max()) if len(used) else 0
        return self.weights.shape[1] - 1 if self.with_state else highest


def run(
    bilm: BiLm,
    x: Tensor,
    index: NDArray[np.int64],
    lengths: NDArray[np.int64],
    request: Request,
    state: BiLmState | None = None,
) -> tuple[Tensor, BiLmState]:
    """The requested vectors of all tokens but the boundaries, sentence after sentence.

    Args:
        bilm: The model.
        x: Token vectors of the distinct words, (N, P).
        index: For every token of every sentence in turn, its row of `x`.
        lengths: Tokens of each sentence, its two boundaries included.
        request: What to compute.
        state: Where each sentence starts; None for zeros.

    Returns:
        (S, tokens, P · directions) and the state after each sentence.
    """
    if state is None:
        state = BiLmState.zeros(bilm.config.lstm, len(lengths), like=x)
    # Column 0 of every sentence is its begin, the last its end; neither is part of the result.
    inner = np.ones(len(index), dtype=bool)
    ends = np.cumsum(lengths)
    inner[ends - 1] = inner[ends - lengths] = False
    target = np.where(inner, np.cumsum(inner) - 1, -1)

    width = x.shape[1]
    out = x.new_zeros(len(request.weights), int(inner.sum()), width * len(request.directions))
    after = BiLmState(state.h.clone(), state.c.clone())
    for half, direction in enumerate(request.directions):
        order = PackedOrder.of(lengths, backward=direction == 1)
        columns = out[..., half * width : (half + 1) * width]
        _run_direction(bilm, direction, x, index, order, target, request, after, columns)
    return out, after


def _run_direction(
    bilm: BiLm,
    direction: int,
    x: Tensor,
    index: NDArray[np.int64],
    order: PackedOrder,
    target: NDArray[np.int64],
    request: Request,
    state: BiLmState,
    out: Tensor,
) -> None:
    """Fill `out` with one direction's half, and `state` with where it ends."""
    stack = bilm.backward_lm if direction else bilm.forward_lm
    layers = [_LayerRun(layer) for layer in stack.layers[: request.num_lstm_layers]]
    rows = torch.from_numpy(order.order).to(x.device)
    h, c = state.h[direction][:, rows], state.c[direction][:, rows]
    max_rows = CHUNK_BYTES // (16 * bilm.config.lstm.dim)
    for step, end_step, row, end_row in order.chunks(max_rows):
        source = order.source[row:end_row]
        y = x[torch.from_numpy(index[source]).to(x.device)]
        kept = torch.from_numpy(target[source]).to(x.device)
        keep = kept >= 0
        kept = kept[keep]
        _collect(out, kept, y[keep], request.weights[:, 0])
        for j, layer in enumerate(layers):
            z = layer(y, order.counts[step:end_step].tolist(), h[j], c[j])
            y = z + y if j > 0 and bilm.config.lstm.skip_connections else z
            _collect(out, kept, y[keep], request.weights[:, j + 1])
    state.h[direction][:, rows] = h
    state.c[direction][:, rows] = c


def _collect(out: Tensor, rows: Tensor, values: Tensor, weights: Tensor) -> None:
    for output, weight in zip(out, weights.tolist(), strict=True):
        if weight == 1.0:
            output.index_add_(0, rows, values)
        elif weight != 0.0:
            output.index_add_(0, rows, values, alpha=weight)


class _LayerRun:
    """One `ProjectedLstm` with its weights laid out for many small products."""

    def __init__(self, layer: ProjectedLstm) -> None:
        config = layer.config
        self.config = config
        forget = torch.zeros_like(layer.bias)
        forget[config.dim : 2 * config.dim] = config.forget_bias
        self.bias = layer.bias + forget
        self.input = layer.input_weight.t()
        # [K, N] in memory: MKL is up to 1.7 times faster so for batches of 1..32.
        self.recurrent = layer.recurrent_weight.t().contiguous()
        self.projection = None if layer.projection is None else layer.projection.t().contiguous()

    def __call__(self, x: Tensor, counts: Sequence[int], h: Tensor, c: Tensor) -> Tensor:
        """The layer's output for the packed rows `x`; `h` and `c` move on in place."""
        dim = self.config.dim
        gates = torch.addmm(self.bias, x, self.input)
        out = x.new_empty(len(x), h.shape[1])
        row = 0
        for n in counts:
            g = gates[row : row + n]
            h_n, c_n = h[:n], c[:n]
            g.addmm_(h_n, self.recurrent)
            g[:, : 2 * dim].sigmoid_()
            candidate = g[:, 2 * dim : 3 * dim].tanh_()
            output_gate = g[:, 3 * dim :].sigmoid_()
            c_n.mul_(g[:, dim : 2 * dim]).addcmul_(g[:, :dim], candidate)
            if self.config.cell_clip is not None:
                c_n.clamp_(-self.config.cell_clip, self.config.cell_clip)
            new = torch.tanh(c_n).mul_(output_gate)
            if self.projection is not None:
                new = new @ self.projection
                if self.config.proj_clip is not None:
                    new.clamp_(-self.config.proj_clip, self.config.proj_clip)
            h_n.copy_(new)
            out[row : row + n] = new
            row += n
        return out
