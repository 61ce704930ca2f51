"""Word in context: a cosine and a threshold learned on training pairs."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_refused

from elmokit import Elmo
from elmokit.probes import read_wic, wic_probe
from elmokit.probes.wic import best_threshold

HEADER = "word\tsentence1\tsentence2\tsame\n"


def write(path: Path, *rows: str) -> Path:
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=20))
def test_no_threshold_is_better(pairs: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in pairs], np.float64)
    answers = np.array([answer for _, answer in pairs])
    found = ((values >= best_threshold(values, answers)) == answers).sum()
    assert found == max(((values >= cut - 0.5) == answers).sum() for cut in range(12))


def test_same_contexts_are_the_same_sense(tiny: Elmo, tmp_path: Path) -> None:
    same = "bank\tthe river [bank] was wet\tthe river [bank] was wet\ttrue"
    other = "bank\tthe river [bank] was wet\tmy [bank] lends me a lot of money\tfalse"
    train = read_wic(write(tmp_path / "a.tsv", *[same, other] * 3))
    result = wic_probe(tiny, train, train[:3])
    assert result.accuracy["1"] == result.accuracy["2"] == 1 and result.majority == 2 / 3
    assert result.accuracy["0"] == result.majority, "without context all pairs are alike"
    assert result.num_train == 6 and result.num_dev == 3
    assert str(result).splitlines()[2].split()[:2] == ["1", "100.0"]


def test_a_word_that_is_marked_twice_counts_once(tmp_path: Path) -> None:
    (pair,) = read_wic(write(tmp_path / "a.tsv", "단\t바짓[단]이 뜯어져 [단]이\t[단]\tTRUE"))
    assert pair.first.text == "바짓단이 뜯어져 단이" and (pair.first.start, pair.first.end) == (
        2,
        3,
    )
    assert pair.is_same


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a\t[a]\t[a]", "expected 4 columns"),
        ("a\t[a]\t[a]\tmaybe", "same='maybe'"),
        ("a\ta\t[a]\ttrue", "one word in brackets"),
    ],
)
def test_ill_formed_rows_are_named(row: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\t[a]\t[a]\ttrue", row)
    assert_refused(lambda: read_wic(path), f"{path}, line 3", message)


def test_files_without_pairs_are_refused(tmp_path: Path) -> None:
    assert_refused(lambda: read_wic(write(tmp_path / "a.tsv")), "is empty")
    (tmp_path / "b.tsv").write_text("x\n")
    assert_refused(lambda: read_wic(tmp_path / "b.tsv"), "line 1: expected the columns word")
