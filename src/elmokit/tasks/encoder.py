"""The biLSTM that the task models share."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..nn.shapes import Bool, Float


class BiLstm(nn.Module):
    """A biLSTM over sentences of different lengths; padding has no influence.

    Args:
        input_dim: Width of what it reads.
        dim: Units of each direction; the result is twice as wide.
        num_layers: Layers, each reading both directions of the one below.
        dropout: Between layers, while training.
    """

    def __init__(self, input_dim: int, dim: int, num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = 2 * dim
        self.lstm = nn.LSTM(
            input_dim,
            dim,
            num_layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )
        self._start()

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        h: Tensor = super().__call__(x, mask)
        return h

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        """The states of each token, zero where the shorter sentences end."""
        lengths = mask.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed)
        h, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return h * mask[..., None]

    def _start(self) -> None:
        """Orthogonal recurrences, scaled inputs, forget gates that are open at first."""
        for name, weight in self.lstm.named_parameters():
            if name.startswith("weight_hh"):
                for gate in weight.data.chunk(4):
                    nn.init.orthogonal_(gate)
            elif name.startswith("weight_ih"):
                nn.init.xavier_uniform_(weight.data)
            else:
                weight.data.zero_()
                if name.startswith("bias_ih"):
                    forget = weight.data.chunk(4)[1]
                    torch.nn.init.ones_(forget)
