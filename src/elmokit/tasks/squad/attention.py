"""Tri-linear attention: from a text to a question and back, and of a text to itself.

T tokens of the text, J of the question, D their width. No tensor has both T·J (or T·T) and D.
"""

import torch
from torch import Tensor, nn

from ...nn.shapes import Bool, Float


class TriLinear(nn.Module):
    """a_ij = w₁·h_i + w₂·q_j + w₃·(h_i ⊙ q_j), how much h_i and q_j have to do with each other."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(dim, 1, bias=False)
        self.second = nn.Linear(dim, 1, bias=False)
        self.product = nn.Parameter(torch.empty(dim).uniform_(-1, 1) * (3 / dim) ** 0.5)

    def __call__(self, h: Tensor, q: Tensor) -> Tensor:
        scores: Tensor = super().__call__(h, q)
        return scores

    def forward(
        self, h: Float[Tensor, "B T D"], q: Float[Tensor, "B J D"]
    ) -> Float[Tensor, "B T J"]:
        products = (h * self.product) @ q.transpose(1, 2)
        scores: Tensor = products + self.first(h) + self.second(q).transpose(1, 2)
        return scores


class BiAttention(nn.Module):
    """What the question looks like to each token, and the text to the question (Seo et al. 2017).

    Returns [h; u; h ⊙ u; h ⊙ v] for each token, u being what it attends to in the question, and v
    the tokens of the text that some word of the question attends to most.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim)

    def __call__(self, h: Tensor, q: Tensor, mask: Tensor, q_mask: Tensor) -> Tensor:
        merged: Tensor = super().__call__(h, q, mask, q_mask)
        return merged

    def forward(
        self,
        h: Float[Tensor, "B T D"],
        q: Float[Tensor, "B J D"],
        mask: Bool[Tensor, "B T"],
        q_mask: Bool[Tensor, "B J"],
    ) -> Float[Tensor, "B T 4*D"]:
        scores = self.similarity(h, q)
        u = masked_softmax(scores, q_mask[:, None]) @ q
        strongest = scores.masked_fill(~q_mask[:, None], -torch.inf).amax(dim=-1)
        v = masked_softmax(strongest, mask)[:, None] @ h
        return torch.cat([h, u, h * u, h * v], dim=-1)


class SelfAttention(nn.Module):
    """[h; u; h ⊙ u], u being what a token attends to among the others."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim)

    def __call__(self, h: Tensor, mask: Tensor) -> Tensor:
        merged: Tensor = super().__call__(h, mask)
        return merged

    def forward(
        self, h: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T 3*D"]:
        is_other = ~torch.eye(h.shape[1], dtype=torch.bool, device=h.device)
        u = masked_softmax(self.similarity(h, h), mask[:, None] & is_other) @ h
        return torch.cat([h, u, h * u], dim=-1)


def masked_softmax(
    scores: Float[Tensor, "... T"], mask: Bool[Tensor, "... T"]
) -> Float[Tensor, "... T"]:
    """The softmax over the places of the mask; all zero where there are none."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask
