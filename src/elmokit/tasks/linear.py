"""The linear head of `classify`: frozen vectors, pooled, and a logistic regression on them.

A text is the mean and the maximum of its tokens' vectors, layer by layer, each value standardised
over the training texts. The scalar mix of these layers (paper, equation 1) and the regression
are learned together, on all texts at once, so that a training takes seconds.
"""

import logging
import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import ConfigError
from ..nn.shapes import Float, Int
from .parts.embedding import TaskEmbedding, TokenBatch
from .task import LabelModel, Read

log = logging.getLogger(__name__)

STRENGTHS = tuple(10 ** (1 - i / 2) for i in range(9))
"""Penalties to choose from, the strongest first."""
NUM_FOLDS = 5
_POOLED_AT_ONCE = 64
_MAX_STEPS = 100


class _Text(Protocol):
    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def label(self) -> str: ...


TextT = TypeVar("TextT", bound=_Text)


class LinearHead(LabelModel[TextT]):
    """Multinomial logistic regression on [static vectors; ELMo], pooled over the tokens.

    Args:
        embedding: What the head reads; nothing but the mix of it is learned.
        labels: The classes.
        l2: The loss has l2/2 ‖W‖²; None chooses l2 by cross-validation on the training texts.
    """

    fits_at_once: ClassVar[bool] = True

    def __init__(
        self, embedding: TaskEmbedding, labels: Sequence[str], l2: float | None = None
    ) -> None:
        super().__init__(labels)
        self.embedding, self.l2 = embedding, l2
        mix = embedding.input_mix
        num_layers = 1 if mix is None else mix.num_layers
        dim = 2 * embedding.dim  # the mean and the maximum
        self.linear = nn.Linear(dim, len(self.labels))
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.zeros(num_layers, 1, dim))
        self.register_buffer("deviation", torch.ones(num_layers, 1, dim))
        if mix is not None:
            # The penalty is on W alone, which would escape it by a larger γ.
            mix.gamma.requires_grad_(False)

    def scores(self, examples: Sequence[TextT], read: Read) -> Float[Tensor, "B K"]:
        """The scores of the labels of each text."""
        x = self._pooled(read([example.tokens for example in examples]))
        mix = self.embedding.input_mix
        scalars = self.mean.new_zeros(1) if mix is None else mix.scalars
        weights = _Weights(self.linear.weight, self.linear.bias, scalars)
        return weights.scores((x - self.mean) / self.deviation)

    @torch.no_grad()
    def fit(self, examples: Sequence[TextT], read: Read, seed: int) -> float:
        """Fit the mix and the regression to all texts; the mean loss, without the penalties.

        Args:
            examples: The training texts.
            read: Sentences → what the head pools.
            seed: Says which texts the cross-validation holds out together.
        """
        x = self._all_pooled(examples, read)
        self.mean.copy_(x.mean(dim=1, keepdim=True))
        deviation = x.std(dim=1, keepdim=True, correction=0)
        self.deviation.copy_(torch.where(deviation > 0, deviation, 1.0))
        x.sub_(self.mean).div_(self.deviation)
        y = torch.tensor([self._ids[example.label] for example in examples], device=x.device)
        regression = _Regression(len(self.labels), self.embedding.l2)
        l2 = self.l2
        if l2 is None:
            l2 = regression.choose(x, y, fold_numbers(y.cpu().numpy(), seed))
            log.info("seed %d: l2=%.3g, chosen by cross-validation", seed, l2)
        weights = regression.fit(x, y, l2)
        self.linear.weight.copy_(weights.matrix)
        self.linear.bias.copy_(weights.bias)
        if (mix := self.embedding.input_mix) is not None:
            mix.scalars.copy_(weights.scalars)
        loss = nn.functional.cross_entropy(weights.scores(x), y).item()
        if not math.isfinite(loss):
            raise ConfigError(f"seed {seed}: the loss is {loss}; the vectors are not finite")
        return loss

    def _all_pooled(self, examples: Sequence[TextT], read: Read) -> Float[Tensor, "L N D"]:
        """The pooled layers of all texts, texts of about one length being read together."""
        order = sorted(range(len(examples)), key=lambda i: len(examples[i].tokens))
        found = self.mean.new_empty(len(self.mean), len(examples), self.mean.shape[-1])
        for start in range(0, len(order), _POOLED_AT_ONCE):
            rows = order[start : start + _POOLED_AT_ONCE]
            found[:, rows] = self._pooled(read([examples[i].tokens for i in rows]))
        return found

    def _pooled(self, batch: TokenBatch) -> Float[Tensor, "L B D"]:
        """The mean and the maximum of [x_k; h_kj] over the tokens, for each layer j."""
        parts = []
        if self.embedding.table is not None:
            # The same in every layer, and so in every mix of them: the weights sum to one.
            parts.append(self.embedding.table(batch.words).expand(len(self.mean), -1, -1, -1))
        if batch.layers is not None:
            parts.append(batch.layers)
        x, mask = torch.cat(parts, dim=-1), batch.mask[..., None]
        mean = (x * mask).sum(dim=2) / mask.sum(dim=1)
        return torch.cat([mean, x.masked_fill(~mask, -torch.inf).amax(dim=2)], dim=-1)


def fold_numbers(y: np.ndarray, seed: int) -> np.ndarray:
    """The fold of each text, drawn at random, with all labels as evenly spread as can be."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    folds = np.empty(len(y), dtype=np.int64)
    folds[order] = np.arange(len(y)) % min(NUM_FOLDS, len(y))
    return folds


class _Weights(NamedTuple):
    """What is learned: W, b and the s of the mix."""

    matrix: Float[Tensor, "K D"]
    bias: Float[Tensor, " K"]
    scalars: Float[Tensor, " L"]

    def scores(self, x: Float[Tensor, "L N D"]) -> Float[Tensor, "N K"]:
        mixed = torch.tensordot(self.scalars.softmax(dim=0), x, dims=1)
        return nn.functional.linear(mixed, self.matrix, self.bias)


class _Regression:
    """Logistic regression on a mix of layers, whose s has the penalty `mix_l2` ‖s‖²."""

    def __init__(self, num_labels: int, mix_l2: float) -> None:
        self.num_labels, self.mix_l2 = num_labels, mix_l2

    def fit(
        self, x: Float[Tensor, "L N D"], y: Int[Tensor, " N"], l2: float,
        start: _Weights | None = None,
    ) -> _Weights:  # fmt: skip
        """The weights of the least loss, from `start` or zero on."""
        layers, _, dim = x.shape
        if start is None:
            shapes = ((self.num_labels, dim), (self.num_labels,), (layers,))
            start = _Weights(*map(x.new_zeros, shapes))
        weights = _Weights(*(part.clone().requires_grad_() for part in start))
        optimizer = torch.optim.LBFGS(
            weights, max_iter=_MAX_STEPS, tolerance_grad=1e-4, tolerance_change=1e-6,
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def loss() -> Tensor:
            optimizer.zero_grad()
            total: Tensor = nn.functional.cross_entropy(weights.scores(x), y)
            total = total + l2 / 2 * weights.matrix.square().sum()
            total = total + self.mix_l2 * weights.scalars.square().sum()
            total.backward()  # type: ignore[no-untyped-call]
            return total

        with torch.enable_grad():
            optimizer.step(loss)  # type: ignore[no-untyped-call]
        return _Weights(*(part.detach() for part in weights))

    def choose(self, x: Float[Tensor, "L N D"], y: Int[Tensor, " N"], folds: np.ndarray) -> float:
        """The penalty with the least loss on what is held out, fold by fold.

        Each fit starts from that of the penalty before, and the first one that makes the loss
        larger is the last: weaker ones fit the texts still more closely.
        """
        numbers = torch.from_numpy(folds).to(x.device)
        parts = [(numbers != k, numbers == k) for k in range(int(folds.max()) + 1)]
        data = [(x[:, learned], y[learned], x[:, held], y[held]) for learned, held in parts]
        weights: list[_Weights | None] = [None] * len(data)
        best, chosen = math.inf, STRENGTHS[0]
        for l2 in STRENGTHS:
            total = 0.0
            for k, (learned_x, learned_y, held_x, held_y) in enumerate(data):
                fitted = weights[k] = self.fit(learned_x, learned_y, l2, weights[k])
                scores = fitted.scores(held_x)
                total += nn.functional.cross_entropy(scores, held_y, reduction="sum").item()
            if not total < best:
                break
            best, chosen = total, l2
        return chosen
