"""Sentence similarity: correlations as scipy has them, and the layers that are compared."""

import json
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_refused

from elmokit import Elmo
from elmokit.errors import MissingExtra
from elmokit.probes import similarity_probe
from elmokit.probes.similarity import correlation
from elmokit.tasks.parts.lines import ScoredPair

TEXTS = ["a dog runs", "the cat sees a tree", "rain", "no one is here now", "a dog runs fast"]


def pairs_scored_by(elmo: Elmo, layer: Any, pooling: Any = "mean") -> list[ScoredPair]:
    """Pairs whose gold score is the cosine of a layer, so that it must correlate perfectly."""
    texts = [(a, b) for a in TEXTS for b in TEXTS if a < b]
    scores = [
        float(elmo.similarity(*(elmo.encode(t, layers=layer, pooling=pooling) for t in pair))[0, 0])
        for pair in texts
    ]
    return [
        ScoredPair(tuple(a.split()), tuple(b.split()), score)
        for (a, b), score in zip(texts, scores, strict=True)
    ]


@pytest.mark.parametrize("layer", [0, 1, 2, "average"])
@pytest.mark.parametrize("pooling", ["mean", "max", ["first", "last"]])
def test_layer_that_made_the_scores_is_perfect(tiny: Elmo, layer: Any, pooling: Any) -> None:
    result = similarity_probe(tiny, pairs_scored_by(tiny, layer, pooling), pooling=pooling)
    assert list(result.pearson) == ["0", "1", "2", "average"]
    assert result.pearson[str(layer)] == pytest.approx(1, abs=1e-4)
    assert [name for name, r in result.pearson.items() if r and r > 0.9999] == [str(layer)]


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=30))
def test_correlations_are_those_of_scipy(points: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = (np.array(column, np.float64) for column in zip(*points, strict=True))
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert correlation(a, b) is None
    else:
        found = correlation(a, b)
        assert found is not None
        assert found["pearson"] == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-9)
        assert found["spearman"] == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-9)


def test_values_that_are_nearly_equal_have_a_correlation_without_a_warning() -> None:
    values = 1 + np.array([0, 1, 2]) * np.finfo(np.float64).eps
    found = correlation(values, np.array([1.0, 2.0, 4.0]))
    assert found is not None and found["spearman"] == pytest.approx(1)


def test_missing_scipy_is_named(tiny: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtra, match=r"scipy.*elmokit\[tasks\]"):
        similarity_probe(tiny, pairs_scored_by(tiny, 1))


def test_equal_scores_have_no_correlation(tiny: Elmo) -> None:
    pairs = [ScoredPair(("a",), ("b",), 3.0), ScoredPair(("c",), ("d",), 3.0)]
    result = similarity_probe(tiny, pairs)
    assert set(result.spearman.values()) == {None}
    assert json.loads(json.dumps(result.to_dict()))["pearson"]["0"] is None
    assert str(result).splitlines()[1].split() == ["0", "-", "-"]


def test_bad_pairs_are_refused(tiny: Elmo) -> None:
    pair = ScoredPair(("a",), ("b",), 3.0)
    assert_refused(lambda: similarity_probe(tiny, [pair]), "1 pairs")
    empty = ScoredPair(("a",), (), 3.0)
    assert_refused(lambda: similarity_probe(tiny, [pair, empty]), "pair 2")
    assert_refused(lambda: similarity_probe(tiny, [pair, pair], pooling="sum"), "pooling='sum'")  # type: ignore[arg-type]
