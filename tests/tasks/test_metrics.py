"""The scores, against cases that are worked by hand."""

import sys

import numpy as np
import pytest

from elmokit.errors import InputError, MissingExtra
from elmokit.tasks.parts.metrics import accuracy, confusion, correlations, macro_f1, span_scores
from elmokit.tasks.parts.tags import spans


def test_spans_are_right_only_as_a_whole() -> None:
    gold = ["B-PER", "I-PER", "O", "B-LOC", "O", "B-ORG", "I-ORG"]
    predicted = ["B-PER", "I-PER", "O", "B-ORG", "O", "B-ORG", "O"]
    scores = span_scores([gold], [predicted])
    # One of three spans is right: one has another label, one another end.
    assert scores["precision"] == scores["recall"] == scores["f1"] == pytest.approx(1 / 3)
    assert scores["support"] == 3
    assert scores["labels"]["PER"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}
    assert scores["labels"]["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}
    assert scores["labels"]["ORG"]["support"] == 1 and scores["labels"]["ORG"]["f1"] == 0


def test_overall_scores_count_spans_not_labels() -> None:
    gold = [["B-PER", "B-PER", "B-PER", "B-LOC"]]
    predicted = [["B-PER", "B-PER", "B-PER", "O"]]
    scores = span_scores(gold, predicted)
    assert (scores["precision"], scores["recall"]) == (1, 0.75)
    assert scores["f1"] == pytest.approx(2 * 0.75 / 1.75)


# Predicted tags that the CoNLL-2000 script (conlleval) reads as the spans beside them.
CONLLEVAL = [
    (["I-PER", "I-PER", "O"], ["B-PER", "I-PER", "O"]),  # I- after O begins a span
    (["B-PER", "I-LOC", "O"], ["B-PER", "B-LOC", "O"]),  # I- of another label begins one
    (["B-PER", "B-PER", "O"], ["B-PER", "B-PER", "O"]),  # B- always begins one
    (["I-PER", "B-PER", "I-PER"], ["B-PER", "B-PER", "I-PER"]),
    (["I-a-b", "I-a-b", "I-c-b"], ["B-a-b", "I-a-b", "B-c-b"]),  # hyphens in labels
]


@pytest.mark.parametrize(("odd", "meant"), CONLLEVAL)
def test_odd_tags_are_read_as_the_conll_script_reads_them(odd: list[str], meant: list[str]) -> None:
    assert span_scores([meant], [odd])["f1"] == 1
    assert spans(odd) == spans(meant)
    assert span_scores([meant], [["O"] * 3])["support"] == len(spans(meant))


def test_spans_do_not_run_over_the_end_of_a_sentence() -> None:
    scores = span_scores([["O", "B-PER"], ["B-PER", "O"]], [["O", "B-PER"], ["I-PER", "O"]])
    assert (scores["f1"], scores["support"]) == (1, 2)


def test_wrong_label_and_boundary_cases_agree_with_a_count_of_spans() -> None:
    random = np.random.default_rng(0)
    tags = ["O", "B-A", "I-A", "B-B", "I-B"]
    gold, predicted = (
        [[tags[i] for i in random.integers(5, size=8)] for _ in range(50)] for _ in range(2)
    )
    pairs = list(zip(gold, predicted, strict=True))
    right = sum(len(set(spans(g)) & set(spans(p))) for g, p in pairs)
    scores = span_scores(gold, predicted)
    assert right > 0
    assert scores["precision"] == pytest.approx(right / sum(len(spans(p)) for p in predicted))
    assert scores["recall"] == pytest.approx(right / sum(len(spans(g)) for g in gold))
    for label in "AB":
        gold_spans = [s for g in gold for s in spans(g) if s[0] == label]
        assert scores["labels"][label]["support"] == len(gold_spans)


def test_sentences_without_spans_score_zero_without_a_warning() -> None:
    scores = span_scores([["O", "O"]], [["O", "O"]])
    assert scores == {"precision": 0, "recall": 0, "f1": 0, "support": 0, "labels": {}}
    assert span_scores([["O"]], [["B-X"]])["labels"]["X"]["precision"] == 0


def test_classes() -> None:
    gold, predicted = ["a", "a", "a", "b"], ["a", "a", "b", "c"]
    assert accuracy(gold, predicted) == 0.5
    # F1 of a: 2·2/(3+2) = 0.8; b and c: 0.
    assert macro_f1(gold, predicted) == pytest.approx(0.8 / 3)
    labels, counts = confusion(gold, predicted)
    assert labels == ["a", "b", "c"]
    assert counts.tolist() == [[2, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_correlations() -> None:
    # x: deviations -1.5 -0.5 0.5 1.5, y: -3.75 -2.75 -0.75 7.25 → 17.5 / sqrt(5 · 74.75).
    scores = correlations([1, 2, 3, 4], [1, 2, 4, 12])
    assert scores["pearson"] == pytest.approx(17.5 / np.sqrt(5 * 74.75))
    assert scores["spearman"] == pytest.approx(1)
    assert correlations([1, 2, 3], [3, 2, 1]) == pytest.approx({"pearson": -1, "spearman": -1})
    # Equal scores share the mean of their ranks: 1 2.5 2.5 4 against 1 2 3 4.
    tied = correlations([1, 2, 2, 3], [1, 2, 3, 4])["spearman"]
    assert tied == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert correlations([1, 2, 3], [5, 5, 5]) == {"pearson": 0, "spearman": 0}


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match=r"2 labels.*1 are predicted"):
        accuracy(["a", "b"], ["a"])
    with pytest.raises(InputError, match=r"sentence 1: 1 tags.*of 2"):
        span_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(InputError, match="no sentences"):
        span_scores([], [])
    with pytest.raises(InputError, match="two pairs"):
        correlations([1], [1])
    with pytest.raises(InputError, match="finite"):
        correlations([1, 2], [1, float("nan")])


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("seqeval.metrics.sequence_labeling", "sklearn", "scipy"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"seqeval.*elmokit\[tasks\]"):
        span_scores([["O"]], [["O"]])
    with pytest.raises(MissingExtra, match=r"scikit-learn.*elmokit\[tasks\]"):
        accuracy(["a"], ["a"])
    with pytest.raises(MissingExtra, match=r"elmokit\[tasks\]"):
        correlations([1, 2], [1, 2])
