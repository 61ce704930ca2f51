"""How well a span goes with each of the spans before it (Lee et al. 2017, section 4).

A span i is compared with its K predecessors among the kept spans: column k of row i is the span
i - K + k, so that the last column is the nearest.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ...nn.shapes import Bool, Float, Int
from .config import CorefConfig
from .ffnn import Ffnn

BUCKETS = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""Where the buckets of distances begin."""
PRODUCT_VALUES = 1 << 22
"""Values of g_i ∘ g_j that are in memory at once."""


class Antecedents(nn.Module):
    """s_a(i, j) = FFNN([g_i; g_j; g_i ∘ g_j; φ(i, j)]), φ being the distance in kept spans.

    Args:
        config: The sizes.
        span_dim: Width of g.
    """

    def __init__(self, config: CorefConfig, span_dim: int) -> None:
        super().__init__()
        self.max_antecedents = config.max_antecedents
        dims = (span_dim, span_dim, span_dim, config.feature_dim)
        self.score = Ffnn(dims, config.ffnn_dim, config.ffnn_layers, config.dropout)
        self.distance = nn.Embedding(len(BUCKETS), config.feature_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, g: Float[Tensor, "N G"], mention_scores: Float[Tensor, " N"]
    ) -> Float[Tensor, "N K+1"]:
        """s(i, j) = s_m(i) + s_m(j) + s_a(i, j), and before it s(i, ε) = 0: no antecedent."""
        num = max(1, min(self.max_antecedents, len(g) - 1))
        of_span, of_antecedent, of_product, of_distance = self.score.parts()
        hidden = (g @ of_span + self.score.first.bias)[:, None] + predecessors(
            g @ of_antecedent, num
        )
        buckets = distance_buckets(torch.arange(num, 0, -1, device=g.device))
        hidden = hidden + (self.dropout(self.distance.weight) @ of_distance)[buckets]
        hidden = hidden + _Products.apply(g, of_product.T, num)  # type: ignore[no-untyped-call]
        scores = self.score.finish(hidden)
        scores = scores + mention_scores[:, None] + predecessors(mention_scores, num)
        scores = scores.masked_fill(~has_predecessors(len(g), num, g.device), -torch.inf)
        return torch.cat([scores.new_zeros(len(g), 1), scores], dim=1)


def predecessors(x: Float[Tensor, "N ..."], num: int) -> Float[Tensor, "N K ..."]:
    """The `num` rows before each row, zeros before the first: a view of a padded copy."""
    padded = torch.cat([x.new_zeros(num, *x.shape[1:]), x[:-1]])
    return padded.unfold(0, num, 1).movedim(-1, 1)


def has_predecessors(num_rows: int, num: int, device: torch.device) -> Bool[Tensor, "N K"]:
    """Which of the places in `predecessors` hold a row."""
    row = torch.arange(num_rows, device=device)[:, None]
    return torch.arange(num, device=device) >= num - row


def distance_buckets(distance: Int[Tensor, " K"]) -> Int[Tensor, " K"]:
    """The number of the bucket of each distance, from 0."""
    starts = torch.tensor(BUCKETS, device=distance.device)
    return torch.bucketize(distance, starts, right=True) - 1


def antecedent_likelihood(
    scores: Float[Tensor, "N K+1"], ids: Int[Tensor, " N"]
) -> Float[Tensor, " N"]:
    """log Σ P(y_i) over the right antecedents of each span.

    Right are those of the same cluster; where there are none among the K, as for spans that are
    no mention, it is right to have no antecedent.

    Args:
        scores: What `Antecedents` gives.
        ids: Number of each span's cluster, 0 for none.
    """
    num = scores.shape[1] - 1
    is_right = (predecessors(ids, num) == ids[:, None]) & (ids > 0)[:, None]
    is_right = torch.cat([~is_right.any(dim=1, keepdim=True), is_right], dim=1)
    right = scores.masked_fill(~is_right, -torch.inf)
    return right.logsumexp(dim=1) - scores.logsumexp(dim=1)


class _Products(torch.autograd.Function):
    """W (g_i ∘ g_j) of all pairs, whose products are never in memory together.

    They are the largest tensor of the model by far; the backward pass makes them again.
    """

    @staticmethod
    def forward(ctx: Any, g: Tensor, weight: Tensor, num: int) -> Tensor:
        ctx.save_for_backward(g, weight)
        ctx.num = num
        hidden = g.new_empty(len(g), num, len(weight))
        for rows, _, products in _products(g, num):
            torch.mm(products.flatten(0, 1), weight.T, out=hidden[rows].flatten(0, 1))
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        g, weight = ctx.saved_tensors
        grad = gradients[0].contiguous()
        of_g, of_weight = torch.zeros_like(g), torch.zeros_like(weight)
        of_predecessors = g.new_zeros(ctx.num + len(g), g.shape[1])  # as they are padded
        for rows, before, products in _products(g, ctx.num):
            of_pairs = grad[rows].flatten(0, 1)
            of_weight.addmm_(of_pairs.T, products.flatten(0, 1))
            torch.mm(of_pairs, weight, out=products.flatten(0, 1))
            of_g[rows] = torch.einsum("nkd,nkd->nd", products, before)
            products *= g[rows, None]
            for row, values in enumerate(products, rows.start):
                of_predecessors[row : row + ctx.num] += values
        of_g += of_predecessors[ctx.num :]
        return of_g, of_weight, None


def _products(g: Tensor, num: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Rows, their predecessors and g_i ∘ g_j, block by block in the same memory."""
    size = max(1, min(len(g), PRODUCT_VALUES // (num * g.shape[1])))
    memory = g.new_empty(size, num, g.shape[1])
    before = predecessors(g, num)
    for start in range(0, len(g), size):
        rows = slice(start, min(start + size, len(g)))
        products = memory[: rows.stop - start]
        torch.mul(g[rows, None], before[rows], out=products)
        yield rows, before[rows], products
