"""What users hand over by mistake is named, by its place."""

import warnings

import numpy as np
import pytest
from strategies import make_tiny

from elmokit.errors import InputError

TINY = make_tiny()
CALLS = [
    TINY.embed,
    TINY.encode,
    TINY.tokenize,
    TINY,
    lambda inputs: list(TINY.embed_stream(inputs)),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("inputs", [b"bytes", bytearray(b"bytes"), None, 7, 1.5])
def test_input_that_is_no_text_is_refused(call, inputs: object) -> None:
    with pytest.raises(InputError, match=rf"got {type(inputs).__name__}; expected a text"):
        call(inputs)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("item", [b"bytes", None, 7])
def test_sentence_that_is_no_text_is_refused_with_its_number(call, item: object) -> None:
    with pytest.raises(InputError, match=rf"sentence 2 is {type(item).__name__} \("):
        call(["one text", ["a", "b"], item])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("item", [b"bytes", None, 7, ["nested"]])
def test_token_that_is_no_text_is_refused_with_its_number(call, item: object) -> None:
    with pytest.raises(InputError, match=rf"sentence 1, token 2 is {type(item).__name__} \("):
        call([["a"], ["a", "b", item]])


def test_stream_of_one_text_is_refused() -> None:
    with pytest.raises(InputError, match=r"use embed\(text\)"):
        next(TINY.embed_stream("one text"))


@pytest.mark.parametrize("words", ["word", b"word", None, 7, ["a", 7]])
def test_token_vectors_of_no_list_of_words_are_refused(words: object) -> None:
    with pytest.raises(InputError):
        TINY.token_vectors(words)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [TINY.embed, TINY.encode, TINY.tokenize])
def test_list_of_single_words_warns_where_it_was_passed(call) -> None:
    with pytest.warns(UserWarning, match=r"wrap it as \[tokens\]") as caught:
        call(["The", "cat", "sat"])
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(
    "inputs", [["Yes."], ["Hello there", "Yes"], [["The"], ["cat"]], [], ["", "word"], "word"]
)
def test_list_of_sentences_does_not_warn(inputs: list) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TINY.embed(inputs)


def test_numpy_strings_are_text() -> None:
    got = TINY.embed(np.array([["a", "b"], ["c", "d"]]))
    for one, other in zip(got, TINY.embed([["a", "b"], ["c", "d"]]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_tokens_know_their_places_in_the_text() -> None:
    text = "Cafe\u0301 didn't  open."
    for token in TINY.tokenize_with_offsets(text)[0]:
        assert text[token.start : token.end].strip() == text[token.start : token.end]
    words = [token.text for token in TINY.tokenize_with_offsets(text)[0]]
    assert words == TINY.tokenize(text)[0] == ["Caf\u00e9", "did", "n't", "open", "."]
    assert len(TINY.tokenize_with_offsets([text, text])) == 2
