"""The scores of the field, by the field's libraries: seqeval, scikit-learn and scipy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, MissingExtra


def span_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Precision, recall and F1 of the spans of BIO tags, as the CoNLL script counts them.

    A span is right if its label and both of its ends are. An I- that continues nothing begins a
    span. What would be 0/0 is 0.

    Returns:
        `precision`, `recall`, `f1` and `support` (spans in `gold`) of all spans together, and
        under `labels` the same of each label.
    """
    check_lengths(gold, predicted, "sentences")
    for i, (expected, found) in enumerate(zip(gold, predicted, strict=True)):
        if len(expected) != len(found):
            raise InputError(f"sentence {i}: {len(found)} tags are predicted of {len(expected)}")
    try:
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    except ImportError as e:
        raise MissingExtra("tasks", "seqeval") from e
    tags = [[list(sentence) for sentence in side] for side in (gold, predicted)]
    labels = sorted({tag[2:] for side in tags for sentence in side for tag in sentence} - {""})
    # Without a `mode`, seqeval follows the CoNLL script; its strict mode drops odd spans.
    overall = precision_recall_fscore_support(*tags, average="micro", zero_division=0)
    scores: dict[str, Any] = _as_scores(*overall)
    each = precision_recall_fscore_support(*tags, average=None, zero_division=0) if labels else ()
    scores["labels"] = {
        label: _as_scores(*values) for label, values in zip(labels, zip(*each), strict=True)
    }
    return scores


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """The fraction of labels that are right."""
    metrics = _scikit_learn(gold, predicted)
    return float(metrics.accuracy_score(list(gold), list(predicted)))


def macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """The mean over labels of their F1, so that rare labels count as much as frequent ones."""
    metrics = _scikit_learn(gold, predicted)
    score = metrics.f1_score(list(gold), list(predicted), average="macro", zero_division=0)
    return float(score)


def confusion(gold: Sequence[str], predicted: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The labels in order, and how often each (row) was taken for each (column)."""
    metrics = _scikit_learn(gold, predicted)
    labels = sorted({*gold, *predicted})
    return labels, metrics.confusion_matrix(list(gold), list(predicted), labels=labels)


def correlations(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """`pearson` and `spearman`, from -1 to 1; 0 where all numbers of a side are equal."""
    check_lengths(gold, predicted, "scores")
    if len(gold) < 2:
        raise InputError("a correlation needs two pairs of scores or more; got one")
    x, y = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("a score is not a finite number")
    try:
        from scipy import stats
    except ImportError as e:
        raise MissingExtra("tasks", "scipy") from e
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": float(stats.pearsonr(x, y).statistic),
        "spearman": float(stats.spearmanr(x, y).statistic),
    }


def precision_recall_f1(num_right: int, num_predicted: int, num_gold: int) -> dict[str, Any]:
    """The three, and `support`, from counts; what would be 0/0 is 0."""
    total = num_predicted + num_gold
    return {
        "precision": num_right / num_predicted if num_predicted else 0.0,
        "recall": num_right / num_gold if num_gold else 0.0,
        "f1": 2 * num_right / total if total else 0.0,
        "support": num_gold,
    }


def _as_scores(precision: Any, recall: Any, f1: Any, support: Any) -> dict[str, Any]:
    ratios = {"precision": float(precision), "recall": float(recall), "f1": float(f1)}
    return ratios | {"support": int(support)}


def require_libraries() -> None:
    """Refuse where a library is missing: before a training, not after its first epoch."""
    span_scores([["O"]], [["O"]])
    accuracy(["O"], ["O"])


def _scikit_learn(gold: Sequence[str], predicted: Sequence[str]) -> Any:
    """scikit-learn's metrics, after a check of what they are to compare."""
    check_lengths(gold, predicted, "labels")
    try:
        from sklearn import metrics
    except ImportError as e:
        raise MissingExtra("tasks", "scikit-learn") from e
    return metrics


def check_lengths(gold: Sequence[object], predicted: Sequence[object], what: str) -> None:
    """Refuse to score nothing, or predictions of another number."""
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} {what} are to be found, {len(predicted)} are predicted")
    if not gold:
        raise InputError(f"there are no {what} to score")
