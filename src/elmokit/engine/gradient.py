"""The biLM with gradients, fast: what training and fine-tuning run in place of `nn`.

Each step is the native kernel's where it can do it, else torch's. `Engine.run_with_gradients` and
the training loop compare the whole with `nn` before they rely on it.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from ..nn import BiLm, BiLmState, CharCnn, LstmState, ProjectedLstm, TokenEncoder, TokenIds
from . import native_encoder, native_lstm, torch_encoder, torch_lstm
from .native import training_set
from .native_product import linear
from .packed import PackedOrder, Request


def run(
    bilm: BiLm,
    x: Tensor,
    index: NDArray[np.int64],
    lengths: NDArray[np.int64],
    request: Request,
    state: BiLmState,
    isa: str | None = None,
) -> tuple[Tensor, BiLmState]:
    """All layers, (L, tokens, 2 P), and the state after each sentence; arguments as `run_plain`'s.

    The request must be for all layers of both directions, boundaries included; `isa` is that of
    `native.training_set`, here and below.
    """
    orders = [PackedOrder.of(lengths, backward=direction == 1) for direction in range(2)]
    sources = [torch.from_numpy(order.source).to(x.device) for order in orders]
    rows = torch.from_numpy(index).to(x.device)
    tokens = embedding(rows, x)
    sentences = torch.from_numpy(orders[0].order).to(x.device)
    streams = [embedding(rows[source], x) for source in sources]
    starts = BiLmState(*(part[:, :, sentences] for part in state))
    outputs, after = run_layers(bilm, streams, orders[0].counts.tolist(), starts, isa=isa)
    inverses = [source.argsort() for source in sources]
    layers = [torch.cat([tokens, tokens], dim=-1)]
    for halves in outputs:
        parts = [half[inverse] for half, inverse in zip(halves, inverses, strict=True)]
        layers.append(torch.cat(parts, dim=-1))
    back = sentences.argsort()
    return torch.stack(layers), BiLmState(*(part[:, :, back] for part in after))


def _keep(x: Tensor) -> Tensor:
    return x


def run_layers(
    bilm: BiLm,
    streams: Sequence[Tensor],
    counts: Sequence[int],
    state: BiLmState,
    drop: Callable[[Tensor], Tensor] = _keep,
    isa: str | None = None,
) -> tuple[list[list[Tensor]], BiLmState]:
    """The outputs of each LSTM layer, both directions, and the states after the last step.

    Args:
        bilm: The LSTMs.
        streams: What the first layer of each direction reads, packed (N, P), in its order of time.
        counts: Sentences active at each step.
        state: Where the sentences start, in packed order; no gradient flows into it.
        drop: Dropout of the layers' outputs.
    """
    stacks, outputs, ends = (bilm.forward_lm, bilm.backward_lm), [], []
    current = list(streams)
    for j in range(bilm.config.lstm.num_layers):
        starts = [LstmState(state.h[d, j], state.c[d, j]) for d in range(2)]
        layers = [stack.layers[j] for stack in stacks]
        results, after = recur(layers, current, counts, starts, isa)
        if j > 0 and bilm.config.lstm.skip_connections:
            results = [y + x for y, x in zip(results, current, strict=True)]
        current = [drop(y) for y in results]
        outputs.append(current)
        ends.append(after)
    return outputs, BiLmState.of(zip(*ends, strict=True))


def recur(
    layers: Sequence[ProjectedLstm],
    inputs: Sequence[Tensor],
    counts: Sequence[int],
    states: Sequence[LstmState],
    isa: str | None = None,
) -> tuple[list[Tensor], list[LstmState]]:
    """One layer of each direction: packed outputs, and each sentence's state at its end.

    Args:
        layers: The layer of each direction.
        inputs: What each reads, packed (N, P), in its own order of time.
        counts: Sentences active at each step.
        states: Where each starts; no gradient flows into them.
    """
    if (found := training_set(inputs[0], isa)) is not None:
        cells = [native_lstm.lstm_cell(layer) for layer in layers]
        return native_lstm.recur(cells, inputs, counts, states, found)
    return torch_lstm.recur(layers, inputs, counts, states)


def encode(encoder: TokenEncoder, ids: TokenIds, isa: str | None = None) -> Tensor:
    """x_k of each word: `TokenEncoder.forward` with its filters by tables."""
    return torch_encoder.encode_by(
        encoder, ids, partial(_char_cnn, isa=isa), partial(_project, isa=isa)
    )


def _char_cnn(cnn: CharCnn, characters: Tensor, isa: str | None) -> Tensor:
    x = cnn.activation(_pooled_filters(cnn, characters, isa))
    for weight, bias in torch_encoder.joined_highways(cnn):
        y, gate = linear(x, weight, bias, isa).chunk(2, dim=1)
        gate = torch.sigmoid(gate)
        x = gate * torch.relu(y) + (1 - gate) * x
    return x


def _project(projection: nn.Linear, x: Tensor, isa: str | None) -> Tensor:
    return linear(x, projection.weight, projection.bias, isa)


def _pooled_filters(cnn: CharCnn, characters: Tensor, isa: str | None) -> Tensor:
    """The maximum of each filter over each word, (N, F), before the activation."""
    if (found := training_set(cnn.embedding.weight, isa)) is not None:
        return native_encoder.pooled_filters(cnn, characters, found)
    if characters.device.type == "cpu":
        return torch_encoder.pooled_filters(list(torch_encoder.filter_banks(cnn)), characters)
    spelled = cnn.embedding(characters).transpose(1, 2)  # what GPUs are made for
    return torch.cat([conv(spelled).amax(dim=-1) for conv in cnn.convolutions], dim=-1)
