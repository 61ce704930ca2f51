"""Spans as tags."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.tasks.parts.crf import bioul_transitions
from elmokit.tasks.parts.tags import (
    bio_to_bioul,
    bioul_to_bio,
    check_bio,
    iob1_to_bio,
    spans,
)

TAGS = ["O", *(f"{place}-{label}" for label in ("PER", "A-B") for place in "BILU")]


@st.composite
def bio(draw: st.DrawFn) -> list[str]:
    """BIO tags: spans of two labels, some of which touch."""
    tags: list[str] = []
    for label, length in draw(
        st.lists(st.tuples(st.sampled_from(["O", "PER", "A-B"]), st.integers(1, 4)), max_size=8)
    ):
        if label == "O":
            tags += ["O"] * length
        else:
            tags += [f"B-{label}"] + [f"I-{label}"] * (length - 1)
    return tags


def to_iob1(tags: list[str]) -> list[str]:
    """The other way: B- only where a span follows one of its own label."""
    before = ["O", *tags]
    return [
        f"I{tag[1:]}" if tag[0] == "B" and last[1:] != tag[1:] else tag
        for last, tag in zip(before, tags)
    ]


@given(bio())
def test_bioul_and_back_is_the_same(tags: list[str]) -> None:
    assert bioul_to_bio(bio_to_bioul(tags)) == tags


@given(bio())
def test_iob1_and_back_is_the_same(tags: list[str]) -> None:
    assert iob1_to_bio(to_iob1(tags)) == tags
    assert spans(to_iob1(tags)) == spans(tags)


@given(bio())
def test_spans_are_those_that_bioul_ends(tags: list[str]) -> None:
    bioul = bio_to_bioul(tags)
    found = spans(tags)
    assert [start for _, start, _ in found] == [i for i, t in enumerate(bioul) if t[0] in "BU"]
    assert [end - 1 for *_, end in found] == [i for i, t in enumerate(bioul) if t[0] in "LU"]
    assert [label for label, *_ in found] == [t[2:] for t in tags if t[0] == "B"]


@given(bio().filter(bool))
def test_transitions_allow_every_valid_sequence(tags: list[str]) -> None:
    assert walks(bio_to_bioul(tags))


@given(st.lists(st.sampled_from(TAGS), min_size=1, max_size=5))
def test_transitions_allow_what_converts_and_nothing_else(tags: list[str]) -> None:
    if walks(tags):
        assert bio_to_bioul(bioul_to_bio(tags)) == tags
    else:
        with pytest.raises(InputError):
            bioul_to_bio(tags)


def walks(tags: list[str]) -> bool:
    allowed = bioul_transitions(TAGS)
    ids = [len(TAGS), *(TAGS.index(tag) for tag in tags), len(TAGS) + 1]
    return all(bool(allowed[a, b]) for a, b in itertools.pairwise(ids))


def test_transitions_of_one_label_are_these() -> None:
    allowed = bioul_transitions(["O", "B-X", "I-X", "L-X", "U-X"])
    outside, inside = [1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 0]  # to O B I L U start
    expected = [
        [*outside, 1],
        [*inside, 0],
        [*inside, 0],
        [*outside, 1],
        [*outside, 1],
        [*outside, 0],  # from the start; a sentence has a token
        [0] * 7,
    ]
    assert torch.equal(allowed, torch.tensor(expected, dtype=torch.bool))


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["O", "I-PER"], "tag 1.*I-PER.*after O.*B-PER"),
        (["B-PER", "I-LOC"], "tag 1.*I-LOC.*after B-PER"),
        (["O", "PER"], "tag 1.*'PER'.*not BIO"),
        (["B-"], "tag 0.*'B-'"),
        ([""], "tag 0"),
        (["U-PER"], "tag 0.*'U-PER'"),
    ],
)
def test_what_is_not_bio_is_refused_with_its_place(tags: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_bio(tags)
    with pytest.raises(InputError, match=message):
        bio_to_bioul(tags)


def test_spans_of_odd_tags_are_those_of_the_conll_scorer() -> None:
    assert spans(["I-PER", "I-LOC", "O", "B-PER", "I-LOC"]) == [
        ("PER", 0, 1),
        ("LOC", 1, 2),
        ("PER", 3, 4),
        ("LOC", 4, 5),
    ]
    assert spans(["B-PER", "B-PER", "I-PER"]) == [("PER", 0, 1), ("PER", 1, 3)]
