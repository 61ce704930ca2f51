"""The n-gram of `benchmarks/kneser_ney.py` against KenLM and the plain formulas."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import load_script
from hypothesis import given
from hypothesis import strategies as st

kneser_ney = load_script("kneser_ney")
START, END, UNKNOWN = kneser_ney.START, kneser_ney.END, kneser_ney.UNKNOWN
Ngram = tuple[int, ...]

# log10 p of whole sentences by KenLM 0.3.0 (lmplz -o N --discount_fallback, query) after
# `harbour_tales()`; "lighthouse" is unknown to it.
TALES = (
    "the boat follows the moon",
    "my sister sings to the harbour at night",
    "a small fish sees the old boat",
    "rain leaves",
    "the river waits for a lighthouse",
    "night",
    "the child and the rain",
)
KENLM = {
    2: (-3.438079, -13.143899, -8.74741, -5.619861, -9.673559, -2.794272, -4.415017),
    3: (-2.45634, -12.171781, -11.020851, -5.528882, -9.142025, -3.180237, -3.772694),
    5: (-2.928627, -12.260829, -9.465458, -5.528882, -9.07966, -3.180237, -3.145096),
}


@dataclass
class Sentences:
    """What the script needs of a split of a prepared corpus."""

    tokens: np.ndarray[Any, Any]
    offsets: np.ndarray[Any, Any]


def split(sentences: list[list[int]]) -> Sentences:
    return Sentences(
        tokens=np.array([word for sentence in sentences for word in sentence], np.int32),
        offsets=np.cumsum([0, *map(len, sentences)], dtype=np.int64),
    )


def text(sentences: list[list[int]], num_words: int, backward: bool = False) -> Any:
    return kneser_ney.Text.of(split(sentences), num_words, backward=backward)


def zipf(seed: int, num_sentences: int, num_words: int) -> list[list[int]]:
    """Sentences of 0 to 12 words in which the next word depends on the last."""
    random = np.random.default_rng(seed)
    sentences = []
    for length in random.integers(0, 13, num_sentences):
        sentence, last = [], 0
        for _ in range(length):
            last = 2 + (last * 7 + int(random.zipf(1.7))) % (num_words - 2)
            sentence.append(last)
        sentences.append(sentence)
    return sentences


def harbour_tales() -> list[str]:
    """90 little sentences, some of them more often than others."""
    who = ("the boat", "a child", "the old boat", "my sister", "the river")
    does = ("follows", "sees", "waits for", "sings to", "leaves")
    what = (
        "the moon",
        "the harbour",
        "a small fish",
        "the child",
        "my brother",
        "the boat",
        "rain",
    )
    tales = []
    for i in range(90):
        end = " at night" if i % 6 == 0 else " and the rain" if i % 13 == 0 else ""
        tales.append(f"{who[i**2 % 5]} {does[i**3 % 7 % 5]} {what[i * (i + 3) % 11 % 7]}{end}")
    return tales


class Oracle:
    """Chen and Goodman's modified Kneser-Ney, one n-gram at a time."""

    def __init__(self, sentences: list[list[int]], num_words: int, order: int) -> None:
        self.num_words, self.order = num_words, order
        occurrences: Counter[Ngram] = Counter()
        for sentence in sentences:
            padded = (START, *sentence, END)
            for end in range(2, len(padded) + 1):
                for start in range(max(0, end - order), end):
                    occurrences[padded[start:end]] += 1
        kinds = Counter(ngram[1:] for ngram in occurrences)
        self.followers: dict[Ngram, dict[int, int]] = defaultdict(dict)
        of_order: dict[int, list[int]] = defaultdict(list)
        for ngram, number in occurrences.items():
            adjusted = number if len(ngram) == order or ngram[0] == START else kinds[ngram]
            self.followers[ngram[:-1]][ngram[-1]] = adjusted
            of_order[len(ngram)].append(adjusted)
        self.discounts = {n: self.estimate(counts) for n, counts in of_order.items()}

    def estimate(self, counts: list[int]) -> tuple[float, ...]:
        n = [counts.count(k) for k in range(5)]
        if 0 in n[1:4]:
            return 0, 0.5, 1, 1.5
        y = n[1] / (n[1] + 2 * n[2])
        found = tuple(k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3))
        return (0, *found) if min(found) >= 0 else (0, 0.5, 1, 1.5)

    def p(self, word: int, context: Ngram) -> float:
        lower = self.p(word, context[1:]) if context else 1 / (self.num_words - 1)
        followers = self.followers.get(context)
        if not followers:
            return lower
        d = self.discounts[len(context) + 1]
        count = followers.get(word, 0)
        freed = sum(d[min(c, 3)] for c in followers.values())
        return (count - d[min(count, 3)] + freed * lower) / sum(followers.values())

    def log_probabilities(self, sentences: list[list[int]]) -> list[float]:
        found = []
        for sentence in sentences:
            padded = (START, *sentence, END)
            for end in range(1, len(padded)):
                context = padded[max(0, end - self.order + 1) : end]
                found.append(math.log(self.p(padded[end], context)))
        return found


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_are_those_of_the_formulas(order: int) -> None:
    train, valid = zipf(0, 300, 40), zipf(1, 60, 40)
    model = kneser_ney.KneserNey(text(train, 40), 40, order)
    expected = Oracle(train, 40, order)
    assert [len(level.keys) for level in model.levels][1:] == [
        sum(len(f) for c, f in expected.followers.items() if len(c) == n) for n in range(1, order)
    ]
    for level, d in zip(model.levels, sorted(expected.discounts.items()), strict=True):
        np.testing.assert_allclose(level.discounts, d[1])
    if order > 1:  # so many single words have no counts 1…3
        assert (model.levels[-1].discounts != kneser_ney.FALLBACK).any()
    found = model.log_probabilities(text(valid, 40))
    np.testing.assert_allclose(found, expected.log_probabilities(valid), rtol=1e-10)


@pytest.mark.parametrize("order", KENLM)
def test_sentences_score_as_in_kenlm(order: int) -> None:
    train = [tale.split() for tale in harbour_tales()]
    rows = {word: 3 + i for i, word in enumerate(sorted({w for tale in train for w in tale}))}
    num_words = 3 + len(rows)
    model = kneser_ney.KneserNey(
        text([[rows[w] for w in s] for s in train], num_words), num_words, order
    )
    for tale, expected in zip(TALES, KENLM[order], strict=True):
        sentence = [rows.get(word, UNKNOWN) for word in tale.split()]
        found = model.log_probabilities(text([sentence], num_words)).sum() / math.log(10)
        assert found == pytest.approx(expected, abs=1e-5)


@given(
    st.lists(st.lists(st.integers(1, 6), max_size=7), min_size=1, max_size=12),
    st.lists(st.lists(st.integers(1, 6), max_size=7), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_small_texts_of_any_shape(
    train: list[list[int]], valid: list[list[int]], order: int
) -> None:
    """Also orders longer than sentences, empty sentences, and counts that give no discounts."""
    model = kneser_ney.KneserNey(text(train, 7), 7, order)
    expected = Oracle(train, 7, order).log_probabilities(valid)
    found = model.log_probabilities(text(valid, 7))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("backward", [False, True])
def test_probabilities_of_all_words_sum_to_one(backward: bool) -> None:
    num_words, train = 30, zipf(2, 200, 30)
    model = kneser_ney.KneserNey(text(train, num_words, backward), num_words, 4)
    seen = [sentence[:5] for sentence in train[:20]]
    unseen = [list(row) for row in np.random.default_rng(3).integers(2, num_words, (20, 5))]
    for context in (*seen, *unseen, [], [29], [29, 29, 29, 29]):
        # Every word after the context, in a sentence of its own; `</S>` closes the first.
        tries = [[*context, word] for word in range(2, num_words)]
        logs = model.log_probabilities(text([context, *tries], num_words))
        ends = len(context) + np.arange(len(tries)) * (len(context) + 2) + len(context) + 1
        total = math.exp(logs[len(context)]) + np.exp(logs[ends]).sum()
        assert total == pytest.approx(1, abs=1e-12)


def test_backward_is_forward_on_reversed_sentences() -> None:
    train, valid = zipf(4, 100, 20), zipf(5, 20, 20)
    reverse = [[sentence[::-1] for sentence in some] for some in (train, valid)]
    backward = kneser_ney.KneserNey(text(train, 20, True), 20, 3)
    forward = kneser_ney.KneserNey(text(reverse[0], 20), 20, 3)
    np.testing.assert_array_equal(
        backward.log_probabilities(text(valid, 20, True)),
        forward.log_probabilities(text(reverse[1], 20)),
    )


def test_words_outside_the_vocabulary_are_unknown() -> None:
    """So is a boundary mark that the text spells out: nothing else may predict `<S>`."""
    found = text([[3, 9, START], []], 5)
    assert found.words.tolist() == [START, 3, UNKNOWN, UNKNOWN, END, START, END]
    assert found.depth.tolist() == [0, 1, 2, 3, 4, 0, 1]


def test_perplexity_of_a_unigram_by_hand() -> None:
    """`</S>` 4 times, the word 3 twice, 4 once: no count of 3, so D = 0.5, 1, 1.5."""
    model = kneser_ney.KneserNey(text([[3], [3], [4], []], 6), 6, 1)
    # 7 targets, discounts of 3 in all, and 5 words that may follow.
    p = {word: kept / 7 + 3 / 7 / 5 for word, kept in {END: 2.5, 3: 1.0, 4: 0.5, 5: 0.0}.items()}
    expected = (p[3] * p[4] * p[5] * p[END]) ** (-1 / 4)
    assert model.perplexity(text([[3, 4, 5]], 6)) == pytest.approx(expected)


def test_head_keeps_whole_sentences() -> None:
    some = split([[2, 3], [4], [5, 6, 7]])
    assert kneser_ney.head(some, 5).tokens.tolist() == [2, 3, 4]
    assert kneser_ney.head(some, 6).offsets.tolist() == [0, 2, 3, 6]
    assert kneser_ney.head(some, 1).offsets.tolist() == [0]
    assert kneser_ney.head(some, None) is some
