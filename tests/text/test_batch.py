"""Sentences side by side in lanes, as bilm-tf's trainer reads them."""

import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import ConfigError
from elmokit.text.batch import Lanes, OrderedLanes, Window

SENTENCES = st.lists(st.lists(st.integers(0, 99), max_size=6), max_size=30)


def by_hand(sentences: list[list[int]], num_lanes: int, num_steps: int, backward: bool) -> list:
    """All windows, one word at a time; the last list of rows is dropped if it is not full."""
    waiting = [[-1, *s, -2] for s in sentences]
    waiting = [s[::-1] if backward else s for s in waiting]
    lanes: list[list[int]] = [[] for _ in range(num_lanes)]
    windows = []
    while True:
        window = []
        for lane in range(num_lanes):
            row = []
            for _ in range(num_steps):
                if len(lanes[lane]) < 2:
                    if not waiting:
                        return windows
                    lanes[lane] = waiting.pop(0)
                row.append((lanes[lane].pop(0), lanes[lane][0]))
            window.append(row)
        windows.append(window)


def as_pairs(window: Window) -> list:
    return [
        list(zip(*row, strict=True))
        for row in zip(window.inputs.tolist(), window.targets.tolist(), strict=True)
    ]


def ordered(sentences: list, order: object, lanes: int, steps: int, **more: bool) -> OrderedLanes:
    arrays = [np.array([-1, *s, -2], dtype=np.int32) for s in sentences]
    return OrderedLanes(arrays, order, lanes, steps, **more)


@given(SENTENCES, st.integers(1, 5), st.integers(1, 9), st.booleans(), st.randoms())
def test_windows_are_those_of_a_reader_of_single_words(
    sentences: list, num_lanes: int, num_steps: int, backward: bool, random: object
) -> None:
    order = list(range(len(sentences)))
    random.shuffle(order)
    got = ordered(sentences, order, num_lanes, num_steps, backward=backward)
    expected = by_hand([sentences[i] for i in order], num_lanes, num_steps, backward)
    assert [as_pairs(window) for window in got] == expected
    assert list(got) == []


def test_example_of_the_documentation() -> None:
    words = [["a", "b"], ["c"], ["d", "e"], ["f"], ["g"]]
    arrays = [np.array(["<S>", *s, "</S>"], dtype=object) for s in words]
    window = next(Lanes(arrays, num_lanes=2, num_steps=4))
    assert window.inputs.tolist() == [["<S>", "a", "b", "<S>"], ["<S>", "d", "e", "<S>"]]
    assert window.targets.tolist() == [["a", "b", "</S>", "c"], ["d", "e", "</S>", "f"]]


@given(SENTENCES, st.integers(1, 4), st.integers(1, 7), st.booleans(), st.integers(0, 20))
def test_restored_lanes_continue_as_if_unbroken(
    sentences: list, num_lanes: int, num_steps: int, backward: bool, stop: int
) -> None:
    order = np.arange(len(sentences))[::-1]
    unbroken = ordered(sentences, order, num_lanes, num_steps, backward=backward)
    list(islice(unbroken, stop))
    state = json.loads(json.dumps(unbroken.state()))
    again = ordered(sentences, order, num_lanes, num_steps, backward=backward)
    next(again, None)  # where it stood before does not matter
    again.restore(state)
    assert again.state() == state
    assert [as_pairs(w) for w in again] == [as_pairs(w) for w in unbroken]


def test_lanes_can_go_back() -> None:
    lanes = ordered([[1, 2, 3], [4], [5, 6]], [2, 0, 1], 1, 2)
    start = lanes.state()
    first = [as_pairs(w) for w in lanes]
    assert len(first) == 4
    lanes.restore(start)
    assert [as_pairs(w) for w in lanes] == first


def test_only_sentences_that_are_needed_are_read() -> None:
    read = []

    def source():
        for i in range(100):
            read.append(i)
            yield np.array([0, i, 1])

    lanes = Lanes(source(), 3, 2)
    for _ in range(4):
        next(lanes)
    assert len(read) == 12


def test_windows_keep_the_type_of_the_ids() -> None:
    window = next(ordered([[1, 2, 3]], [0], 1, 2))
    assert window.inputs.dtype == window.targets.dtype == np.int32


def test_positions_that_do_not_fit_are_refused() -> None:
    lanes = ordered([[1], [2], [3]], [0, 1, 2], 2, 1)
    next(lanes)
    state = lanes.state()
    with pytest.raises(ConfigError, match="2 lanes, these are 1"):
        ordered([[1], [2], [3]], [0, 1, 2], 1, 1).restore(state)
    with pytest.raises(ConfigError, match="after 2 sentences, here are 1"):
        ordered([[1]], [0], 2, 1).restore(state)
    for sizes in ((0, 1), (1, 0)):
        with pytest.raises(ConfigError, match="1 or more"):
            ordered([[1]], [0], *sizes)
