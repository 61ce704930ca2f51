"""Highway layer (Srivastava et al. 2015), as the character CNN of ELMo uses it."""

import torch
from torch import Tensor, nn

from .shapes import Float


class Highway(nn.Module):
    """y = g·relu(x W_transform + b_transform) + (1 - g)·x with g = σ(x W_carry + b_carry).

    The gate keeps the name that the published files give it, although it opens the transform.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = nn.Linear(dim, dim)
        self.carry = nn.Linear(dim, dim)
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, x: Float[Tensor, "N F"]) -> Float[Tensor, "N F"]:
        gate = torch.sigmoid(self.carry(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x
