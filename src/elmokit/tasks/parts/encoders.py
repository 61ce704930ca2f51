"""The recurrent layers that the task models share: biLSTMs, biGRUs, alternating highway LSTMs."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ...engine.native import can_train
from ...engine.native_lstm import Cell
from ...engine.native_lstm import recur as recur_cells
from ...nn import LstmState
from ...nn.shapes import Bool, Float, Int


class Bidirectional(nn.Module):
    """Recurrent layers in both directions over texts of different lengths.

    Padding has no influence: the backward direction reads each text from its own end. So nothing
    has to be packed, which torch is slow at when it learns on a processor.

    Each direction has `dim` units, so the result is twice as wide; each layer reads both directions
    of the one below, with `dropout` between them.
    """

    kind: ClassVar[type[nn.LSTM] | type[nn.GRU]]
    num_gates: ClassVar[int]

    def __init__(self, input_dim: int, dim: int, num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = 2 * dim
        widths = [input_dim, *[self.dim] * (num_layers - 1)]
        self.forward_layers = nn.ModuleList(self.kind(width, dim) for width in widths)
        self.backward_layers = nn.ModuleList(self.kind(width, dim) for width in widths)
        self.dropout = nn.Dropout(dropout)
        self._start()

    __call__: Callable[..., Tensor]

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        """The states of each token, zero where the shorter texts end."""
        positions = _from_the_end(mask)
        for i, layers in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            x = self.dropout(x) if i else x
            forward, backward = self._recur(
                layers, [x.transpose(0, 1), _reordered(x, positions).transpose(0, 1)]
            )
            x = torch.cat(
                [forward.transpose(0, 1), _reordered(backward.transpose(0, 1), positions)], dim=-1
            )
        return x * mask[..., None]

    def _recur(self, layers: Sequence[Any], inputs: Sequence[Tensor]) -> list[Tensor]:
        """What the layer of each direction makes of its input, (T, B, D)."""
        return [layer(x)[0] for layer, x in zip(layers, inputs, strict=True)]

    def _start(self) -> None:
        """Orthogonal recurrences, scaled inputs, no biases."""
        for name, weight in self.named_parameters():
            if "weight_hh" in name:
                for gate in weight.data.chunk(self.num_gates):
                    nn.init.orthogonal_(gate)
            elif "weight_ih" in name:
                nn.init.xavier_uniform_(weight.data)
            else:
                weight.data.zero_()


class BiLstm(Bidirectional):
    """Bidirectional LSTMs, whose forget gates are open at first."""

    kind = nn.LSTM
    num_gates = 4

    def _start(self) -> None:
        super()._start()
        for name, weight in self.named_parameters():
            if "bias_ih" in name:
                nn.init.ones_(weight.data.chunk(self.num_gates)[1])


class BiGru(Bidirectional):
    """Bidirectional GRUs."""

    kind = nn.GRU
    num_gates = 3

    def _recur(self, layers: Sequence[nn.GRU], inputs: Sequence[Tensor]) -> list[Tensor]:
        return run_grus(layers, inputs)


class VariationalDropout(nn.Module):
    """Dropout of the same values at all tokens of a text (Gal and Ghahramani 2016)."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(probability)

    __call__: Callable[..., Tensor]

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """`x` with some columns of each text set to zero, while training."""
        return x * self.dropout(torch.ones_like(x[:, :1])) if self.training else x


def _from_the_end(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The position of each token, counted from the end of its text; padding stays where it is.

    Of a batch as one row, so that one index finds a token.
    """
    lengths = mask.sum(dim=1, keepdim=True)
    positions = torch.arange(mask.shape[1], device=mask.device)
    reversed_positions = torch.where(mask, lengths - 1 - positions, positions)
    rows = torch.arange(len(mask), device=mask.device)
    return reversed_positions + rows[:, None] * mask.shape[1]


def _reordered(x: Float[Tensor, "B T D"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    return x.flatten(0, 1).index_select(0, positions.flatten()).view_as(x)


def run_grus(
    layers: Sequence[nn.GRU], inputs: Sequence[Float[Tensor, "T B X"]]
) -> list[Float[Tensor, "T B D"]]:
    """What each layer, of one direction and from a state of zeros, makes of its input."""
    if not can_train(inputs[0]):
        return [_run_gru(layer, x) for layer, x in zip(layers, inputs, strict=True)]
    states = [
        LstmState(*x.new_zeros(2, x.shape[1], layer.hidden_size))
        for layer, x in zip(layers, inputs, strict=True)
    ]
    steps, rows, _ = inputs[0].shape
    packed = [x.flatten(0, 1) for x in inputs]
    outputs, _ = recur_cells([_gru_cell(layer) for layer in layers], packed, [rows] * steps, states)
    return [y.view(steps, rows, y.shape[1]) for y in outputs]


def _run_gru(layer: nn.GRU, x: Tensor) -> Tensor:
    """The layer by torch, which refuses an input without steps."""
    steps, rows, _ = x.shape
    return layer(x)[0] if steps and rows else x.new_zeros(steps, rows, layer.hidden_size)


def _gru_cell(layer: nn.GRU) -> Cell:
    """torch's rows are r, z, n; what the state adds to n is multiplied by r, so it is separate."""
    dim = layer.hidden_size
    by_input, by_state, input_bias, state_bias = layer.all_weights[0]
    gates, n = slice(0, 2 * dim), slice(2 * dim, None)
    return Cell(
        torch.cat([by_input, by_input.new_zeros(dim, layer.input_size)]),
        torch.cat([by_state[gates], by_state.new_zeros(dim, dim), by_state[n]]),
        torch.cat([input_bias[gates] + state_bias[gates], input_bias[n], state_bias[n]]),
        is_gru=True,
    )


class AlternatingLstm(nn.Module):
    """Highway LSTM layers: left to right, right to left, left to right, …

    Dropout is of the states of each layer, the same for all tokens.
    """

    def __init__(self, input_dim: int, dim: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList(
            HighwayLstm(input_dim if i == 0 else dim, dim, dropout, is_backward=i % 2 == 1)
            for i in range(num_layers)
        )

    __call__: Callable[..., Tensor]

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
            sizes: How many tokens there are at each position.
        """
        inputs, carried = self.input(x).split(sizes), self.carry(x).split(sizes)
        weight = self.recurrent.weight.t()
        kept = self._dropout_mask(x, sizes[0])
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

    def _dropout_mask(self, x: Tensor, number: int) -> Tensor | None:
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
