"""Held-out perplexity by the full softmax, sentence by sentence."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from ..corpus.batches import SentenceBatches
from ..nn import BiLmState
from .objective import BatchReader, Objective


class Perplexity(NamedTuple):
    """Of both directions, and the exponential of their mean loss."""

    forward: float
    backward: float
    mean: float


def held_out_perplexity(
    objective: Objective,
    batches: SentenceBatches,
    reader: BatchReader,
    start: BiLmState | None = None,
    on_share: Callable[[float], None] | None = None,
) -> Perplexity:
    """The perplexity of all sentences of `batches`, each from the state `start`, or from zero.

    Args:
        objective: The model.
        batches: The sentences.
        reader: Word ids to tensors.
        start: One state, as a row.
        on_share: Gets the share of the text that is done, from 0 to 1.
    """
    sums, num_tokens = torch.zeros(2, dtype=torch.float64), 0
    was_training = objective.training
    objective.eval()
    with torch.no_grad():
        for rows in batches.epoch(0):
            batch = batches.batch(rows)
            state = None if start is None else start.repeat(len(rows))
            sums += objective(*reader(batch), state).sums.cpu().double()
            num_tokens += batch.num_tokens
            if on_share is not None:
                on_share(num_tokens / batches.num_targets)
    objective.train(was_training)
    forward, backward = (sums / num_tokens).tolist()
    return Perplexity(_exp(forward), _exp(backward), _exp((forward + backward) / 2))


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf
