"""The biLM: a forward and a backward LSTM language model that share θx and nothing else here.

The softmax θs, which they share too, is in `softmax.py`: only training and scoring need it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..config import ElmoConfig, LstmConfig
from .encoder import TokenEncoder
from .lstm import LstmState, ProjectedLstm
from .shapes import Bool, Float, Int


class BiLmState(NamedTuple):
    """The LSTM states of both directions (0 forward, 1 backward) and all layers."""

    h: Float[Tensor, "2 L B P"]
    c: Float[Tensor, "2 L B H"]

    def __repr__(self) -> str:
        return f"BiLmState(h {_shape(self.h)}, c {_shape(self.c)})"

    @classmethod
    def zeros(cls, config: LstmConfig, num_rows: int, like: Tensor) -> "BiLmState":
        """The state before any text, with the device and type of `like`."""
        rows = (2, config.num_layers, num_rows)
        return cls(like.new_zeros(*rows, config.projection_dim), like.new_zeros(*rows, config.dim))

    @classmethod
    def of(cls, directions: Iterable[Iterable[LstmState]]) -> "BiLmState":
        """The states of each layer of each direction in two tensors."""
        stacked = [[torch.stack(part) for part in zip(*layers)] for layers in directions]
        return cls(*(torch.stack(part) for part in zip(*stacked)))

    def layers(self, direction: int) -> list[LstmState]:
        """The state of each layer of one direction."""
        return [LstmState(h, c) for h, c in zip(self.h[direction], self.c[direction], strict=True)]

    def repeat(self, num_rows: int) -> "BiLmState":
        """One row as the start of many sentences."""
        return BiLmState(*(part.expand(-1, -1, num_rows, -1).contiguous() for part in self))


class BiLmOutput(NamedTuple):
    """All layers of every token, which tokens are real, and the state after each sentence."""

    layers: Float[Tensor, "L B T D"]
    mask: Bool[Tensor, "B T"]
    state: BiLmState

    def __repr__(self) -> str:
        shapes = f"layers {_shape(self.layers)}, mask {_shape(self.mask)}"
        return f"BiLmOutput({shapes}, state {self.state!r})"


def _shape(values: Tensor) -> str:
    return " x ".join(map(str, values.shape))


def _keep(x: Tensor) -> Tensor:
    return x


class DirectionalLm(nn.Module):
    """The LSTM stack of one direction; it reads left to right, whatever the direction."""

    layers: Sequence[ProjectedLstm]

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(  # type: ignore[assignment]
            ProjectedLstm(config) for _ in range(config.num_layers)
        )

    def forward(
        self,
        x: Float[Tensor, "B T P"],
        mask: Bool[Tensor, "B T"],
        state: list[LstmState],
        drop: Callable[[Tensor], Tensor] = _keep,
    ) -> tuple[list[Tensor], list[LstmState]]:
        """The output of every layer, with dropout `drop`, and the states after the last token."""
        outputs, states = [], []
        for j, layer in enumerate(self.layers):
            y, new = layer(x, mask, state[j])
            # The residual joins outside the cell, from the second layer up: what the cell
            # carries to the next token does not hold it.
            x = drop(y + x if self.config.skip_connections and j > 0 else y)
            outputs.append(x)
            states.append(new)
        return outputs, states


class BiLm(nn.Module):
    """Token vectors → h_k0 = [x_k; x_k] and h_kj = [→h_kj; ←h_kj] (paper, section 3.1)."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TokenEncoder(config.encoder, config.lstm.projection_dim)
        self.forward_lm = DirectionalLm(config.lstm)
        self.backward_lm = DirectionalLm(config.lstm)

    def forward(
        self,
        x: Float[Tensor, "B T P"],
        lengths: Int[Tensor, " B"],
        state: BiLmState | None = None,
    ) -> BiLmOutput:
        """Run both directions over `x`, whose sentences are right-padded to equal length."""
        if state is None:
            state = BiLmState.zeros(self.config.lstm, len(x), like=x)
        positions = torch.arange(x.shape[1], device=x.device)
        mask = positions < lengths[:, None]
        # Reversal within the true length; the padding stays at the end. It is its own inverse.
        reversal = torch.where(mask, lengths[:, None] - 1 - positions, positions)[..., None]

        ahead, ahead_state = self.forward_lm(x, mask, state.layers(0))
        back, back_state = self.backward_lm(_take(x, reversal), mask, state.layers(1))
        x = x * mask[..., None]
        layers = [torch.cat([x, x], dim=-1)]
        for a, b in zip(ahead, back, strict=True):
            layers.append(torch.cat([a, _take(b, reversal)], dim=-1))
        return BiLmOutput(torch.stack(layers), mask, BiLmState.of((ahead_state, back_state)))


def _take(x: Tensor, positions: Tensor) -> Tensor:
    return x.gather(1, positions.expand(-1, -1, x.shape[2]))
