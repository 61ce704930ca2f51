"""The best answer, by the scores of where it starts and ends."""

import torch
from torch import Tensor

from ...nn.shapes import Float, Int


def best_spans(
    start: Float[Tensor, "B T"], end: Float[Tensor, "B T"], max_tokens: int
) -> tuple[Float[Tensor, " B"], Int[Tensor, "B 2"]]:
    """The largest start_i + end_j of each row with i ≤ j < i + max_tokens, and its i and j.

    All spans are tried, those of a length at once.
    """
    best = torch.full_like(start[:, 0], -torch.inf)
    places = torch.zeros(len(start), 2, dtype=torch.long, device=start.device)
    for more in range(min(max_tokens, start.shape[1])):
        scores, first = (start[:, : start.shape[1] - more] + end[:, more:]).max(dim=1)
        is_better = scores > best
        best = torch.where(is_better, scores, best)
        places = torch.where(is_better[:, None], torch.stack([first, first + more], 1), places)
    return best, places


def span_log_likelihood(
    start: Float[Tensor, "B T"], end: Float[Tensor, "B T"], spans: list[list[tuple[int, int]]]
) -> Float[Tensor, " B"]:
    """log Σ p(start_i)·p(end_j) over the right spans (i, j) of each row.

    Args:
        start: Scores of the places where an answer may start, −∞ where there is no token.
        end: Scores of those where it may end.
        spans: One or more spans for each row.
    """
    most = max(map(len, spans))
    # A span again is a span of no weight.
    padded = [[*of_row, *[of_row[0]] * (most - len(of_row))] for of_row in spans]
    is_real = torch.tensor([[k < len(of_row) for k in range(most)] for of_row in spans])
    places = torch.tensor(padded, device=start.device)
    log_start = start.log_softmax(dim=1).gather(1, places[..., 0])
    log_end = end.log_softmax(dim=1).gather(1, places[..., 1])
    joint = (log_start + log_end).masked_fill(~is_real.to(start.device), -torch.inf)
    return joint.logsumexp(dim=1)
