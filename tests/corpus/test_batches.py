"""Batches of sentences and of lanes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.corpus.batches import Batch, LaneStream, SentenceBatches, SentenceStream, Stream
from elmokit.corpus.corpus import BOS_ID, EOS_ID, Sentences
from elmokit.errors import ConfigError


def sentences(lengths: list[int]) -> Sentences:
    """Sentences of these lengths in which every word is another."""
    offsets = np.cumsum([0, *lengths])
    return Sentences(np.arange(3, 3 + offsets[-1], dtype=np.int32), offsets)


def read(batch: Batch) -> list[list[int]]:
    """The sentences of a batch with their boundaries; both directions must agree on them."""
    (forward, backward), (after, before) = batch.inputs, batch.targets
    np.testing.assert_array_equal(forward[1:], after[:-1])
    np.testing.assert_array_equal(backward[1:], before[:-1])
    rows = np.concatenate([forward, after[-1:]])
    np.testing.assert_array_equal(rows[::-1], np.concatenate([backward, before[-1:]]))
    return rows.T.tolist()


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=60),
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(0, 3),
)
def test_an_epoch_has_every_word_once(
    lengths: list[int], batch_tokens: int, max_length: int, epoch: int
) -> None:
    text = sentences(lengths)
    batches = SentenceBatches(text, batch_tokens, max_length, seed=5)
    found = []
    for rows in batches.epoch(epoch):
        batch = batches.batch(rows)
        length = batch.inputs.shape[1]
        assert batch.num_tokens <= max(batch_tokens, length)
        for row in read(batch):
            assert row[0] == BOS_ID and row[-1] == EOS_ID and len(row) <= max_length + 2
            found += row[1:-1]
    assert sorted(found) == text.tokens.tolist()


def test_epochs_have_other_orders_and_seeds_too() -> None:
    text = sentences([5] * 40)

    def order(seed: int, epoch: int) -> list[int]:
        return np.concatenate(SentenceBatches(text, 30, 9, seed).epoch(epoch)).tolist()

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def make(kind: str) -> Stream:
    text = sentences([3, 1, 7, 4, 4, 2, 9, 5, 3, 6, 1, 8] * 3)
    if kind == "lanes":
        return LaneStream(text, 3, 4, seed=1)
    return SentenceStream(SentenceBatches(text, 20, 8, seed=1))


@pytest.mark.parametrize("kind", ["sentences", "lanes"])
@pytest.mark.parametrize("before", [0, 1, 7, 30])
def test_a_stream_continues_from_its_place(kind: str, before: int) -> None:
    stream = make(kind)
    for _ in range(before):
        stream.next()
    cursor, epochs = stream.cursor(), stream.epochs
    expected = [stream.next() for _ in range(20)]
    assert stream.epochs > epochs
    other = make(kind)
    other.restore(cursor)
    assert other.epochs == epochs
    for batch in expected:
        np.testing.assert_array_equal(other.next(), batch)


def test_lanes_read_both_directions_of_the_same_sentences() -> None:
    stream = make("lanes")
    batches = [stream.next() for _ in range(8)]
    assert {b.inputs.shape for b in batches} == {(2, 4, 3)}
    forward = np.concatenate([b.inputs[0] for b in batches]).T
    after = np.concatenate([b.targets[0] for b in batches]).T
    for row, targets in zip(forward, after, strict=True):
        # A lane goes on with the next sentence where one has ended.
        for target, word in zip(targets[:-1], row[1:], strict=True):
            assert word == (BOS_ID if target == EOS_ID else target)


def test_too_many_lanes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.lanes"):
        LaneStream(sentences([4, 4]), 64, 20, seed=1)
