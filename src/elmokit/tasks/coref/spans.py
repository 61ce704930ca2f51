"""The spans of a document that could be mentions, and the pairs of those that are kept.

Spans form a grid of T tokens by W widths: the span at (t, w) begins at token t and has w + 1
tokens. A kept span i is compared with its K predecessors among the kept spans: column k of row i is
the span i - K + k, so that the last column is the nearest.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...nn.shapes import Bool, Float, Int
from .document import Span

BUCKETS = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""Where the buckets of distances begin."""
PRODUCT_VALUES = 1 << 22
"""Values of g_i ∘ g_j that are in memory at once."""


def windows(x: Float[Tensor, "T ..."], width: int) -> Float[Tensor, "T W ..."]:
    """The `width` rows from each row on, zeros beyond the last: a view where that is possible."""
    padding = x.new_zeros(width - 1, *x.shape[1:])
    return torch.cat([x, padding]).unfold(0, width, 1).movedim(-1, 1)


def in_sentence(lengths: Int[Tensor, " S"], width: int) -> Bool[Tensor, "T W"]:
    """Which spans of the grid are inside one sentence.

    Args:
        lengths: Tokens of each sentence.
        width: Widest span.
    """
    sentence_end = lengths.cumsum(0).repeat_interleave(lengths)
    token = torch.arange(len(sentence_end), device=lengths.device)
    return token[:, None] + torch.arange(width, device=lengths.device) < sentence_end[:, None]


def head_weights(scores: Float[Tensor, " T"], width: int) -> Float[Tensor, "T W W"]:
    """a_{i,t}: how much each token of each span is its head, by a softmax within the span.

    Row (t, w) has the weights of the tokens t, t + 1, …; zero from t + w + 1 on.
    """
    offset = torch.arange(width, device=scores.device)
    is_outside = offset > offset[:, None]
    inside = windows(scores, width)[:, None].masked_fill(is_outside, -torch.inf)
    return inside.softmax(dim=-1)


def prune(
    scores: NDArray[np.float32], is_span: NDArray[np.bool_], num_spans: int
) -> list[tuple[int, int]]:
    """The best spans of a grid, none of which crosses another, in the order of the text.

    A span is kept if it crosses none that is better; spans may lie within each other.

    Args:
        scores: Mention score of each (t, w).
        is_span: Which of them to choose from.
        num_spans: How many to keep, if there are so many.

    Returns:
        (t, w) of each span, sorted.
    """
    starts, widths = np.nonzero(is_span)
    order = np.argsort(-scores[starts, widths], kind="stable")
    kept: list[tuple[int, int]] = []
    furthest: dict[int, int] = {}  # first token of a kept span → its last token
    earliest: dict[int, int] = {}  # last token → the first one
    for start, width in zip(starts[order].tolist(), widths[order].tolist(), strict=True):
        if len(kept) >= num_spans:
            break
        last = start + width
        if any(furthest.get(t, -1) > last for t in range(start + 1, last + 1)):
            continue
        if any(earliest.get(t, start) < start for t in range(start, last)):
            continue
        kept.append((start, width))
        furthest[start] = max(furthest.get(start, last), last)
        earliest[last] = min(earliest.get(last, start), start)
    return sorted(kept)


def cluster_ids(kept: Sequence[tuple[int, int]], clusters: Sequence[Sequence[Span]]) -> list[int]:
    """The number of the cluster, from 1, that each kept span is a mention of; 0 for none."""
    ids = {span: number for number, cluster in enumerate(clusters, 1) for span in cluster}
    return [ids.get((start, start + width + 1), 0) for start, width in kept]


def predecessors(x: Float[Tensor, "N ..."], num: int) -> Float[Tensor, "N K ..."]:
    """The `num` rows before each row, zeros before the first: a view of a padded copy."""
    padded = torch.cat([x.new_zeros(num, *x.shape[1:]), x[:-1]])
    return padded.unfold(0, num, 1).movedim(-1, 1)


def has_predecessors(num_rows: int, num: int, device: torch.device) -> Bool[Tensor, "N K"]:
    """Which of the slots in `predecessors` hold a row."""
    row = torch.arange(num_rows, device=device)[:, None]
    return torch.arange(num, device=device) >= num - row


def distance_buckets(distance: Int[Tensor, " K"]) -> Int[Tensor, " K"]:
    """The number of the bucket of each distance, from 0."""
    starts = torch.tensor(BUCKETS, device=distance.device)
    return torch.bucketize(distance, starts, right=True) - 1


class PairProducts(torch.autograd.Function):
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
