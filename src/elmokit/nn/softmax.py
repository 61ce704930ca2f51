"""The softmax θs over the word vocabulary, shared by both directions."""

import torch
from torch import Tensor, nn

from .shapes import Float


class Softmax(nn.Module):
    """log p(word | h) for every word of the vocabulary, by the full sum."""

    def __init__(self, num_words: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, dim))
        self.bias = nn.Parameter(torch.zeros(num_words))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def forward(self, h: Float[Tensor, "*rest P"]) -> Float[Tensor, "*rest V"]:
        return torch.log_softmax(nn.functional.linear(h, self.weight, self.bias), dim=-1)
