"""Held-out perplexity by the full softmax, sentence by sentence."""

from collections.abc import Callable, Sequence

import torch

from ..corpus.batches import SentenceBatches
from ..engine.likelihood import Perplexity, Tally
from ..model import Elmo
from ..model.language_model import LanguageModel
from ..nn import BiLmState


def held_out_perplexity(
    elmo: Elmo,
    batches: SentenceBatches,
    words: Sequence[str],
    start: BiLmState | None = None,
    on_share: Callable[[float], None] | None = None,
) -> Perplexity:
    """The perplexity of all sentences of `batches`, each from the state `start`, or from zero.

    Args:
        elmo: The model.
        batches: The sentences.
        words: The words of the corpus by their ids.
        start: One state, as a row.
        on_share: Gets the share of the text that is done, from 0 to 1.
    """
    likelihood, tally = LanguageModel(elmo).likelihood, Tally()
    with torch.inference_mode():
        for rows in batches.epoch(0):
            sentences = [[words[i] for i in ids] for ids in batches.sentences(rows)]
            state = None if start is None else start.repeat(len(rows))
            scores, _ = likelihood.sentences(sentences, state, with_state=False)
            for score in scores:
                tally.add(score)
            if on_share is not None:
                on_share(tally.num_tokens / batches.num_targets)
    return tally.perplexity()


def as_row(perplexity: Perplexity) -> dict[str, float]:
    """The figures of both directions and their mean, as logs and results hold them."""
    return {name: getattr(perplexity, name) for name in ("forward", "backward", "mean")}
