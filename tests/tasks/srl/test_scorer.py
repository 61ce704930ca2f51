"""The argument scorer, against cases that are worked by hand with the rules of CoNLL-2005."""

from typing import Any

import pytest
from strategies import assert_refused

from elmokit.tasks.srl import Argument, argument_scores, arguments


def tags(text: str) -> list[str]:
    """Tags of labels: `A0 A0+ V - A1` has a span A0 of two tokens, and one token without a tag."""
    parts = text.split()
    return [
        "O" if part == "-" else f"I-{part[:-1]}" if part.endswith("+") else f"B-{part}"
        for part in parts
    ]


def counts(gold: str, predicted: str) -> tuple[int, int, int]:
    """How many arguments are right, were predicted, and are there."""
    scores = argument_scores([tags(gold)], [tags(predicted)])
    right = round(scores["recall"] * scores["support"])
    said = round(right / scores["precision"]) if right else None
    for label_scores in scores["labels"].values():
        assert label_scores["support"] <= scores["support"]
    if said is None:
        said = len([a for a in arguments(tags(predicted)) if a.label != "V"])
    return right, said, scores["support"]


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        # All right; V is not counted.
        ("A0 V A1 A1+", "A0 V A1 A1+", (2, 2, 2)),
        # A wrong V does no harm.
        ("A0 V A1", "A0 - A1", (2, 2, 2)),
        ("A0 V A1", "A0 V V+", (1, 1, 2)),
        # A wrong label, a wrong end, a missing and an invented argument.
        ("A0 V A1 -", "A1 V A1 -", (1, 2, 2)),
        ("A0 V A1 A1+", "A0 V A1 -", (1, 2, 2)),
        ("A0 V A1 TMP", "A0 V - -", (1, 1, 3)),
        ("- V A1 -", "A0 V A1 TMP", (1, 3, 1)),
        # Two neighbours of one label are not one argument.
        ("V TMP TMP", "V TMP TMP+", (0, 1, 2)),
        # An argument in two pieces is one, right as a whole.
        ("A1 V C-A1 C-A1+", "A1 V C-A1 C-A1+", (1, 1, 1)),
        ("A1 V C-A1 C-A1+", "A1 V C-A1 -", (0, 1, 1)),
        ("A1 V C-A1 -", "A1 V - -", (0, 1, 1)),
        # The pieces right, but not their being one.
        ("A1 V C-A1", "A1 V A1", (0, 2, 1)),
        # Pieces side by side are not the whole of the same extent.
        ("V A1 A1+", "V A1 C-A1", (0, 1, 1)),
        # A piece belongs to the last argument of its label.
        ("A1 A1 V C-A1", "A1 A1 V C-A1", (2, 2, 2)),
        ("A1 A1 V C-A1", "A1 - V C-A1", (0, 1, 2)),
        # Three pieces.
        ("A1 V C-A1 - C-A1", "A1 V C-A1 - C-A1", (1, 1, 1)),
        # A piece before its argument, or without one, is an argument itself.
        ("A1 V -", "C-A1 V -", (1, 1, 1)),
        ("C-A1 V A1", "A1 V A1", (2, 2, 2)),
        # References are arguments of their own, and are continued under their own label.
        ("A0 R-A0 V", "A0 A0 V", (1, 2, 2)),
        ("A0 R-A0 V C-R-A0", "A0 R-A0 V -", (1, 2, 2)),
        ("A0 R-A0 V C-A0", "A0 R-A0 V C-A0", (2, 2, 2)),
        # A particle is a part of V, which is not counted.
        ("A0 V A1 C-V", "A0 V A1 -", (2, 2, 2)),
        ("A0 V A1 -", "A0 V A1 C-V", (2, 2, 2)),
    ],
)
def test_worked_cases(gold: str, predicted: str, expected: tuple[int, int, int]) -> None:
    assert counts(gold, predicted) == expected


def test_pieces_are_joined_in_order() -> None:
    assert arguments(tags("A1 A1+ A0 V C-A1 - C-A1 C-V")) == [
        Argument("A1", ((0, 2), (4, 5), (6, 7))),
        Argument("A0", ((2, 3),)),
        Argument("V", ((3, 4), (7, 8))),
    ]


def test_frames_are_counted_together() -> None:
    gold = [tags("A0 V A1"), tags("V A1 -"), tags("V - TMP")]
    predicted = [tags("A0 V A1"), tags("V A1 A1+"), tags("V - -")]
    scores = argument_scores(gold, predicted)
    half = {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    assert scores.pop("labels") == {
        "A0": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1},
        "A1": half,
        "TMP": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1},
    }
    expected: dict[str, Any] = {"precision": 2 / 3, "recall": 0.5, "support": 4, "perfect": 1 / 3}
    f1 = scores.pop("f1")
    assert scores == pytest.approx(expected) and f1 == pytest.approx(2 * 2 / (3 + 4))


def test_nothing_found_and_nothing_there() -> None:
    scores = argument_scores([tags("V -")], [tags("V -")])
    assert (scores["f1"], scores["support"], scores["perfect"]) == (0.0, 0, 1.0)


def test_what_does_not_fit_is_refused() -> None:
    assert_refused(lambda: argument_scores([["O"]], []), "1 frames", "0 are predicted")
    assert_refused(lambda: argument_scores([["O"]], [["O", "O"]]), "2 tags", "of 1")
    assert_refused(lambda: argument_scores([], []), "no frames")
