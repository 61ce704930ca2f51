"""The spans of a document that could be mentions.

They form a grid of T tokens by W widths: the span at (t, w) begins at token t and has w + 1 tokens.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...nn.shapes import Bool, Float, Int
from .data import Span


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
    place = torch.arange(width, device=scores.device)
    is_outside = place > place[:, None]
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
