"""Word in context: is a word used in the same sense in two sentences?

Answered by the cosine of the word's two vectors and a threshold, which is learned on the training
pairs for each layer (Pilehvar and Camacho-Collados 2019).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, InputError, quoted
from ..files.read import read_lines
from ..layers import normalise
from ..model import Elmo
from ..tables import format_table, percent
from .layers import MarkedWord, layer_names, read_marked, word_vectors

HEADER = ("word", "sentence1", "sentence2", "same")
DIGITS = 5
"""Decimals of a cosine: more are rounding, which differs between machines."""

Values: TypeAlias = NDArray[np.float64]
Answers: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WordPair:
    """A word in two sentences, and whether it has the same sense there."""

    first: MarkedWord
    second: MarkedWord
    is_same: bool


@dataclass(frozen=True, slots=True)
class WicResult:
    """Accuracy by layer.

    Attributes:
        accuracy: Of the development pairs, by layer (`0`, `1`, …, `average`).
        train_accuracy: Of the training pairs, with the same threshold.
        threshold: The cosine from which a pair counts as the same sense.
        majority: Accuracy of the training pairs' more frequent answer.
        num_train: Training pairs.
        num_dev: Development pairs.
    """

    accuracy: dict[str, float]
    train_accuracy: dict[str, float]
    threshold: dict[str, float]
    majority: float
    num_train: int
    num_dev: int

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "accuracy": self.accuracy,
            "train_accuracy": self.train_accuracy,
            "threshold": self.threshold,
            "majority": self.majority,
            "train_pairs": self.num_train,
            "dev_pairs": self.num_dev,
        }

    def __str__(self) -> str:
        rows = [
            [name, percent(value), percent(self.train_accuracy[name]),
             f"{self.threshold[name]:.3f}"]
            for name, value in self.accuracy.items()
        ]  # fmt: skip
        rows.append(["majority", percent(self.majority), "", ""])
        return (
            f"{format_table(['layer', 'accuracy', 'train', 'threshold'], rows)}\n"
            f"{self.num_train:,} training pairs, {self.num_dev:,} to score; same sense if the "
            "cosine reaches the threshold"
        )


def read_wic(path: Path | str) -> list[WordPair]:
    """The rows of a TSV file: word, two sentences with the [word] marked, and same (true/false)."""
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        cells = line.split("\t")
        if number == 1:
            if tuple(cells) != HEADER:
                raise FormatError(f"{where}: expected the columns {', '.join(HEADER)}")
        elif line.strip():
            if len(cells) != len(HEADER):
                raise FormatError(f"{where}: expected {len(HEADER)} columns, found {len(cells)}")
            if (same := cells[3].strip().lower()) not in ("true", "false"):
                raise FormatError(f"{where}: same={quoted(cells[3])}: expected true or false")
            first, second = (read_marked(_once(cell), where) for cell in cells[1:3])
            pairs.append(WordPair(first, second, same == "true"))
    if not pairs:
        raise InputError(f"{path} is empty; expected pairs of sentences")
    return pairs


def _once(sentence: str) -> str:
    """The sentence with its first mark only: KoBEST marks a word that is there twice twice."""
    before, mark, after = sentence.partition("]")
    return before + mark + after.replace("[", "").replace("]", "")


def wic_probe(elmo: Elmo, train: Sequence[WordPair], dev: Sequence[WordPair]) -> WicResult:
    """How often the cosine of each layer tells whether a word has the same sense."""
    if not train or not dev:
        raise InputError("expected pairs to learn the threshold from, and pairs to score")
    names = layer_names(elmo.num_layers)
    cosines = [dict(zip(names, _cosines(elmo, pairs), strict=True)) for pairs in (train, dev)]
    answers = [np.array([pair.is_same for pair in pairs]) for pairs in (train, dev)]
    threshold = {name: best_threshold(cosines[0][name], answers[0]) for name in names}
    accuracies = [
        {name: float(((row[name] >= threshold[name]) == gold).mean()) for name in names}
        for row, gold in zip(cosines, answers, strict=True)
    ]
    usual = answers[0].mean() >= 0.5
    return WicResult(
        accuracy=accuracies[1],
        train_accuracy=accuracies[0],
        threshold=threshold,
        majority=float((answers[1] == usual).mean()),
        num_train=len(train),
        num_dev=len(dev),
    )


def best_threshold(values: Values, answers: Answers) -> float:
    """The value from which on `True` is the best answer: halfway to the value before it.

    Of equally good thresholds it is the lowest.
    """
    order = np.argsort(values, kind="stable")
    ranked, gold = values[order], answers[order].astype(int)
    # right[i]: correct answers if the i smallest values are False, and the others True.
    right = np.concatenate([[0], np.cumsum(1 - gold)]) + gold.sum()
    right = right - np.concatenate([[0], np.cumsum(gold)])
    is_cut = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])
    best = int(np.argmax(np.where(is_cut, right, -1)))
    if best == 0:
        return float(ranked[0])
    if best == len(ranked):
        return float(np.nextafter(ranked[-1], np.inf))
    return float((ranked[best - 1] + ranked[best]) / 2)


def _cosines(elmo: Elmo, pairs: Sequence[WordPair]) -> Values:
    """The cosine of each pair on each layer, (L + 1, pairs)."""
    words = [word for pair in pairs for word in (pair.first, pair.second)]
    vectors = normalise(np.stack(word_vectors(elmo, words), axis=1))  # layer, word, value
    cosines: Values = (vectors[:, 0::2] * vectors[:, 1::2]).sum(axis=-1).astype(np.float64)
    return cosines.round(DIGITS)
