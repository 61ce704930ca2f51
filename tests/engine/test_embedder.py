"""The cache of words never changes a vector; sentences start from the states asked for."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from elmokit.config import LstmConfig
from elmokit.engine import CarriedStates, StartStates
from elmokit.engine.embedder import WordCache
from elmokit.nn import BiLmState

LSTM = LstmConfig(dim=4, projection_dim=2)


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


def numbered(num_rows: int) -> BiLmState:
    rows = torch.arange(1.0, num_rows + 1)[:, None]
    return BiLmState((rows * torch.ones(2)).expand(2, 2, -1, -1).clone(),
                     (rows * torch.ones(4)).expand(2, 2, -1, -1).clone())  # fmt: skip


def test_zero_states_start_every_sentence_from_nothing() -> None:
    states = StartStates()
    states.finish([0], numbered(1))
    assert states.start([0]) is None


def test_warm_states_start_every_sentence_alike() -> None:
    states = StartStates(numbered(1))
    states.finish([0, 1], numbered(2))
    start = states.start([5, 2, 0])
    assert start.h.shape == (2, 2, 3, 2)
    assert (start.h == 1).all() and (start.c == 1).all()
    start.h.zero_()  # what a run does to its state must not reach the stored one
    assert (states.start([0]).h == 1).all()


def test_carried_states_go_to_the_rows_that_they_came_from() -> None:
    states = CarriedStates(BiLmState.zeros(LSTM, 0, like=torch.empty(0)))
    assert not states.start([2, 0]).h.any()
    states.finish([2, 0], numbered(2))
    assert states.start([0, 1, 2]).h[0, 0, :, 0].tolist() == [2, 0, 1]
    assert states.start([4]).c[0, 0, :, 0].tolist() == [0]
    assert states.start([2]).c[1, 1].tolist() == [[1, 1, 1, 1]]


def test_carried_states_keep_rows_that_a_call_does_not_have() -> None:
    states = CarriedStates(BiLmState.zeros(LSTM, 0, like=torch.empty(0)))
    states.start([0, 1])
    states.finish([0, 1], numbered(2))
    states.start([0])
    states.finish([0], numbered(1))
    assert states.start([0, 1]).h[0, 0, :, 0].tolist() == [1, 2]
