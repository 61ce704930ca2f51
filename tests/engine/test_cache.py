"""The cache of words is bounded, keeps what is in use, and never changes a vector."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from elmokit.engine.embedder import WordCache


def spell(words: list[str]) -> torch.Tensor:
    return torch.tensor([[float(len(w)), float(sum(map(ord, w)))] for w in words])


@given(
    calls=st.lists(st.lists(st.text("ab", max_size=4), unique=True, min_size=1), max_size=20),
    capacity=st.integers(0, 6),
)
def test_vectors_are_those_of_the_words_and_memory_is_bounded(
    calls: list[list[str]], capacity: int
) -> None:
    cache = WordCache(capacity)
    for words in calls:
        assert cache.vectors(words, spell).equal(spell(words))
        assert len(cache) <= 2 * capacity


def test_known_words_are_not_computed_again() -> None:
    cache = WordCache(10)
    asked: list[list[str]] = []

    def counted(words: list[str]) -> torch.Tensor:
        asked.append(words)
        return spell(words)

    cache.vectors(["a", "b"], counted)
    cache.vectors(["c", "b"], counted)
    cache.vectors(["c", "a"], counted)
    assert asked == [["a", "b"], ["c"]]


def test_a_word_in_use_outlives_others() -> None:
    cache = WordCache(3)
    asked: list[str] = []

    def counted(words: list[str]) -> torch.Tensor:
        asked.extend(words)
        return spell(words)

    for i in range(20):
        cache.vectors(["often", f"once{i}"], counted)
    assert asked.count("often") == 1


def test_clear_forgets() -> None:
    cache = WordCache(3)
    cache.vectors(["a"], spell)
    cache.clear()
    assert len(cache) == 0
