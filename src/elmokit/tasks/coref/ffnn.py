"""The feed-forward networks of the model, each of which gives one score."""

import torch
from torch import Tensor, nn

from ...nn.shapes import Float


class Ffnn(nn.Module):
    """Hidden layers of ReLU units with dropout, and one linear unit on top.

    What it reads is a concatenation. Where many inputs share their parts, as spans share their
    ends, the first layer is cheaper part by part: W [a; b] = W_a a + W_b b. `parts` gives these
    matrices, `finish` goes on from their sum.

    Args:
        input_dims: Widths of the concatenated parts.
        dim: Units of each hidden layer.
        num_layers: Hidden layers, 1 or more.
        dropout: Of the hidden layers, while training.
    """

    def __init__(
        self, input_dims: tuple[int, ...], dim: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.input_dims = input_dims
        self.first = nn.Linear(sum(input_dims), dim)
        rest: list[nn.Module] = [nn.ReLU(), nn.Dropout(dropout)]
        for _ in range(num_layers - 1):
            rest += [nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout)]
        self.rest = nn.Sequential(*rest, nn.Linear(dim, 1))

    def __call__(self, x: Tensor) -> Tensor:
        scores: Tensor = super().__call__(x)
        return scores

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest"]:
        """The score of each vector."""
        return self.finish(self.first(x))

    def parts(self) -> tuple[Tensor, ...]:
        """The matrix of the first layer for each part, (D_part, dim): x_part @ it."""
        return tuple(torch.split(self.first.weight.T, list(self.input_dims)))

    def finish(self, hidden: Float[Tensor, "*rest H"]) -> Float[Tensor, "*rest"]:
        """The scores, from the sums that the units of the first layer get, bias included."""
        scores: Tensor = self.rest(hidden)
        return scores.squeeze(-1)
