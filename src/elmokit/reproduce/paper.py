"""What the paper reports (Peters et al. 2018), as data: percentages, by the number of its table.

All of it was measured on other data and with another biLM than a run here has.
"""

from typing import NamedTuple

from .layout import data_set

PAPER = "paper†"
OTHER = (
    "† Other data, other biLM (94M parameters, a billion words of training), other sizes of most "
    "task models"
)
"""How every figure of the paper is marked where it stands beside ours."""


class Main(NamedTuple):
    """A row of Table 1: a task with and without ELMo, on its test data."""

    title: str
    data: str
    metric: str
    baseline: float
    elmo: float
    deviation: float | None = None
    """Of `elmo`, over five seeds, where the paper gives it."""


TABLE1 = {
    "squad": Main("SQuAD", "SQuAD 1.1", "F1", 81.1, 85.8),
    "snli": Main("SNLI", "SNLI", "accuracy", 88.0, 88.7, 0.17),
    "srl": Main("SRL", "OntoNotes 5", "F1", 81.4, 84.6),
    "coref": Main("Coref", "OntoNotes 5", "average F1", 67.2, 70.4),
    "ner": Main("NER", "CoNLL 2003", "F1", 90.15, 92.22, 0.10),
    "sentiment": Main("SST-5", "SST-5", "accuracy", 51.4, 54.7, 0.5),
}
"""By the name of our task, in the paper's order."""

TABLE2 = {
    "squad": (80.8, 84.7, 85.0, 85.2),
    "snli": (88.1, 89.1, 89.3, 89.5),
    "srl": (81.6, 84.1, 84.6, 84.8),
}
"""Development data: baseline, last layer only, all layers with λ = 1, with λ = 0.001."""

TABLE3 = {
    "squad": (85.1, 85.6, 84.8),
    "snli": (88.9, 89.5, 88.7),
    "srl": (84.7, 84.3, 80.9),
}
"""Development data: ELMo at the input only, at both, at the output only."""

TABLE5_DATA = "five all-words test sets, SemCor 3.0"
TABLE5 = {"first sense": 65.9, "1": 67.4, "2": 69.0}
"""F1 of word senses: WordNet's first sense, and the layers of the biLM by their numbers."""
TABLE5_OTHERS = {
    "CoVe, first layer": 59.4,
    "CoVe, second layer": 64.7,
    "Iacobacci et al. 2016": 70.1,
}

TABLE6_DATA = "Penn Treebank"
TABLE6 = {"1": 97.3, "2": 96.8}
"""Accuracy of part-of-speech tags, by layer."""
TABLE6_OTHERS = {
    "CoVe, first layer": 93.3,
    "CoVe, second layer": 92.8,
    "Ling et al. 2015": 97.8,
}

FIGURE1 = (
    "In the paper (SNLI and SRL, 0.1 % to 100 % of the training data), ELMo helps most where there "
    "are few data: SRL with ELMo and 1 % of them is about as good as the baseline with 10 %."
)
FIGURE2 = (
    "In the paper, the mix at the input favours the first LSTM layer, most of all for coreference "
    "and SQuAD; the weights at the output are nearly equal."
)


def title_of(task: str) -> str:
    """What the paper calls a task, or what other data are called."""
    return TABLE1[task].title if task in TABLE1 else data_set(task).title


def score_name(metric: str) -> str:
    """A score as the paper writes it."""
    return {"f1": "F1", "em": "EM"}.get(metric, metric.replace("_", " "))


def error_reduction(before: float, after: float) -> float:
    """The share of the errors that is gone: (after - before) / (100 - before), in percent.

    >>> round(error_reduction(90.15, 92.22), 1)
    21.0
    """
    return 100 * (after - before) / (100 - before) if before < 100 else 0.0
