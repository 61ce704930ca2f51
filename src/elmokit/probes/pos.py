"""Part-of-speech tags read off each frozen layer by a linear classifier (paper, table 6)."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..model import Elmo
from ..tasks.data.examples import TaggedSentence
from ..vectors.static import StaticVectors
from .layers import spread, token_layers
from .linear import Features, LinearSettings, predict, train_linear
from .tables import format_table, percent

log = logging.getLogger(__name__)

BASELINE, STATIC, AVERAGE, MIX = "most frequent tag", "static vectors", "average", "mix"


@dataclass(frozen=True, slots=True)
class PosResult:
    """How many tags of the development data a linear classifier gets right, by what it reads.

    Attributes:
        accuracy: Share of right tags of each row: `0`, `1`, …, `average`, `mix`; and of the
            baselines `most frequent tag` (of the word in training) and `static vectors`.
        mix_weights: What the learned mix weighs the layers with; they sum to one.
        tags: The tags, in alphabetical order.
        num_train_sentences: Sentences that were learned from.
        num_train_tokens: Their tokens.
        num_dev_tokens: Tokens that were scored.
        static_coverage: Share of those that the static vectors know; None without such vectors.
        settings: How the classifiers were trained.
    """

    accuracy: dict[str, float]
    mix_weights: tuple[float, ...]
    tags: tuple[str, ...]
    num_train_sentences: int
    num_train_tokens: int
    num_dev_tokens: int
    static_coverage: float | None = None
    settings: LinearSettings = field(default_factory=LinearSettings)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "accuracy": self.accuracy,
            "mix_weights": list(self.mix_weights),
            "tags": list(self.tags),
            "train_sentences": self.num_train_sentences,
            "train_tokens": self.num_train_tokens,
            "dev_tokens": self.num_dev_tokens,
            "static_coverage": self.static_coverage,
            "settings": self.settings.to_dict(),
        }

    def __str__(self) -> str:
        weights = " ".join(f"{weight:.2f}" for weight in self.mix_weights)
        rows = [(name, percent(share)) for name, share in self.accuracy.items()]
        lines = [
            format_table(["layer", "accuracy"], rows),
            f"weights of the mix: {weights}",
            f"{len(self.tags)} tags; trained on {self.num_train_sentences:,} sentences "
            f"({self.num_train_tokens:,} tokens), scored on {self.num_dev_tokens:,} tokens",
        ]
        if self.static_coverage is not None:
            lines.append(f"static vectors know {self.static_coverage:.1%} of the scored tokens")
        return "\n".join(lines)


def pos_probe(
    elmo: Elmo,
    train: Sequence[TaggedSentence],
    dev: Sequence[TaggedSentence],
    *,
    max_sentences: int | None = None,
    static: StaticVectors | None = None,
    split: bool = False,
    settings: LinearSettings | None = None,
) -> PosResult:
    """The accuracy of a linear classifier on each layer, on their average and on a learned mix.

    The layers of all tokens are in memory in half precision: 0.6 GB for 100,000 tokens of the
    original model. Every classifier is trained in the same way, on standardised values.

    Args:
        elmo: The model, which is not changed.
        train: Tagged sentences to learn from.
        dev: Tagged sentences to score; a tag that training never saw counts as an error.
        max_sentences: Learn from so many only, at even distances.
        static: Word vectors for a baseline; unknown words are zeros.
        split: The model reads the sentences as its own tokenizer splits them, and the vector of a
            word is the mean of its parts: Korean words in morphemes.
        settings: How the classifiers are trained.
    """
    settings = settings or LinearSettings()
    train = spread(train, max_sentences)
    _check(train, "training")
    _check(dev, "development")
    tags = sorted({tag for sentence in train for tag in sentence.tags})
    task = _Task(_labels(train, tags), _labels(dev, tags), len(tags), settings)
    accuracy = {BASELINE: most_frequent_tag_accuracy(train, dev)}
    if static is not None:
        words = [Features(_static_rows(sentences, static)) for sentences in (train, dev)]
        accuracy[STATIC], _ = task.run(*words)
    weights: tuple[float, ...] = ()
    for name, (learned, scored) in _views(elmo, split, train, dev):
        accuracy[name], weights = task.run(learned, scored)
        log.info("%s: %s", name, percent(accuracy[name]))
    return PosResult(
        accuracy=accuracy,
        mix_weights=weights,
        tags=tuple(tags),
        num_train_sentences=len(train),
        num_train_tokens=len(task.train),
        num_dev_tokens=len(task.dev),
        static_coverage=None if static is None else _coverage(dev, static),
        settings=settings,
    )


def most_frequent_tag_accuracy(
    train: Sequence[TaggedSentence], dev: Sequence[TaggedSentence]
) -> float:
    """The score of giving each word its most frequent tag, and unknown words that of all words."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.tokens, sentence.tags, strict=True):
            counts[word][tag] += 1
    best = {word: _most_frequent(tags) for word, tags in counts.items()}
    fallback = _most_frequent(sum(counts.values(), Counter()))
    pairs = [pair for s in dev for pair in zip(s.tokens, s.tags, strict=True)]
    return sum(best.get(word, fallback) == tag for word, tag in pairs) / len(pairs)


@dataclass(frozen=True, slots=True)
class _Task:
    """The labels to learn and to find, and how."""

    train: torch.Tensor
    dev: torch.Tensor
    num_tags: int
    settings: LinearSettings

    def run(self, train: Features, dev: Features) -> tuple[float, tuple[float, ...]]:
        """The accuracy of a classifier, and the weights of its mix if it has one."""
        probe = train_linear(train, self.train, self.num_tags, self.settings)
        accuracy = (predict(probe, dev) == self.dev).double().mean().item()
        return accuracy, () if probe.mix is None else tuple(probe.mix.weights().tolist())


def _views(
    elmo: Elmo, split: bool, *data: Sequence[TaggedSentence]
) -> Iterator[tuple[str, list[Features]]]:
    """What a classifier can read of the layers of the data, by name; the mix comes last."""
    found = [
        torch.from_numpy(token_layers(elmo, [s.tokens for s in part], split=split)) for part in data
    ]
    for i in range(elmo.num_layers):
        yield str(i), [Features(layers[i : i + 1]) for layers in found]
    yield AVERAGE, [Features(layers, average=True) for layers in found]
    yield MIX, [Features(layers) for layers in found]


def _labels(sentences: Sequence[TaggedSentence], tags: Sequence[str]) -> torch.Tensor:
    """The number of each token's tag; -1, which is never predicted, for other tags."""
    numbers = {tag: i for i, tag in enumerate(tags)}
    return torch.tensor([numbers.get(tag, -1) for s in sentences for tag in s.tags])


def _static_rows(sentences: Sequence[TaggedSentence], static: StaticVectors) -> torch.Tensor:
    """The static vector of each token, (1, N, D)."""
    return torch.from_numpy(static.vectors(_words(sentences)).astype(np.float16)[None])


def _coverage(sentences: Sequence[TaggedSentence], static: StaticVectors) -> float:
    """The share of the tokens that have a static vector."""
    words = _words(sentences)
    return sum(static.row(word) is not None for word in words) / len(words)


def _words(sentences: Sequence[TaggedSentence]) -> list[str]:
    return list(chain.from_iterable(sentence.tokens for sentence in sentences))


def _most_frequent(tags: Counter[str]) -> str:
    """Among equally frequent tags the first of the alphabet, whatever the order of the data."""
    return min(tags, key=lambda tag: (-tags[tag], tag))


def _check(sentences: Sequence[TaggedSentence], kind: str) -> None:
    if not any(sentence.tokens for sentence in sentences):
        raise InputError(f"the {kind} data have no tagged words: there is nothing to probe")
