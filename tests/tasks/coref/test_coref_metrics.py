"""MUC, B³ and CEAFφ4 against worked examples, definitions and what must hold in any case."""

import sys
from itertools import combinations, permutations
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from elmokit.errors import InputError, MissingExtra
from elmokit.tasks.coref import CorefConfig
from elmokit.tasks.coref.task import Clusters, coref_scores
from elmokit.tasks.registry import find_task
from elmokit.text.reader import Reader

# The example of Pradhan et al. (2014), section 3: h and i are no mentions of the key, e is missing.
KEY = ["abc", "defg"]
RESPONSE = ["ab", "cd", "fghi"]


def values(scores: dict[str, float]) -> tuple[float, float, float]:
    return scores["recall"], scores["precision"], scores["f1"]


def test_worked_example_of_the_scorer() -> None:
    scores = coref_scores([KEY], [RESPONSE])
    metrics = scores["metrics"]
    # MUC: the key has 2 + 3 links; abc falls into ab|c, defg into d|e|fg: 1 + 1 are found.
    # The response has 1 + 1 + 3; ab is whole, cd falls apart, fghi into fg|h|i: 1 + 0 + 1.
    assert values(metrics["muc"]) == pytest.approx((2 / 5, 2 / 5, 2 / 5))
    # B³: 1/7 (4/3 + 1/3 + 1/4 + 4/4) and 1/8 (4/2 + 1/2 + 1/2 + 4/4).
    recall = (4 / 3 + 1 / 3 + 1 / 4 + 4 / 4) / 7
    precision = (4 / 2 + 1 / 2 + 1 / 2 + 4 / 4) / 8
    f1 = 2 * recall * precision / (recall + precision)
    assert values(metrics["b3"]) == pytest.approx((recall, precision, f1))
    # CEAF: abc–ab have 4/5, defg–fghi 4/8; over two clusters and over three.
    assert values(metrics["ceaf"]) == pytest.approx((1.3 / 2, 1.3 / 3, 0.52))
    assert values(metrics["mentions"]) == pytest.approx((6 / 7, 6 / 8, 0.8))
    assert scores["f1"] == pytest.approx((0.4 + f1 + 0.52) / 3)
    # As the paper prints them, in percent.
    assert [round(100 * x, 2) for x in values(metrics["b3"])] == [41.67, 50.0, 45.45]
    assert [round(100 * x, 2) for x in values(metrics["ceaf"])] == [65.0, 43.33, 52.0]


def test_everything_in_one_cluster_and_everything_alone() -> None:
    key = ["ab", "cd", "e"]
    lumped = coref_scores([key], [["abcde"]])["metrics"]
    assert values(lumped["muc"])[:2] == pytest.approx((1, 2 / 4))
    assert values(lumped["b3"])[:2] == pytest.approx((1, (4 + 4 + 1) / 25))
    assert values(lumped["ceaf"])[:2] == pytest.approx((4 / 7 / 3, 4 / 7))
    apart = coref_scores([key], [list("abcde")])["metrics"]
    assert values(apart["muc"]) == (0, 0, 0)
    assert values(apart["b3"])[:2] == pytest.approx((3 / 5, 1))
    # Singletons count: e–e has 1, ab–a and cd–c have 2/3 each.
    assert values(apart["ceaf"])[:2] == pytest.approx((7 / 9, 7 / 15))


def test_documents_are_summed_before_the_division() -> None:
    keys: list[Clusters] = [["ab"], ["abcd"]]
    scores = coref_scores(keys, [["ab"], []])["metrics"]
    assert values(scores["muc"]) == pytest.approx((1 / 4, 1, 0.4))
    assert values(scores["b3"]) == pytest.approx((2 / 6, 1, 0.5))
    assert values(scores["ceaf"]) == pytest.approx((1 / 2, 1, 2 / 3))
    # The same mention in two documents is two mentions.
    both = coref_scores([["ab"], ["ac"]], [["ab"], ["ac"]])
    assert both["f1"] == 1


@st.composite
def partitions(draw: st.DrawFn) -> list[list[int]]:
    mentions = draw(st.lists(st.integers(0, 9), unique=True, max_size=9))
    places = [draw(st.integers(0, 4)) for _ in mentions]
    clusters = [[m for m, p in zip(mentions, places, strict=True) if p == k] for k in range(5)]
    return [cluster for cluster in clusters if cluster]


@given(partitions(), partitions())
def test_against_the_definitions(key: list[list[int]], response: list[list[int]]) -> None:
    scores = coref_scores([key], [response])["metrics"]
    b3 = [
        sum(len({*k} & {*r}) ** 2 / len(k) for k in one for r in other) / max(1, sum(map(len, one)))
        for one, other in ((key, response), (response, key))
    ]
    assert values(scores["b3"])[:2] == pytest.approx(b3)
    longer, shorter = (key, response) if len(key) >= len(response) else (response, key)
    best = max(
        sum(2 * len({*a} & {*b}) / (len(a) + len(b)) for a, b in zip(some, shorter, strict=True))
        for some in permutations(longer, len(shorter))
    )
    expected = best / max(1, len(key)), best / max(1, len(response))
    assert values(scores["ceaf"])[:2] == pytest.approx(expected)
    for (one, other), found in zip(
        ((key, response), (response, key)), values(scores["muc"]), strict=False
    ):
        assert found == pytest.approx(_muc_by_links(one, other))


def _muc_by_links(key: list[list[int]], response: list[list[int]]) -> float:
    """The links that remain of a key cluster: its mentions less the components they fall into."""
    right = total = 0
    for cluster in key:
        parts = [{m} for m in cluster]
        for a, b in combinations(cluster, 2):
            if any(a in r and b in r for r in response):
                joined = [p for p in parts if a in p or b in p]
                parts = [p for p in parts if p not in joined] + [set().union(*joined)]
        right += len(cluster) - len(parts)
        total += len(cluster) - 1
    return right / total if total else 0.0


@given(partitions(), partitions())
def test_exchanging_the_sides_exchanges_precision_and_recall(
    key: list[list[int]], response: list[list[int]]
) -> None:
    there, back = coref_scores([key], [response]), coref_scores([response], [key])
    assert there["f1"] == pytest.approx(back["f1"])
    for name, scores in there["metrics"].items():
        recall, precision, f1 = values(scores)
        assert (precision, recall, f1) == pytest.approx(values(back["metrics"][name]))
        assert min(recall, precision) >= 0 and max(recall, precision) <= 1 + 1e-12


@given(partitions())
def test_perfect_is_one(key: list[list[int]]) -> None:
    scores = coref_scores([key], [[list(reversed(c)) for c in reversed(key)]])["metrics"]
    has_links = any(len(cluster) > 1 for cluster in key)
    assert values(scores["muc"]) == pytest.approx((float(has_links),) * 3)
    for name in ("b3", "ceaf", "mentions"):
        assert values(scores[name]) == pytest.approx((float(bool(key)),) * 3)


def test_bad_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="2 documents are to be scored, 1"):
        coref_scores([KEY, KEY], [RESPONSE])
    with pytest.raises(InputError, match="no documents"):
        coref_scores([], [])
    with pytest.raises(InputError, match="'a' is in the clusters 2 times"):
        coref_scores([KEY], [["ab", "ac"]])
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingExtra, match="tasks"):
        coref_scores([KEY], [RESPONSE])
    # Before a training, not after its first epoch.
    with pytest.raises(MissingExtra, match="tasks"):
        find_task("coref").read(Path("gone"), CorefConfig(), Reader("regex"), is_training=True)
