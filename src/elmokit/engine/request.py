"""What is wanted of each token."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Request:
    """What to compute of each token.

    Attributes:
        weights: Each output as weights of the layers (S outputs, L layers): the identity for all
            layers, one row of 1/L for their average.
        directions: 0 for the forward half, 1 for the backward half, in the order of output.
        with_state: Whether the state after each sentence is wanted (it needs every layer).
        boundaries: Whether the begin and end of each sentence are part of the result.
    """

    weights: Tensor
    directions: tuple[int, ...] = (0, 1)
    with_state: bool = False
    boundaries: bool = False

    @property
    def num_lstm_layers(self) -> int:
        """LSTM layers that have to run."""
        used = self.weights.ne(0).any(dim=0).nonzero()
        highest = int(used.max()) if len(used) else 0
        return self.weights.shape[1] - 1 if self.with_state else highest
