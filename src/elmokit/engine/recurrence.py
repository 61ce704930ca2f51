"""One layer of one direction over packed rows, in torch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..nn import ProjectedLstm


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
        self, gates: Tensor, index: Tensor | None, counts: Sequence[int], h: Tensor, c: Tensor
    ) -> Tensor:
        """The layer's output for packed rows; the states `h` and `c` move on in place.

        Args:
            gates: Input products, overwritten where there is no index.
            index: For each packed row its row of `gates`; None if they are the same.
            counts: Sentences active at each step.
            h: Outputs before the first step, (B, P).
            c: Cells before the first step, (B, H).
        """
        num_rows = sum(counts)
        out = h.new_empty(num_rows, h.shape[1])
        row, before, num_before = 0, h, len(h)
        for n in counts:
            if n < num_before and before is not h:
                h[n:num_before] = before[n:]
            rows = slice(row, row + n)
            products = gates[rows] if index is None else gates.index_select(0, index[rows])
            self._step(products, before[:n], c[:n], out[rows])
            before, num_before, row = out[rows], n, row + n
        h[:num_before] = before
        return out

    def _step(self, gates: Tensor, h: Tensor, c: Tensor, out: Tensor) -> None:
        dim = self.config.dim
        self.add_recurrent(gates, h)
        gates[:, : 3 * dim].sigmoid_()
        c.mul_(gates[:, dim : 2 * dim]).addcmul_(gates[:, :dim], gates[:, 3 * dim :].tanh_())
        if self.config.cell_clip is not None:
            c.clamp_(-self.config.cell_clip, self.config.cell_clip)
        hidden = torch.tanh(c).mul_(gates[:, 2 * dim : 3 * dim])
        if self.projection is None:
            out.copy_(hidden)
            return
        self.project(hidden, out)
        if self.config.proj_clip is not None:
            out.clamp_(-self.config.proj_clip, self.config.proj_clip)

    def add_recurrent(self, gates: Tensor, h: Tensor) -> None:
        """gates += h W_recurrent."""
        gates.addmm_(h, self.recurrent)

    def project(self, hidden: Tensor, out: Tensor) -> None:
        """out = hidden W_projection."""
        assert self.projection is not None
        torch.mm(hidden, self.projection, out=out)


def _reorder(t: Tensor) -> Tensor:
    i, f, g, o = t.chunk(4)
    return torch.cat([i, f, o, g])
