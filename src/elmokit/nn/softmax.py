"""The softmax θs over the word vocabulary, shared by both directions."""

import torch
from torch import Tensor, nn

from .shapes import Float


class Softmax(nn.Module):
    """log p(word | h) for every word of the vocabulary, by the full sum."""

    def __init__(self, num_words: int, dim: int) -> None:
        super().__init__()
        # Uniform with the variance 1/dim: normal numbers on the meta device load torch._dynamo.
        bound = (3 / dim) ** 0.5
        self.weight = nn.Parameter(torch.empty(num_words, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(num_words))

    def forward(self, h: Float[Tensor, "*rest P"]) -> Float[Tensor, "*rest V"]:
        return torch.log_softmax(nn.functional.linear(h, self.weight, self.bias), dim=-1)
