"""One layer of one direction: an LSTM with projection and clipping (Sak et al. 2014)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..config import LstmConfig
from .shapes import Bool, Float


class LstmState(NamedTuple):
    """What an LSTM remembers of each sentence: its output h and its cell c."""

    h: Float[Tensor, "B P"]
    c: Float[Tensor, "B H"]


class ProjectedLstm(nn.Module):
    """An LSTM read left to right, written as its equations.

        i, f, g, o = x W_input + h W_recurrent + b
        c' = clip(σ(f + forget_bias)·c + σ(i)·tanh(g))
        h' = clip((σ(o)·tanh(c')) W_projection)

    The cell is clipped before it is used and before it is carried; order matters for parity.
    """

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        dim, output_dim = config.dim, config.projection_dim
        self.input_weight = nn.Parameter(torch.empty(4 * dim, output_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * dim, output_dim))
        self.bias = nn.Parameter(torch.zeros(4 * dim))
        self.projection = nn.Parameter(torch.empty(output_dim, dim)) if config.projected else None
        for weight in (self.input_weight, self.recurrent_weight, self.projection):
            if weight is not None:
                nn.init.xavier_uniform_(weight)

    def forward(
        self, x: Float[Tensor, "B T P"], mask: Bool[Tensor, "B T"], state: LstmState
    ) -> tuple[Float[Tensor, "B T P"], LstmState]:
        inputs = nn.functional.linear(x, self.input_weight, self.bias)
        outputs = []
        for t in range(x.shape[1]):
            new = self.step(inputs[:, t], state)
            real = mask[:, t, None]
            state = LstmState(torch.where(real, new.h, state.h), torch.where(real, new.c, state.c))
            outputs.append(state.h)
        if not outputs:
            return x, state
        return torch.stack(outputs, dim=1) * mask[:, :, None], state

    def step(self, inputs: Float[Tensor, "B G"], state: LstmState) -> LstmState:
        """The state after one more token, whose input product W_input x + b is given."""
        gates = inputs + nn.functional.linear(state.h, self.recurrent_weight)
        i, f, g, o = gates.chunk(4, dim=-1)
        c = torch.sigmoid(f + self.config.forget_bias) * state.c + torch.sigmoid(i) * torch.tanh(g)
        if self.config.cell_clip is not None:
            c = c.clamp(-self.config.cell_clip, self.config.cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.projection is not None:
            h = nn.functional.linear(h, self.projection)
            if self.config.proj_clip is not None:
                h = h.clamp(-self.config.proj_clip, self.config.proj_clip)
        return LstmState(h, c)
