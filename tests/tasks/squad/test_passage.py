"""Characters and tokens: every way from one to the other and back is exact."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from elmokit.tasks.squad.model import Passage, Span, spans_inside, window_around, windows
from elmokit.text.reader import Reader

TEXT = st.text(
    st.sampled_from("ab Z9.,'\"()-–$%é\u0301한글\u1112\u1161\u11ab🙂\u3000\n\t"), max_size=30
)


@pytest.mark.parametrize("tokenizer", ["regex", "whitespace"])
@given(text=TEXT, data=st.data())
def test_covering_tokens_hold_the_answer_and_no_token_more(
    tokenizer: str, text: str, data: st.DataObject
) -> None:
    passage = Passage.read(text, Reader(tokenizer))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    span = passage.cover(start, end)
    if span is None:
        assert not text[start:end].strip()
        return
    first, last = passage.characters(span)
    # White space around an answer is in no token.
    left = start + len(text[start:end]) - len(text[start:end].lstrip())
    right = left + len(text[left:end].rstrip())
    assert first <= left and right <= last
    if left < right:
        for smaller in (Span(span.first + 1, span.last), Span(span.first, span.last - 1)):
            if smaller.first <= smaller.last:
                a, b = passage.characters(smaller)
                assert not (a <= left and right <= b)


@given(text=TEXT, data=st.data())
def test_a_span_of_tokens_comes_back(text: str, data: st.DataObject) -> None:
    passage = Passage.read(text, Reader())
    if not passage.tokens:
        return
    first = data.draw(st.integers(0, len(passage.tokens) - 1))
    last = data.draw(st.integers(first, len(passage.tokens) - 1))
    start, end = passage.characters(Span(first, last))
    assert passage.cover(start, end) == Span(first, last)
    assert text[start:end] == text[start:end].strip()


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("He paid $1,000.50.", "1,000.50", "1,000.50"),
        ("the so-called (first) one", "first", "first"),
        ("cafe\u0301s in 서울에서", "서울", "서울에서"),  # one token of this tokenizer
        ("a 🙂🙂 b", "🙂", None),
        ("in 1999–2001, then", "2001", None),
        ("Rome.Then", "Rome", None),
    ],
)
def test_answers_are_covered(text: str, answer: str, expected: str | None) -> None:
    passage = Passage.read(text, Reader())
    start = text.index(answer)
    span = passage.cover(start, start + len(answer))
    assert span is not None
    found = text[slice(*passage.characters(span))]
    assert answer in found and len(found.split()) == 1
    assert expected is None or found == expected


def test_morphemes_share_characters() -> None:
    text = "그는 1989년에 서울에서 공부했다."
    passage = Passage.read(text, Reader("kiwi"))
    for answer in ("1989년", "서울", "공부", "공부했다", "서울에서 공부"):
        start = text.index(answer)
        span = passage.cover(start, start + len(answer))
        assert span is not None
        assert text[slice(*passage.characters(span))] == answer


@given(st.integers(0, 60), st.integers(1, 20))
def test_windows_hold_every_span_of_half_their_size(num_tokens: int, size: int) -> None:
    found = windows(num_tokens, size)
    assert all(0 <= start <= end <= num_tokens and end - start <= size for start, end in found)
    assert found[0][0] == 0 and found[-1][1] == num_tokens
    for length in range(1, min(size // 2, num_tokens) + 1):
        for first in range(num_tokens - length + 1):
            assert any(start <= first and first + length <= end for start, end in found)
    if num_tokens <= size:
        assert len(found) == 1


@given(st.integers(1, 40), st.integers(1, 12), st.floats(0, 1, exclude_max=True), st.data())
def test_a_training_window_holds_its_answer(
    num_tokens: int, size: int, choice: float, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, num_tokens - 1))
    last = data.draw(st.integers(first, num_tokens - 1))
    start, end = window_around(Span(first, last), num_tokens, size, choice)
    assert 0 <= start <= first and last < end <= num_tokens
    assert end - start == min(num_tokens, max(size, last - first + 1))
    assert spans_inside([Span(first, last)], start, end) == (Span(first - start, last - start),)
    assert spans_inside([Span(first, last + 1)], start, last + 1) == ()


def test_all_windows_can_be_chosen() -> None:
    starts = {window_around(Span(10, 11), 40, 6, k / 100)[0] for k in range(100)}
    assert starts == {6, 7, 8, 9, 10}


def test_a_token_without_characters_stands_for_its_neighbour() -> None:
    passage = Passage("집이다", ("집", "이", "다"), ((0, 1), (1, 1), (1, 3)))
    assert passage.characters(Span(1, 1)) == (0, 1)
    assert passage.characters(Span(1, 2)) == (1, 3)
    implied_first = Passage("다", ("이", "이", "다"), ((0, 0), (0, 0), (0, 1)))
    assert implied_first.characters(Span(0, 0)) == (0, 1)
    assert Passage("", ("이",), ((0, 0),)).characters(Span(0, 0)) == (0, 0)
