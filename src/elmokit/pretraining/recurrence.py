"""One LSTM layer over whole batches, with its gradients written out.

The same function as `nn.ProjectedLstm` on rows of equal length. The products with the input and
those for the gradients of the weights are one for all steps; only what depends on the step before
is done step by step. `native_recurrence.py` does that part in C.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..config import LstmConfig
from ..nn import LstmState, ProjectedLstm
from . import native_recurrence


def recur(
    layers: Sequence[ProjectedLstm], inputs: Sequence[Tensor], states: Sequence[LstmState]
) -> tuple[list[Tensor], list[LstmState]]:
    """One layer of each direction: outputs (T, B, P) and the states after the last step.

    Args:
        layers: The layer of each direction.
        inputs: What each reads, (T, B, P), in its own order of time.
        states: Where each starts; no gradient flows into them.
    """
    if native_recurrence.available(inputs[0]):
        cells = [native_recurrence.lstm_cell(layer) for layer in layers]
        return native_recurrence.recur(cells, inputs, states)
    return recur_torch(layers, inputs, states)


def recur_torch(
    layers: Sequence[ProjectedLstm], inputs: Sequence[Tensor], states: Sequence[LstmState]
) -> tuple[list[Tensor], list[LstmState]]:
    """`recur` by torch alone, on any device."""
    outputs, ends = [], []
    for layer, x, state in zip(layers, inputs, states, strict=True):
        h, last_h, last_c = _Recurrence.apply(  # type: ignore[no-untyped-call]
            x.to(layer.bias.dtype),
            layer.input_weight,
            layer.recurrent_weight,
            layer.bias,
            layer.projection,
            state.h,
            state.c,
            layer.config,
        )
        outputs.append(h)
        ends.append(LstmState(last_h, last_c))
    return outputs, ends


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        h0: Tensor,
        c0: Tensor,
        config: LstmConfig,
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, rows, _ = x.shape
        dim = config.dim
        bias = bias.clone()
        bias[dim : 2 * dim] += config.forget_bias
        gates = torch.addmm(bias, x.flatten(0, 1), input_weight.t()).view(steps, rows, -1)
        gates = gates.to(x.dtype)  # under autocast, only the product above is of lower precision
        cells = x.new_empty(steps + 1, rows, dim)
        hidden = x.new_empty(steps, rows, dim)  # σ(o)·tanh(c), before the projection
        h = x.new_empty(steps + 1, rows, config.projection_dim)
        cells[0], h[0] = c0, h0
        with torch.autocast(x.device.type, enabled=False):
            _run(gates, cells, hidden, h, recurrent_weight.t().contiguous(), projection, config)
        ctx.config = config
        ctx.save_for_backward(
            x, input_weight, recurrent_weight, projection, gates, cells, hidden, h
        )
        last_h, last_c = h[-1].clone(), cells[-1].clone()
        ctx.mark_non_differentiable(last_h, last_c)
        return h[1:].clone(), last_h, last_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dout: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, input_weight, recurrent_weight, projection, gates, cells, hidden, h = ctx.saved_tensors
        config: LstmConfig = ctx.config
        steps, rows, dim = hidden.shape
        dgates = torch.empty_like(gates)
        dh = dout.clone()  # from the layer above; each step adds what comes from the step after
        dc = x.new_zeros(rows, dim)
        for t in reversed(range(steps)):
            if t + 1 < steps:
                dh[t].addmm_(dgates[t + 1], recurrent_weight)
            if projection is None:
                dhidden = dh[t]
            else:
                if config.proj_clip is not None:
                    dh[t].masked_fill_(h[t + 1].abs() >= config.proj_clip, 0)
                dhidden = dh[t] @ projection
            _backward_gates(
                gates[t], cells[t], cells[t + 1], dhidden, dc, dgates[t], config.cell_clip
            )
        flat = dgates.view(steps * rows, -1)
        return (
            (flat @ input_weight).view_as(x),
            flat.t() @ x.flatten(0, 1),
            flat.t() @ h[:-1].flatten(0, 1),
            flat.sum(dim=0),
            None if projection is None else dh.flatten(0, 1).t() @ hidden.flatten(0, 1),
            None,
            None,
            None,
        )


def _run(
    gates: Tensor,
    cells: Tensor,
    hidden: Tensor,
    h: Tensor,
    recurrent: Tensor,
    projection: Tensor | None,
    config: LstmConfig,
) -> None:
    """All steps, one after the other; the gates hold the input products before."""
    for t in range(len(gates)):
        gates[t].addmm_(h[t], recurrent)
        _forward_gates(gates[t], cells[t], cells[t + 1], hidden[t], config.cell_clip)
        if projection is None:
            h[t + 1] = hidden[t]
        else:
            torch.mm(hidden[t], projection.t(), out=h[t + 1])
            if config.proj_clip is not None:
                h[t + 1].clamp_(-config.proj_clip, config.proj_clip)


def _forward_gates(
    gates: Tensor, before: Tensor, cell: Tensor, hidden: Tensor, clip: float | None
) -> None:
    """Fill the cell and σ(o)·tanh(cell); the gates are replaced by their values."""
    i, f, g, o = gates.chunk(4, dim=1)
    i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    torch.mul(f, before, out=cell)
    cell.addcmul_(i, g)
    if clip is not None:
        cell.clamp_(-clip, clip)
    torch.tanh(cell, out=hidden)
    hidden.mul_(o)


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
    i, f, g, o = gates.chunk(4, dim=1)
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
