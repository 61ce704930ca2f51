"""Scores of written text: BLEU and chrF by sacrebleu, ROUGE, and whether two systems differ.

All scores are from 0 to 100. ROUGE is F1, without a stemmer. `rouge-score` keeps nothing but a-z
and 0-9, so that Korean scores 0 there; here the tokenizer is an argument.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, InputError, import_extra, quoted
from ...text.tokenize import load_tokenizer
from .metrics import check_lengths

References: TypeAlias = Sequence[Sequence[str]]
"""One or more good texts for each example; the first is the original one."""
Split: TypeAlias = Callable[[str], list[str]]
"""From a text to the tokens that ROUGE compares."""
Row: TypeAlias = NDArray[np.float64]

ROUGE_TYPES = ("rouge1", "rouge2", "rougeL")
ROUGE_RULE = "F1, mean over examples, best reference per type, no stemmer"
NUM_SAMPLES = 1000
CONFIDENCE = 0.95

_WORD = re.compile(r"[^\W_]+")
_HANGUL = re.compile(r"[가-힣]")


def bleu(hypotheses: Sequence[str], references: References) -> dict[str, Any]:
    """`bleu` and `chrf` of a corpus, and the signatures with which sacrebleu makes them comparable.

    Example:
        >>> bleu(["Hola a todos."], [("Hola a todos.", "Buenas.")])["bleu"]  # doctest: +SKIP
        100.00000000000004
    """
    _check(hypotheses, references)
    sacrebleu = _sacrebleu()
    # sacrebleu wants a list per reference, with None where an example has fewer.
    width = max(map(len, references))
    columns = [[row[i] if i < len(row) else None for row in references] for i in range(width)]
    scores: dict[str, Any] = {}
    for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
        scores[name] = float(metric.corpus_score(list(hypotheses), columns).score)
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores


def rouge(hypotheses: Sequence[str], references: References, *, tokenizer: Split) -> dict[str, Any]:
    """ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004), each by the best reference of an example.

    Returns:
        `rouge1`, `rouge2`, `rougeL`; under `first` the same by the first reference alone; and
        `rule`, which says in words what was computed.
    """
    best, first = _rouge_rows(hypotheses, references, tokenizer)
    scores: dict[str, Any] = dict(zip(ROUGE_TYPES, best.mean(axis=0).tolist()))
    scores["first"] = dict(zip(ROUGE_TYPES, first.mean(axis=0).tolist()))
    return scores | {"rule": ROUGE_RULE}


def summary_scores(hypotheses: Sequence[str], references: References) -> dict[str, Any]:
    """ROUGE with the tokens that fit the language of the references.

    Texts with more words in Hangul than without are scored by Kiwi's morphemes and, under
    `syllables`, by characters; others by words. `tokens` says which.
    """
    _check(hypotheses, references)
    if not is_korean(text for row in references for text in row):
        return rouge(hypotheses, references, tokenizer=words) | {"tokens": "words"}
    scores = rouge(hypotheses, references, tokenizer=morphemes())
    by_syllable = rouge(hypotheses, references, tokenizer=syllables)
    return scores | {"tokens": "morphemes", "syllables": by_syllable}


def words(text: str) -> list[str]:
    """The lower-case words and numbers of a text; on ASCII, those of `rouge-score`.

    >>> words("Mañana, at 9:30 (GMT)")
    ['mañana', 'at', '9', '30', 'gmt']
    """
    return _WORD.findall(text.lower())


def syllables(text: str) -> list[str]:
    """The letters and digits of a text one by one: of Korean, its syllables.

    >>> syllables("내일 9시!")
    ['내', '일', '9', '시']
    """
    return [character for word in words(text) for character in word]


def morphemes() -> Split:
    """A tokenizer of Korean: Kiwi's morphemes, without punctuation."""
    kiwi = load_tokenizer("kiwi")

    def split(text: str) -> list[str]:
        return [token.lower() for token in kiwi.words(text) if _WORD.search(token)]

    return split


def is_korean(texts: Iterable[str]) -> bool:
    """Whether more words have Hangul in them than have none."""
    balance = 0
    for text in texts:
        for word in words(text):
            balance += 1 if _HANGUL.search(word) else -1
    return balance > 0


def are_in_training(references: References, training_targets: Iterable[str]) -> list[bool]:
    """Whether one of the references of each example is a target that training has seen."""
    known = set(training_targets)
    return [not known.isdisjoint(row) for row in references]


def apart(
    score: Callable[[Sequence[str], References], Mapping[str, Any]],
    hypotheses: Sequence[str],
    references: References,
    is_seen: Sequence[bool],
) -> dict[str, Any]:
    """Scores of the examples whose targets occur in training (`seen`) and of the others (`unseen`).

    Each side has its number of `examples`, and scores if there are any.
    """
    _check(hypotheses, references)
    check_lengths(references, is_seen, "examples")
    found = {}
    for name, side in (("seen", True), ("unseen", False)):
        chosen = [i for i, seen in enumerate(is_seen) if seen == side]
        scores: Mapping[str, Any] = {}
        if chosen:
            scores = score([hypotheses[i] for i in chosen], [references[i] for i in chosen])
        found[name] = {**scores, "examples": len(chosen)}
    return found


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the score of a corpus is made of: a row of numbers per example.

    The score of any choice of examples is that of the sum of their rows.
    """

    rows: NDArray[np.float64]
    score: Callable[[Row], float]


def bleu_statistics(hypotheses: Sequence[str], references: References) -> Statistics:
    """Matching and all n-grams (n = 1 to 4), and both lengths, of each example."""
    _check(hypotheses, references)
    sacrebleu = _sacrebleu()
    metric = sacrebleu.BLEU(effective_order=True)  # of single sentences; `score` has it off
    rows = []
    for hypothesis, row in zip(hypotheses, references, strict=True):
        found = metric.sentence_score(hypothesis, list(row))
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])

    def score(row: Row) -> float:
        *grams, length, reference_length = row.astype(np.int64).tolist()
        order = len(grams) // 2
        result = sacrebleu.BLEU.compute_bleu(
            grams[:order], grams[order:], length, reference_length, smooth_method="exp"
        )
        return float(result.score)

    return Statistics(np.array(rows, np.float64), score)


def rouge_statistics(
    hypotheses: Sequence[str], references: References, *, tokenizer: Split
) -> dict[str, Statistics]:
    """The score of each example, and 1, by ROUGE type; best reference per type."""
    best, _ = _rouge_rows(hypotheses, references, tokenizer)
    ones = np.ones(len(best))
    return {
        name: Statistics(np.stack([best[:, i], ones], axis=1), lambda row: float(row[0] / row[1]))
        for i, name in enumerate(ROUGE_TYPES)
    }


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better a system is than another, and the interval in which that lies."""

    score: float
    against: float
    difference: float
    low: float
    high: float
    num_groups: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(
    system: Statistics,
    against: Statistics,
    *,
    groups: Sequence[Hashable] | None = None,
    num_samples: int = NUM_SAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 1,
) -> Difference:
    """The difference of two systems on the same examples (Koehn 2004).

    The examples are drawn again and again, with replacement, and both systems are scored on what
    was drawn; the interval holds the middle differences.

    Args:
        system: Of the system in question.
        against: Of the other system, on the same examples in the same order.
        groups: Which examples belong together, such as paraphrases, and are drawn together.
        num_samples: How often to draw.
        confidence: The share of the differences that the interval holds.
        seed: Of the drawing.
    """
    check_lengths([*system.rows], [*against.rows], "examples")
    if num_samples < 1 or not 0 < confidence < 1:
        raise ConfigError(
            f"num_samples={num_samples}, confidence={confidence}: expected 1 or more, and a "
            "number between 0 and 1"
        )
    if groups is None:
        groups = range(len(system.rows))
    check_lengths([*system.rows], groups, "examples")
    sides = [_by_group(side.rows, groups) for side in (system, against)]
    number = len(sides[0])
    random = np.random.default_rng(seed)
    differences = np.empty(num_samples)
    for i in range(num_samples):
        counts = np.bincount(random.integers(number, size=number), minlength=number)
        differences[i] = system.score(counts @ sides[0]) - against.score(counts @ sides[1])
    tail = (1 - confidence) / 2
    low, high = np.quantile(differences, [tail, 1 - tail]).tolist()
    scores = system.score(sides[0].sum(axis=0)), against.score(sides[1].sum(axis=0))
    return Difference(*scores, scores[0] - scores[1], low, high, number)


def _by_group(rows: NDArray[np.float64], groups: Sequence[Hashable]) -> NDArray[np.float64]:
    """The sum of the rows of each group."""
    ids: dict[Hashable, int] = {}
    numbers = [ids.setdefault(group, len(ids)) for group in groups]
    sums = np.zeros((len(ids), rows.shape[1]))
    np.add.at(sums, numbers, rows)
    return sums


def _rouge_rows(
    hypotheses: Sequence[str], references: References, tokenizer: Split
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scores of each example by its best reference for each type, and by its first."""
    _check(hypotheses, references)
    best, first = [], []
    for hypothesis, row in zip(hypotheses, references, strict=True):
        found = tokenizer(hypothesis)
        scores = np.array([rouge_of_tokens(found, tokenizer(reference)) for reference in row])
        best.append(scores.max(axis=0))
        first.append(scores[0])
    return 100 * np.stack(best), 100 * np.stack(first)


def rouge_of_tokens(found: Sequence[str], reference: Sequence[str]) -> tuple[float, float, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L of two texts, from 0 to 1."""
    common = longest_common_subsequence(found, reference)
    longest = _f1(common, len(found), len(reference))
    return _ngram_f1(found, reference, 1), _ngram_f1(found, reference, 2), longest


def _ngram_f1(found: Sequence[str], reference: Sequence[str], n: int) -> float:
    sides = [Counter(zip(*(text[i:] for i in range(n)))) for text in (found, reference)]
    return _f1((sides[0] & sides[1]).total(), sides[0].total(), sides[1].total())


def _f1(common: int, num_found: int, num_expected: int) -> float:
    return 2 * common / (num_found + num_expected) if common else 0.0


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence of tokens that both texts have in this order.

    Bit i of `rest` is 0 where the length grows at token i of `first` (Hyyrö 2004), so that one
    sum of whole numbers does the work of a row of the usual table.
    """
    where: dict[str, int] = {}
    for i, token in enumerate(first):
        where[token] = where.get(token, 0) | 1 << i
    every = (1 << len(first)) - 1
    rest = every
    for token in second:
        matches = rest & where.get(token, 0)
        rest = (rest + matches | rest - matches) & every
    return len(first) - rest.bit_count()


def _check(hypotheses: Sequence[str], references: References) -> None:
    check_lengths(references, hypotheses, "texts")
    for i, row in enumerate(references):
        if isinstance(row, str) or not row:
            raise InputError(f"text {i}: expected a list of references, found {quoted(row)}")


def _sacrebleu() -> Any:
    return import_extra("sacrebleu", "generate")
