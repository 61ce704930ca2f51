"""The best BIO tags of a sentence, given the scores of each token's tags.

The tags of n labels are O, then B- of each label, then I- of each, in the same order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...nn.shapes import Bool, Float


def bio_tags(labels: Sequence[str]) -> list[str]:
    """The tags in the order of their ids."""
    return ["O", *(f"B-{label}" for label in labels), *(f"I-{label}" for label in labels)]


@torch.no_grad()
def decode_bio(logits: Float[Tensor, "B T K"], mask: Bool[Tensor, "B T"]) -> list[list[int]]:
    """The tags with the largest sum of scores in which every I-X continues a B-X or I-X.

    This is Viterbi's algorithm for transitions that are allowed or not. O and B- may follow
    anything, so that they share one best predecessor, and I-X has two: a step takes K operations
    in place of K².

    Returns:
        The ids of the tags of each sentence, without its padding.
    """
    num_labels = (logits.shape[2] - 1) // 2
    begin, inside = slice(1, 1 + num_labels), slice(1 + num_labels, None)
    begins = torch.arange(1, 1 + num_labels, device=logits.device)
    itself = torch.arange(logits.shape[2], device=logits.device)
    logits = logits.float()
    best = logits[:, 0].clone()
    best[:, inside] = -torch.inf
    steps = []
    for t in range(1, logits.shape[1]):
        top, of_top = best.max(dim=1, keepdim=True)
        is_begun = best[:, begin] >= best[:, inside]
        before_inside = torch.where(is_begun, begins, begins + num_labels)
        score = torch.cat(
            [top.expand(-1, 1 + num_labels), torch.maximum(best[:, begin], best[:, inside])], dim=1
        )
        previous = torch.cat([of_top.expand(-1, 1 + num_labels), before_inside], dim=1)
        real = mask[:, t, None]
        # In the padding every tag comes from itself, and the scores stay.
        best = torch.where(real, score + logits[:, t], best)
        steps.append(torch.where(real, previous, itself))
    path = [best.argmax(dim=1)]
    for step in reversed(steps):
        path.append(step.gather(1, path[-1][:, None])[:, 0])
    rows = torch.stack(path[::-1], dim=1).tolist()
    return [row[:length] for row, length in zip(rows, mask.sum(dim=1).tolist(), strict=True)]
