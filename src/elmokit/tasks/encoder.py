"""The recurrent layers that the task models share."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..nn.shapes import Bool, Float, Int
from . import gru


class Bidirectional(nn.Module):
    """Recurrent layers in both directions over texts of different lengths.

    Padding has no influence: the backward direction reads each text from its own end. So nothing
    has to be packed, which torch is slow at when it learns on a processor.

    Args:
        input_dim: Width of what it reads.
        dim: Units of each direction; the result is twice as wide.
        num_layers: Layers, each reading both directions of the one below.
        dropout: Between layers, while training.
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

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        h: Tensor = super().__call__(x, mask)
        return h

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        """The states of each token, zero where the shorter texts end."""
        places = _from_the_end(mask)
        for i, layers in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            x = self.dropout(x) if i else x
            forward, backward = self._recur(
                layers, [x.transpose(0, 1), _reordered(x, places).transpose(0, 1)]
            )
            x = torch.cat(
                [forward.transpose(0, 1), _reordered(backward.transpose(0, 1), places)], dim=-1
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
        return gru.recur(layers, inputs)


class VariationalDropout(nn.Module):
    """Dropout of the same values at all tokens of a text (Gal and Ghahramani 2016)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(share)

    def __call__(self, x: Tensor) -> Tensor:
        dropped: Tensor = super().__call__(x)
        return dropped

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """`x` with some columns of each text set to zero, while training."""
        if not self.training:
            return x
        kept: Tensor = self.dropout(torch.ones_like(x[:, :1]))
        return x * kept


def _from_the_end(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The place of each token, counted from the end of its text; padding stays where it is.

    Of a batch as one row, so that one index finds a token.
    """
    lengths = mask.sum(dim=1, keepdim=True)
    places = torch.arange(mask.shape[1], device=mask.device)
    reversed_places = torch.where(mask, lengths - 1 - places, places)
    rows = torch.arange(len(mask), device=mask.device)
    return reversed_places + rows[:, None] * mask.shape[1]


def _reordered(x: Float[Tensor, "B T D"], places: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    return x.flatten(0, 1).index_select(0, places.flatten()).view_as(x)
