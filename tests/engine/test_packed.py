"""Packing leaves no token out, no token twice, and no holes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmokit.engine.packed import PackedOrder

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=8).map(
    lambda lengths: np.array(lengths, dtype=np.int64)
)


@given(LENGTHS, st.booleans())
def test_packed_rows_are_the_steps_of_the_longest_sentences_first(
    lengths: np.ndarray, backward: bool
) -> None:
    packed = PackedOrder.of(lengths, backward=backward)
    starts = np.cumsum(lengths) - lengths
    expected = []
    for step in range(max(lengths)):
        active = [i for i in packed.order if lengths[i] > step]
        assert packed.counts[step] == len(active)
        expected += [starts[i] + (lengths[i] - 1 - step if backward else step) for i in active]
    assert packed.source.tolist() == expected
    assert sorted(packed.source) == list(range(lengths.sum()))
    assert sorted(packed.order) == list(range(len(lengths)))
    assert (np.diff(lengths[packed.order]) <= 0).all()


@given(LENGTHS, st.integers(0, 30))
def test_chunks_cover_all_steps_within_the_limit(lengths: np.ndarray, max_rows: int) -> None:
    packed = PackedOrder.of(lengths, backward=False)
    step = row = 0
    for first_step, end_step, first_row, end_row in packed.chunks(max_rows):
        assert (first_step, first_row) == (step, row)
        assert end_row - first_row == packed.counts[first_step:end_step].sum()
        assert end_step == first_step + 1 or end_row - first_row <= max_rows
        step, row = end_step, end_row
    assert (step, row) == (max(lengths), lengths.sum())


def test_example_of_the_module_docstring() -> None:
    packed = PackedOrder.of(np.array([4, 3, 2]), backward=False)
    text = np.array(list("abcdefghi"))
    assert "".join(text[packed.source]) == "aehbficgd"
    assert packed.counts.tolist() == [3, 3, 2, 1]
    assert packed.chunks(5) == [(0, 1, 0, 3), (1, 3, 3, 8), (3, 4, 8, 9)]
