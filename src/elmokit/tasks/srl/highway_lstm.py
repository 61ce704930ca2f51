"""The deep highway LSTM of He et al. (2017), whose layers alternate between directions.

Sentences are packed: the first tokens of all sentences, from the longest to the shortest, then
the second tokens of those that have one, and so on. So there is no padding to compute, the input
products of a layer are one product, and a step of the loop is one slice.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ...nn.shapes import Bool, Float


class AlternatingLstm(nn.Module):
    """Highway LSTM layers: left to right, right to left, left to right, …

    Args:
        input_dim: Width of what it reads.
        dim: Units of each layer.
        num_layers: Layers.
        dropout: Of the states of each layer while training, the same for all tokens.
    """

    def __init__(self, input_dim: int, dim: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList(
            HighwayLstm(input_dim if i == 0 else dim, dim, dropout, is_backward=i % 2 == 1)
            for i in range(num_layers)
        )

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        h: Tensor = super().__call__(x, mask)
        return h

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        """The states of the last layer, zero where the shorter sentences end."""
        lengths = mask.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        sizes, h = packed.batch_sizes.tolist(), packed.data
        for layer in self.layers:
            h = layer(h, sizes)
        states = PackedSequence(h, *packed[1:])
        padded, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return padded * mask[..., None]


class HighwayLstm(nn.Module):
    """One layer of one direction, written as its equations (He et al. 2017, eq. 1 to 8).

        i, f, o, r, g = W_x x_t + W_h h_{t-1} + b,  σ of the first four, tanh of g
        c_t = f·c_{t-1} + i·g
        h_t = z·(r·o·tanh(c_t) + (1 - r)·W_c x_t)

    r opens the layer; where it is closed, the input is carried on. z is the dropout mask of a
    sentence, one for all of its tokens. A layer from right to left has t+1 in place of t-1.
    """

    def __init__(self, input_dim: int, dim: int, dropout: float, *, is_backward: bool) -> None:
        super().__init__()
        self.dim, self.dropout, self.is_backward = dim, dropout, is_backward
        self.input = nn.Linear(input_dim, 5 * dim)
        self.carry = nn.Linear(input_dim, dim, bias=False)
        self.recurrent = nn.Linear(dim, 5 * dim, bias=False)
        self._start()

    def forward(self, x: Float[Tensor, "N D"], sizes: Sequence[int]) -> Float[Tensor, "N H"]:
        """The states of packed tokens.

        Args:
            x: All first tokens, then all second ones, … of sentences from long to short.
            sizes: How many tokens there are at each place.
        """
        inputs, carried = self.input(x).split(sizes), self.carry(x).split(sizes)
        weight = self.recurrent.weight.t()
        kept = self._kept(x, sizes[0])
        h = c = x.new_zeros(sizes[-1] if self.is_backward else sizes[0], self.dim)
        states: list[Tensor] = []
        steps = range(len(sizes))
        for t in reversed(steps) if self.is_backward else steps:
            h, c = _resized(h, sizes[t]), _resized(c, sizes[t])
            gates = torch.addmm(inputs[t], h, weight)
            i, f, o, r = torch.sigmoid(gates[:, : 4 * self.dim]).chunk(4, dim=1)
            c = torch.addcmul(f * c, i, torch.tanh(gates[:, 4 * self.dim :]))
            h = torch.lerp(carried[t], o * torch.tanh(c), r)
            if kept is not None:
                h = h * kept[: sizes[t]]
            states.append(h)
        return torch.cat(states[::-1] if self.is_backward else states)

    def _kept(self, x: Tensor, number: int) -> Tensor | None:
        """What dropout leaves of the states of each sentence."""
        if not self.training or not self.dropout:
            return None
        return nn.functional.dropout(x.new_ones(number, self.dim), self.dropout)

    def _start(self) -> None:
        """Orthogonal matrices; no bias but that of the forget gate, which is open at first."""
        for linear in (self.input, self.carry, self.recurrent):
            for gate in linear.weight.data.chunk(len(linear.weight) // self.dim):
                nn.init.orthogonal_(gate)
        nn.init.zeros_(self.input.bias)
        nn.init.ones_(self.input.bias.data[self.dim : 2 * self.dim])


def _resized(state: Float[Tensor, "M H"], number: int) -> Float[Tensor, "K H"]:
    """The states of the `number` longest sentences; those that begin have zeros."""
    if number <= len(state):
        return state[:number]
    return torch.cat([state, state.new_zeros(number - len(state), state.shape[1])])
