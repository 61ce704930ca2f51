"""Held-out perplexity by the full softmax, during a run and at its end."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..config import StateMode
from ..corpus.batches import SentenceBatches
from ..corpus.corpus import Corpus, Sentences
from ..engine.likelihood import Perplexity, Tally
from ..model import Elmo
from ..model.language_model import LanguageModel
from ..nn import BiLmState
from .setup import held_out_batches

WARM_UP_SENTENCES = 200
"""Sentences from which the warm state comes."""

WARM_IF_BELOW = 0.99
"""Fraction of the perplexity from zero that the warm state must be below to be the default."""

SAMPLED_TOKENS = 2000
"""Held-out tokens that tell how long an evaluation takes."""


def held_out_perplexity(
    elmo: Elmo,
    batches: SentenceBatches,
    words: Sequence[str],
    start: BiLmState | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Perplexity:
    """The perplexity of all sentences of `batches`, each from the state `start`, or from zero.

    `words` are those of the corpus by their ids; `on_progress` gets the fraction of the text that
    is done.
    """
    likelihood, tally = LanguageModel(elmo).likelihood, Tally()
    with torch.inference_mode():
        for rows in batches.epoch(0):
            sentences = [[words[i] for i in ids] for ids in batches.sentences(rows)]
            state = None if start is None else start.repeat(len(rows))
            scores, _ = likelihood.sentences(sentences, state, with_state=False)
            for score in scores:
                tally.add(score)
            if on_progress is not None:
                on_progress(tally.num_tokens / batches.num_targets)
    return tally.perplexity()


def as_row(perplexity: Perplexity) -> dict[str, float]:
    """The figures of both directions and their mean, as logs and results hold them."""
    return {name: getattr(perplexity, name) for name in ("forward", "backward", "mean")}


def final_evaluation(
    best: Elmo,
    corpus: Corpus,
    sample: SentenceBatches,
    on_progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Give a model its warm state; returns the perplexity of all held-out text, and the state.

    Sentences start from zero unless the model is lost there, which `sample` tells: some of the
    held-out sentences, or all.
    """
    sentences, words = corpus.train, corpus.words
    count = min(WARM_UP_SENTENCES, len(sentences))
    best.warm_up([words[i] for i in sentences[k]] for k in range(count))
    assert best.warm_h is not None and best.warm_c is not None
    starts: dict[StateMode, BiLmState | None] = {
        "zero": None,
        "warm": BiLmState(best.warm_h, best.warm_c),
    }
    whole = held_out_batches(corpus.valid, None)
    total, done = 2 * sample.num_targets + whole.num_targets, 0

    def measure(batches: SentenceBatches, state: StateMode) -> dict[str, float]:
        nonlocal done

        def shown(fraction: float) -> None:
            if on_progress is not None:
                on_progress((done + fraction * batches.num_targets) / total)

        found = held_out_perplexity(best, batches, words, starts[state], shown)
        done += batches.num_targets
        return as_row(found)

    samples = {state: measure(sample, state) for state in starts}
    is_warm_better = samples["warm"]["mean"] < WARM_IF_BELOW * samples["zero"]["mean"]
    state: StateMode = "warm" if is_warm_better else "zero"
    is_all = sample.num_targets == whole.num_targets
    return {
        "valid": samples[state] if is_all else measure(whole, state),
        "valid_tokens": whole.num_targets,
        "state": state,
        **{f"valid_{name}": found for name, found in samples.items()},
        "sample_tokens": sample.num_targets,
    }


def seconds_per_target(elmo: Elmo, corpus: Corpus) -> float:
    """How long the evaluation of a word takes, from a few sentences."""
    few = held_out_batches(corpus.valid, SAMPLED_TOKENS)
    start = time.perf_counter()
    held_out_perplexity(elmo, few, corpus.words)
    return (time.perf_counter() - start) / few.num_targets


def num_final_targets(sample: SentenceBatches, valid: Sentences) -> int:
    """Words that are predicted after the last step: its evaluation, two samples, and all text."""
    num_all = len(valid.tokens) + len(valid)
    return 3 * sample.num_targets + (num_all if num_all > sample.num_targets else 0)
