"""Tokens, offsets and vectors in one result."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import make_tiny, tiny_config

from elmokit import Elmo
from elmokit.errors import InputError

TINY = make_tiny()
TEXT = "He has a gift for music, and a gift from her."


def test_a_text_gives_one_sentence() -> None:
    sentence = TINY.annotate(TEXT)
    assert sentence.text == TEXT
    assert list(sentence.tokens) == TINY.tokenize(TEXT)[0]
    np.testing.assert_array_equal(sentence.vectors, TINY.embed(TEXT))
    np.testing.assert_array_equal(sentence["music"], sentence.vectors[5])
    np.testing.assert_array_equal(sentence[-1], sentence.vectors[-1])
    assert "music" in sentence and "violin" not in sentence
    assert sentence.find("gift") == [3, 9] and len(sentence) == 13
    assert [token for token, _ in sentence] == list(sentence.tokens)


def test_all_layers() -> None:
    sentence = TINY.annotate(TEXT, layers="all")
    assert sentence.vectors.shape == (3, 13, TINY.dim)
    np.testing.assert_array_equal(sentence["music"], sentence.vectors[:, 5])


def test_tokens_have_no_offsets() -> None:
    first, second = TINY.annotate([["a", "gift"], "a gift"])
    assert first.text is None and first.offsets is None and first.tokens == ("a", "gift")
    assert second.offsets == ((0, 1), (2, 6))
    np.testing.assert_allclose(first.vectors, second.vectors, atol=1e-6)


def test_empty_texts() -> None:
    sentence = TINY.annotate("")
    assert sentence.tokens == () and sentence.vectors.shape == (0, TINY.dim) and not len(sentence)
    assert TINY.annotate([]) == []


def test_lookup_says_what_there_is() -> None:
    sentence = TINY.annotate(TEXT)
    with pytest.raises(InputError, match=r"'gift' occurs 2 times; .* positions 3, 9"):
        sentence["gift"]
    with pytest.raises(InputError, match=r"'violin' is not a token .* He has a gift"):
        sentence["violin"]
    with pytest.raises(IndexError, match="the sentence has 13 tokens"):
        sentence[13]


def test_repr_is_short() -> None:
    assert repr(TINY.annotate("a gift")) == "<Sentence: 'a gift', 2 tokens, vectors 2 x 32>"
    assert len(repr(TINY.annotate("word " * 100))) < 120


@given(st.text(max_size=40))
@settings(max_examples=60)
def test_offsets_lie_in_the_text(text: str) -> None:
    sentence = TINY.annotate(text)
    assert sentence.offsets is not None
    assert len(sentence.offsets) == len(sentence.tokens) == len(sentence.vectors)
    assert all(0 <= start <= end <= len(text) for start, end in sentence.offsets)
    assert all(a[0] <= b[0] for a, b in pairwise(sentence.offsets))


def test_korean_morphemes_have_the_places_of_the_text() -> None:
    pytest.importorskip("kiwipiepy")
    elmo: Elmo = make_tiny(tiny_config(tokenizer="kiwi"))
    sentence = elmo.annotate("그는 배를 탔다.")
    start, end = sentence.offsets[sentence.find("배")[0]]  # type: ignore[index]
    assert sentence.text is not None and sentence.text[start:end] == "배"
