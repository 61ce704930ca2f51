"""One layer of one direction over packed rows, in torch: with gradients, without, and in 8 bits.

The same function as `nn.ProjectedLstm`. The products with the input, and those for the gradients
of the weights, are one for all steps; only what depends on the step before is done step by step.
"""

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..nn import LstmState, ProjectedLstm


class Kept(NamedTuple):
    """What the backward pass needs of every row, beside the activated gates."""

    cells: Tensor
    hidden: Tensor
    """σ(o)·tanh(c), before the projection."""


class TorchLayer:
    """A `ProjectedLstm` with its weights laid out for many small products.

    The gates are in the order i, f, o, g, so that one call applies σ to three of them.
    """

    def __init__(self, layer: ProjectedLstm) -> None:
        self.config = layer.config
        dim = self.config.dim
        bias = layer.bias.detach().clone()
        bias[dim : 2 * dim] += self.config.forget_bias
        self.bias = _reorder(bias)
        self.input = _reorder(layer.input_weight.detach()).t()
        # [K, N] in memory: MKL is up to 1.7 times faster so for batches of 1..32.
        self.recurrent = _reorder(layer.recurrent_weight.detach()).t().contiguous()
        self.projection = (
            None if layer.projection is None else layer.projection.detach().t().contiguous()
        )

    def gates(self, x: Tensor) -> Tensor:
        """The input products of all rows at once."""
        return torch.addmm(self.bias, x, self.input)

    def recur(
        self,
        gates: Tensor,
        index: Tensor | None,
        counts: Sequence[int],
        h: Tensor,
        c: Tensor,
        kept: Kept | None = None,
    ) -> Tensor:
        """The layer's output for packed rows; the states `h` and `c` move on in place.

        Args:
            gates: Input products; activated in place where there is no index.
            index: For each packed row its row of `gates`; None if they are the same.
            counts: Sentences active at each step.
            h: Outputs before the first step, (B, P).
            c: Cells before the first step, (B, H).
            kept: Filled for the backward pass.
        """
        num_rows = sum(counts)
        out = h.new_empty(num_rows, h.shape[1])
        row, before, num_before = 0, h, len(h)
        for n in counts:
            if n < num_before and before is not h:
                h[n:num_before] = before[n:]
            rows = slice(row, row + n)
            products = gates[rows] if index is None else gates.index_select(0, index[rows])
            hidden = self._step(products, before[:n], c[:n], out[rows])
            if kept is not None:
                kept.cells[rows], kept.hidden[rows] = c[:n], hidden
            before, num_before, row = out[rows], n, row + n
        h[:num_before] = before
        return out

    def _step(self, gates: Tensor, h: Tensor, c: Tensor, out: Tensor) -> Tensor:
        """Fill the outputs and move the cells on; σ(o)·tanh(c)."""
        dim = self.config.dim
        self.add_recurrent(gates, h)
        gates[:, : 3 * dim].sigmoid_()
        c.mul_(gates[:, dim : 2 * dim]).addcmul_(gates[:, :dim], gates[:, 3 * dim :].tanh_())
        if self.config.cell_clip is not None:
            c.clamp_(-self.config.cell_clip, self.config.cell_clip)
        hidden = torch.tanh(c).mul_(gates[:, 2 * dim : 3 * dim])
        if self.projection is None:
            out.copy_(hidden)
            return hidden
        self.project(hidden, out)
        if self.config.proj_clip is not None:
            out.clamp_(-self.config.proj_clip, self.config.proj_clip)
        return hidden

    def add_recurrent(self, gates: Tensor, h: Tensor) -> None:
        """gates += h W_recurrent."""
        gates.addmm_(h, self.recurrent)

    def project(self, hidden: Tensor, out: Tensor) -> None:
        """out = hidden W_projection."""
        assert self.projection is not None
        torch.mm(hidden, self.projection, out=out)


def recur(
    layers: Sequence[ProjectedLstm],
    inputs: Sequence[Tensor],
    counts: Sequence[int],
    states: Sequence[LstmState],
) -> tuple[list[Tensor], list[LstmState]]:
    """One layer of each direction with gradients, as `gradient.recur`."""
    outputs, ends = [], []
    for layer, x, state in zip(layers, inputs, states, strict=True):
        dtype = layer.bias.dtype  # under autocast, the input may be in bfloat16
        start = LstmState(state.h.detach().to(dtype), state.c.detach().to(dtype))
        weights = (layer.input_weight, layer.recurrent_weight, layer.bias, layer.projection)
        out, c = _Recurrence.apply(  # type: ignore[no-untyped-call]
            layer, list(counts), start, x.to(dtype), *weights
        )
        outputs.append(out)
        ends.append(LstmState(last_outputs(out, counts, start.h), c))
    return outputs, ends


def last_outputs(out: Tensor, counts: Sequence[int], start: Tensor) -> Tensor:
    """The last of each sentence's packed outputs; where it has none, what it starts from."""
    rows = last_rows(torch.tensor(counts, dtype=torch.int64), len(start)).to(out.device)
    if len(counts) and counts[0] == len(start):
        return out[rows - len(start)]
    return torch.cat([start, out])[rows]


def last_rows(counts: Tensor, num_sentences: int) -> Tensor:
    """The row of each sentence's last state where packed rows come after the first states."""
    sentences = torch.arange(num_sentences)
    num_steps = (counts[:, None] > sentences).sum(dim=0)
    return _first_rows(counts, num_sentences)[num_steps] + sentences


def rows_before(counts: Tensor, num_sentences: int) -> Tensor:
    """For each packed row the row of the state before it, where they come after the first ones."""
    first_rows = _first_rows(counts, num_sentences)
    shifts = torch.repeat_interleave(first_rows[:-1] - first_rows[1:], counts)
    return num_sentences + torch.arange(int(counts.sum())) + shifts


def _first_rows(counts: Tensor, num_sentences: int) -> Tensor:
    """The row of the first sentence before all steps and after each, in rows as above."""
    after = num_sentences + counts.cumsum(0) - counts
    return torch.cat([torch.zeros(1, dtype=torch.int64), after])


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        layer: ProjectedLstm,
        counts: list[int],
        start: LstmState,
        x: Tensor,
        *weights: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        prepared = TorchLayer(layer)
        gates = prepared.gates(x).to(x.dtype)  # under autocast, this product alone is in bfloat16
        kept = Kept(*(x.new_empty(len(x), layer.config.dim) for _ in range(2)))
        with _without_autocast(x.device.type):
            h, c = start.h.clone(), start.c.clone()
            out = prepared.recur(gates, None, counts, h, c, kept)
        ctx.config, ctx.counts, ctx.start = layer.config, counts, start
        ctx.save_for_backward(x, *weights, gates, *kept, out)
        return out, c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dout: Tensor, dc: Tensor) -> tuple[Tensor | None, ...]:
        x, input_weight, recurrent_weight, _, projection, gates, cells, hidden, out = (
            ctx.saved_tensors
        )
        config, counts, start = ctx.config, ctx.counts, ctx.start
        dgates = torch.empty_like(gates)  # in the order of the weights: i, f, g, o
        dh = dout.clone()  # from the layer above; each step adds what comes from the step after
        dc = dc.clone()  # of the last cells; it moves from step to step
        row, after = len(x), slice(0, 0)
        for t in reversed(range(len(counts))):
            n = counts[t]
            row -= n
            rows = slice(row, row + n)
            if after.stop > after.start:
                dh[row : row + after.stop - after.start].addmm_(dgates[after], recurrent_weight)
            if projection is None:
                dhidden = dh[rows]
            else:
                if config.proj_clip is not None:
                    dh[rows].masked_fill_(out[rows].abs() >= config.proj_clip, 0)
                dhidden = dh[rows] @ projection
            before = cells[row - counts[t - 1] :][:n] if t else start.c[:n]
            _backward_gates(
                gates[rows], before, cells[rows], dhidden, dc[:n], dgates[rows], config.cell_clip
            )
            after = rows
        before = rows_before(torch.tensor(counts, dtype=torch.int64), len(start.h))
        h_before = torch.cat([start.h, out])[before.to(out.device)]
        return (
            None, None, None,
            dgates @ input_weight,
            dgates.t() @ x,
            dgates.t() @ h_before,
            dgates.sum(dim=0),
            None if projection is None else dh.t() @ hidden,
        )  # fmt: skip


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    is_available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if is_available else nullcontext()


def _backward_gates(
    gates: Tensor,
    before: Tensor,
    cell: Tensor,
    dhidden: Tensor,
    dc: Tensor,
    dgates: Tensor,
    clip: float | None,
) -> None:
    """Fill the gradients of the gates; `dc` moves on to the step before."""
    i, f, o, g = gates.chunk(4, dim=1)
    di, df, dg, do = dgates.chunk(4, dim=1)
    tanh = torch.tanh(cell)
    torch.mul(dhidden * tanh, o * (1 - o), out=do)
    dc.addcmul_(dhidden * o, 1 - tanh * tanh)
    if clip is not None:
        dc.masked_fill_(cell.abs() >= clip, 0)
    torch.mul(dc * g, i * (1 - i), out=di)
    torch.mul(dc * before, f * (1 - f), out=df)
    torch.mul(dc * i, 1 - g * g, out=dg)
    dc.mul_(f)


def _reorder(t: Tensor) -> Tensor:
    """Rows i, f, g, o as i, f, o, g."""
    i, f, g, o = t.chunk(4)
    return torch.cat([i, f, o, g])


class Int8Layer(TorchLayer):
    """A `TorchLayer` whose three matrices are int8: a scale per output, inputs scaled per call."""

    def __init__(self, layer: ProjectedLstm) -> None:
        super().__init__(layer)
        self._input = _pack(self.input.t(), self.bias)
        self._recurrent = _pack(self.recurrent.t(), None)
        self._projection = None if self.projection is None else _pack(self.projection.t(), None)
        self.input = self.recurrent = self.bias[:0]
        self.projection = None if self.projection is None else self.bias[:0]

    @staticmethod
    def is_available() -> bool:
        """Whether this torch has 8-bit products."""
        has_functions = hasattr(torch, "quantize_per_channel") and hasattr(torch, "qint8")
        return has_functions and hasattr(torch.ops.quantized, "linear_dynamic")

    def gates(self, x: Tensor) -> Tensor:
        return _multiply(x, self._input)

    def add_recurrent(self, gates: Tensor, h: Tensor) -> None:
        gates.add_(_multiply(h, self._recurrent))

    def project(self, hidden: Tensor, out: Tensor) -> None:
        out.copy_(_multiply(hidden, self._projection))


def _pack(weight: Tensor, bias: Tensor | None) -> object:
    """The weights as int8 with a scale for each output, in the layout of the product."""
    scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12).double()
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():
        # torch means to drop these functions some day; `is_available` will notice.
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*deprecated.*")
        quantised = torch.quantize_per_channel(weight.contiguous(), scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(quantised, bias)


def _multiply(x: Tensor, packed: object) -> Tensor:
    # Without VNNI, sums of two products are kept in 16 bits and overflow: 7 bits for the inputs.
    product: Tensor = torch.ops.quantized.linear_dynamic(x.contiguous(), packed, not _has_vnni())
    return product


@cache
def _has_vnni() -> bool:
    check = getattr(torch.cpu, "_is_vnni_supported", None)
    return bool(check and check())
