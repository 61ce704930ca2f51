"""Gated recurrent units by the native kernel, which torch is slow at when it learns on a processor.

`benchmarks/gru.py` compares the two. LSTMs are left to torch, which is no slower with those.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..engine.native import can_train
from ..engine.native_lstm import Cell
from ..engine.native_lstm import recur as recur_cells
from ..nn import LstmState
from ..nn.shapes import Float


def recur(
    layers: Sequence[nn.GRU], inputs: Sequence[Float[Tensor, "T B X"]]
) -> list[Float[Tensor, "T B D"]]:
    """What each layer, of one direction and from a state of zeros, makes of its input."""
    if not can_train(inputs[0]):
        return [_run(layer, x) for layer, x in zip(layers, inputs, strict=True)]
    states = [
        LstmState(*x.new_zeros(2, x.shape[1], layer.hidden_size))
        for layer, x in zip(layers, inputs, strict=True)
    ]
    steps, rows, _ = inputs[0].shape
    packed = [x.flatten(0, 1) for x in inputs]
    outputs, _ = recur_cells([_cell(layer) for layer in layers], packed, [rows] * steps, states)
    return [y.view(steps, rows, y.shape[1]) for y in outputs]


def _run(layer: nn.GRU, x: Tensor) -> Tensor:
    """The layer by torch, which refuses an input without steps."""
    steps, rows, _ = x.shape
    return layer(x)[0] if steps and rows else x.new_zeros(steps, rows, layer.hidden_size)


def _cell(layer: nn.GRU) -> Cell:
    """torch's rows are r, z and n; what the state gives to n is multiplied by r, so it is apart."""
    dim = layer.hidden_size
    by_input, by_state, input_bias, state_bias = layer.all_weights[0]
    gates, n = slice(0, 2 * dim), slice(2 * dim, None)
    return Cell(
        torch.cat([by_input, by_input.new_zeros(dim, layer.input_size)]),
        torch.cat([by_state[gates], by_state.new_zeros(dim, dim), by_state[n]]),
        torch.cat([input_bias[gates] + state_bias[gates], input_bias[n], state_bias[n]]),
        is_gru=True,
    )
