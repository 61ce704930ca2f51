"""The softmax θs over the word vocabulary, shared by both directions."""

import torch
from torch import Tensor, nn

from .shapes import Float, Int

CHUNK_VALUES, MIN_ROWS = 1 << 22, 64
"""Numbers in the largest piece of h W that is in memory at once, but no fewer rows."""


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

    def log_likelihood(
        self, h: Float[Tensor, "N P"], words: Int[Tensor, " N"]
    ) -> Float[Tensor, " N"]:
        """log p(words[n] | h[n]) by the full sum, a chunk of rows at a time."""
        rows = max(MIN_ROWS, CHUNK_VALUES // len(self.weight))
        parts = [
            self(some).gather(1, of_some[:, None])[:, 0]
            for some, of_some in zip(torch.split(h, rows), torch.split(words, rows), strict=True)
        ]
        return torch.cat(parts) if parts else h.new_zeros(0)
