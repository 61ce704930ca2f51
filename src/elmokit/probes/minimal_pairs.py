"""Minimal pairs: does the language model prefer the acceptable of two sentences?

The two differ in as little as possible (BLiMP, Warstadt et al. 2020). A pair is right if the
acceptable sentence is likelier: to the forward language model, to the backward one, or to both
together, by the sum of their log probabilities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FormatError, InputError
from ..model import Elmo
from ..tables import format_table, percent
from ..tasks.parts.lines import json_lines

ALL = "all"
COLUMNS = ("forward", "backward", "both")
TIE = 1e-4
"""Log probabilities that differ by less are equal, as those of a pair of unknown words may be."""


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """An acceptable sentence, an unacceptable one, and what distinguishes them."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str


@dataclass(frozen=True, slots=True)
class MinimalPairResult:
    """Share of pairs whose acceptable sentence is likelier; a tie counts half.

    Attributes:
        by_phenomenon: Shares by phenomenon and `all`, then by `forward`, `backward`, `both`.
        by_paradigm: The same by paradigm.
        num_pairs: By phenomenon and `all`.
        num_unknown: Pairs in which a sentence has a word outside of the vocabulary.
    """

    by_phenomenon: dict[str, dict[str, float]]
    by_paradigm: dict[str, dict[str, float]]
    num_pairs: dict[str, int]
    num_unknown: int

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "phenomenon": self.by_phenomenon,
            "paradigm": self.by_paradigm,
            "pairs": self.num_pairs,
            "pairs_with_unknown_words": self.num_unknown,
        }

    def __str__(self) -> str:
        rows = [
            [name, f"{self.num_pairs[name]:,}", *(percent(found[c]) for c in COLUMNS)]
            for name, found in self.by_phenomenon.items()
        ]
        unknown = self.num_unknown / self.num_pairs[ALL]
        return (
            f"{format_table(['phenomenon', 'pairs', *COLUMNS], rows)}\n"
            f"share of pairs whose acceptable sentence is likelier; {unknown:.1%} of the pairs "
            "have a word outside of the vocabulary"
        )


def read_minimal_pairs(path: Path | str) -> list[MinimalPair]:
    """JSON lines with `good` and `bad`, and perhaps `paradigm` and `phenomenon`."""
    pairs = []
    for where, row in json_lines(path):
        for name in ("good", "bad"):
            if not isinstance(row.get(name), str) or not row[name].strip():
                raise FormatError(f"{where}: expected a sentence as {name}")
        kinds = [row.get(name, "pairs") for name in ("paradigm", "phenomenon")]
        if not all(isinstance(kind, str) and kind != ALL for kind in kinds):
            raise FormatError(f"{where}: expected names as paradigm and phenomenon")
        pairs.append(MinimalPair(row["good"], row["bad"], *kinds))
    return pairs


def minimal_pairs_probe(elmo: Elmo, pairs: Sequence[MinimalPair]) -> MinimalPairResult:
    """How often the model finds the acceptable sentence likelier; it needs its softmax."""
    if not pairs:
        raise InputError("expected pairs of sentences")
    scores = list(elmo.score_stream(text for pair in pairs for text in (pair.good, pair.bad)))
    scored = list(zip(scores[0::2], scores[1::2], strict=True))
    points = []
    for good, bad in scored:
        differences = {
            "forward": good.forward - bad.forward,
            "backward": good.backward - bad.backward,
        }
        differences["both"] = sum(differences.values())
        points.append({name: _point(value) for name, value in differences.items()})
    phenomena = [pair.phenomenon for pair in pairs]
    return MinimalPairResult(
        by_phenomenon=_group_means(points, phenomena) | _group_means(points, [ALL] * len(pairs)),
        by_paradigm=_group_means(points, [pair.paradigm for pair in pairs]),
        num_pairs={name: phenomena.count(name) for name in dict.fromkeys(phenomena)}
        | {ALL: len(pairs)},
        num_unknown=sum(good.num_unknown + bad.num_unknown > 0 for good, bad in scored),
    )


def _point(difference: float) -> float:
    return 0.5 if abs(difference) < TIE else float(difference > 0)


def _group_means(
    points: Sequence[dict[str, float]], groups: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The mean points of each group, in the order in which groups occur."""
    members: dict[str, list[dict[str, float]]] = {}
    for point, group in zip(points, groups, strict=True):
        members.setdefault(group, []).append(point)
    return {
        group: {name: sum(p[name] for p in found) / len(found) for name in COLUMNS}
        for group, found in members.items()
    }
