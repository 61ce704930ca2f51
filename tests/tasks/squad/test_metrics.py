"""Exact match and F1 as the official scripts count them, on cases worked by hand."""

import pytest

from elmokit.tasks.squad.model import Rules
from elmokit.tasks.squad.task import answer_scores, exact_match, f1, normalised


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat,\n sat.", "cat sat"),
        ("an apple a day", "apple day"),
        ("Theatre and Athens", "theatre and athens"),
        ("U.S. $1,000", "us 1000"),
        ("a-b", "ab"),  # punctuation goes before articles do
        ("«L’été» — the Ω", "«l’été» — ω"),  # only ASCII is punctuation
        ("the", ""),
        ("", ""),
        ("서울, 한국", "서울 한국"),
    ],
)
def test_squad_normalisation(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("《춘향전》(1955)", "춘향전 1955"),
        ("‘A’ 그룹", "a 그룹"),
        ("the 서울", "the 서울"),
        ("1,000명.", "1000명"),
        ("〈별〉<달>", "별 달"),
        ("“큰따옴표”", "“큰따옴표”"),
    ],
)
def test_korquad_normalisation(text: str, expected: str) -> None:
    assert normalised(text, "korquad") == expected


@pytest.mark.parametrize(
    ("predicted", "gold", "rules", "expected"),
    [
        ("the black cat", "black cat", "squad", 1.0),
        ("black cat sat", "a cat", "squad", 0.5),  # 1 of 3, 1 of 1
        ("cat cat cat", "cat cat dog", "squad", 2 / 3),
        ("dog", "cat", "squad", 0.0),
        ("", "cat", "squad", 0.0),
        ("", "", "squad", 0.0),
        ("Été 1999", "été", "squad", 2 / 3),
        ("서울에서", "서울", "squad", 0.0),
        ("서울에서", "서울", "korquad", 2 / 3),  # 2 of 4, 2 of 2
        ("서 울", "서울", "korquad", 1.0),
        ("가나가", "가가다", "korquad", 2 / 3),
        ("1989년 2월", "1989년 2월 15일", "korquad", 14 / 17),  # 7 of 7, 7 of 10
    ],
)
def test_f1_by_hand(predicted: str, gold: str, rules: Rules, expected: float) -> None:
    assert f1(predicted, gold, rules) == pytest.approx(expected)


def test_exact_match_by_hand() -> None:
    assert exact_match("The U.S.", "us") == 1 and exact_match("US Navy", "us") == 0
    assert exact_match("the", "") == 1
    assert exact_match("서 울", "서울", "korquad") == 0
    assert exact_match("《서울》", "서울", "korquad") == 1
    assert exact_match("the 서울", "서울", "korquad") == 0


def test_the_best_gold_answer_counts() -> None:
    gold = [["Bob", "the baker Bob"], ["Rome"], ["서울"]]
    scores = answer_scores(gold, ["baker Bob", "in Rome", "서울은"], ["squad", "squad", "korquad"])
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 4 / 5) / 3)
    assert scores["exact_match"] == pytest.approx(1 / 3)
    assert answer_scores([], [], []) == {"f1": 0, "exact_match": 0}
    assert answer_scores([[]], ["x"], ["squad"]) == {"f1": 0, "exact_match": 0}
