"""Part-of-speech tags read off each frozen layer by a linear classifier (paper, table 6).

The classifier is a multinomial logistic regression on the vectors of one layer, on the average of
the layers or on a learned mix of them. Batches are cut from half-precision rows, so that only one
batch is ever in full precision.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import Config, within
from ..errors import ConfigError, InputError
from ..model import Elmo
from ..nn import ScalarMix
from ..tables import format_table, percent
from ..tasks.parts.conll import TaggedSentence
from ..vectors.static import StaticVectors
from .layers import spread, token_layers

log = logging.getLogger(__name__)

BASELINE, STATIC, AVERAGE, MIX = "most frequent tag", "static vectors", "average", "mix"
ROWS_AT_ONCE = 4096
"""Rows in one step where nothing is learned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearSettings(Config):
    """How a linear probe is trained: Adam from zero weights, its rate falling to zero.

    Attributes:
        epochs: Passes over the training rows.
        batch_size: Rows in a step.
        learning_rate: Rate of the first step.
        weight_decay: Pull of the weights to zero, as in AdamW.
        seed: Of the order of the rows.
    """

    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 0.03
    weight_decay: float = 0.01
    seed: int = 1

    def __post_init__(self) -> None:
        within(self, 1, 1 << 40, "epochs", "batch_size")
        within(self, 0, 1 << 40, "seed")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate={self.learning_rate}: expected a positive number")


@dataclass(frozen=True, slots=True)
class Features:
    """The vectors of N tokens in K layers, (K, N, D); with `average`, the mean of the layers."""

    layers: Tensor
    average: bool = False

    def __len__(self) -> int:
        return self.layers.shape[1]

    def rows(self, which: Tensor | slice) -> Tensor:
        """Some of the tokens in full precision, (K, B, D); K is 1 for the average."""
        picked = self.layers[:, which].float()
        return picked.mean(dim=0, keepdim=True) if self.average else picked

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """All tokens in their order, a block at a time, each with its slice."""
        for start in range(0, len(self), ROWS_AT_ONCE):
            where = slice(start, start + ROWS_AT_ONCE)
            yield where, self.rows(where)


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
        rows = [(name, percent(value)) for name, value in self.accuracy.items()]
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
    coverage = None
    if static is not None:
        rows = [Features(_static_rows(sentences, static)) for sentences in (train, dev)]
        accuracy[STATIC], _ = task.run(*rows)
        words = _words(dev)
        coverage = sum(static.row(word) is not None for word in words) / len(words)
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
        static_coverage=coverage,
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

    train: Tensor
    dev: Tensor
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


def _labels(sentences: Sequence[TaggedSentence], tags: Sequence[str]) -> Tensor:
    """The number of each token's tag; -1, which is never predicted, for other tags."""
    numbers = {tag: i for i, tag in enumerate(tags)}
    return torch.tensor([numbers.get(tag, -1) for s in sentences for tag in s.tags])


def _static_rows(sentences: Sequence[TaggedSentence], static: StaticVectors) -> Tensor:
    """The static vector of each token, (1, N, D)."""
    return torch.from_numpy(static.vectors(_words(sentences)).astype(np.float16)[None])


def _words(sentences: Sequence[TaggedSentence]) -> list[str]:
    return list(chain.from_iterable(sentence.tokens for sentence in sentences))


def _most_frequent(tags: Counter[str]) -> str:
    """Among equally frequent tags the first of the alphabet, whatever the order of the data."""
    return min(tags, key=lambda tag: (-tags[tag], tag))


def _check(sentences: Sequence[TaggedSentence], kind: str) -> None:
    if not any(sentence.tokens for sentence in sentences):
        raise InputError(f"the {kind} data have no tagged words: there is nothing to probe")


class LinearProbe(nn.Module):
    """Scores of the tags, (B, tags), from layers (K, B, D): standardise, mix if K > 1, project."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor, num_tags: int) -> None:
        super().__init__()
        num_layers, _, dim = mean.shape
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.mix = ScalarMix(num_layers) if num_layers > 1 else None
        self.linear = nn.Linear(dim, num_tags)
        # The loss of one layer is convex: zeros are as good a start as any, and nothing is random.
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, layers: Tensor) -> Tensor:
        x = (layers - self.mean) * self.scale
        mixed = x[0] if self.mix is None else self.mix(x)
        scores: Tensor = self.linear(mixed)
        return scores


def train_linear(
    features: Features, labels: Tensor, num_tags: int, settings: LinearSettings
) -> LinearProbe:
    """A probe that was trained to give each row its label."""
    probe = LinearProbe(*_moments(features), num_tags)
    weight = probe.linear.weight
    free = [p for p in probe.parameters() if p is not weight]
    groups: list[dict[str, Any]] = [
        {"params": [weight], "weight_decay": settings.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
    num_steps = settings.epochs * -(-len(features) // settings.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / num_steps)
    generator = torch.Generator().manual_seed(settings.seed)
    for _ in range(settings.epochs):
        order = torch.randperm(len(features), generator=generator)
        for rows in torch.split(order, settings.batch_size):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(probe(features.rows(rows)), labels[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return probe


@torch.inference_mode()
def predict(probe: LinearProbe, features: Features) -> Tensor:
    """The best tag of each row, (N,)."""
    return torch.cat([probe(rows).argmax(dim=1) for _, rows in features.blocks()])


def _moments(features: Features) -> tuple[Tensor, Tensor]:
    """Mean, and one over the deviation, of each value of each layer, both (K, 1, D)."""
    total = square = torch.zeros((), dtype=torch.float64)
    for _, rows in features.blocks():
        total = total + rows.double().sum(dim=1, keepdim=True)
        square = square + rows.double().square().sum(dim=1, keepdim=True)
    mean = total / len(features)
    variance = (square / len(features) - mean.square()).clamp(min=0)
    # A value that never changes says nothing; dividing by its deviation would only blow it up.
    scale = torch.where(variance > 1e-10, variance.clamp(min=1e-10).rsqrt(), 0)
    return mean.float(), scale.float()
