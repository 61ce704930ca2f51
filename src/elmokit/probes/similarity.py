"""How well the cosine of pooled sentence vectors agrees with people's scores, layer by layer."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..layers import Pooling, normalise, poolers
from ..model import Elmo
from ..tables import format_table, percent
from ..tasks.parts.lines import ScoredPair
from ..tasks.parts.metrics import correlations
from .layers import layer_names, stream_layers, with_average

Scores: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SimilarityResult:
    """Correlations of cosine and gold score.

    Attributes:
        pearson: Pearson's r of each layer, `0`, `1`, …, `average`; None where all are equal.
        spearman: Spearman's ρ, likewise.
        pooling: How the tokens of a sentence became one vector.
        num_pairs: Pairs of sentences.
    """

    pearson: dict[str, float | None]
    spearman: dict[str, float | None]
    pooling: tuple[str, ...]
    num_pairs: int

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "pearson": self.pearson,
            "spearman": self.spearman,
            "pooling": list(self.pooling),
            "pairs": self.num_pairs,
        }

    def __str__(self) -> str:
        rows = [
            (name, *("-" if r is None else percent(r) for r in (pearson, self.spearman[name])))
            for name, pearson in self.pearson.items()
        ]
        return (
            f"{format_table(['layer', 'Pearson', 'Spearman'], rows)}\n"
            f"correlations x 100; {self.num_pairs:,} pairs, pooling {' + '.join(self.pooling)}"
        )


def similarity_probe(
    elmo: Elmo, pairs: Sequence[ScoredPair], *, pooling: Pooling | Sequence[Pooling] = "mean"
) -> SimilarityResult:
    """The correlation of each layer's cosines with the gold scores; nothing is trained.

    Args:
        elmo: The model.
        pairs: Sentences, two by two, with their scores.
        pooling: How a sentence becomes a vector, as in `Elmo.encode`.
    """
    pools = poolers(pooling)
    require_scipy()
    if len(pairs) < 2:
        raise InputError(f"{len(pairs)} pairs of sentences: a correlation takes two or more")
    for number, pair in enumerate(pairs, 1):
        if not pair.first or not pair.second:
            raise InputError(f"pair {number} has a sentence without words: nothing to compare")
    sentences = list(chain.from_iterable((pair.first, pair.second) for pair in pairs))
    # Pooled sentence by sentence: the vectors of all tokens are never in memory together.
    pooled = [
        np.concatenate([pool(layers) for pool in pools], axis=-1)
        for layers in map(with_average, stream_layers(elmo, sentences))
    ]
    vectors = normalise(np.stack(pooled, axis=1))  # layer, sentence, value
    cosines = (vectors[:, 0::2] * vectors[:, 1::2]).sum(axis=-1).astype(np.float64)
    gold = np.array([pair.score for pair in pairs], np.float64)
    found = {
        name: correlation(row, gold)
        for name, row in zip(layer_names(elmo.num_layers), cosines, strict=True)
    }
    return SimilarityResult(
        pearson={name: None if r is None else r["pearson"] for name, r in found.items()},
        spearman={name: None if r is None else r["spearman"] for name, r in found.items()},
        pooling=(pooling,) if isinstance(pooling, str) else tuple(pooling),
        num_pairs=len(pairs),
    )


def require_scipy() -> None:
    """Fail without SciPy before anything is embedded."""
    correlations([0, 1], [0, 1])


def correlation(cosines: Scores, gold: Scores) -> dict[str, float] | None:
    """`pearson` and `spearman` of two series; None if one of them never changes."""
    if np.ptp(cosines) == 0 or np.ptp(gold) == 0:
        return None
    with warnings.catch_warnings():
        # SciPy warns of values that are nearly equal, as the cosines of layer 0 can be.
        warnings.simplefilter("ignore", RuntimeWarning)
        return correlations(gold.tolist(), cosines.tolist())
