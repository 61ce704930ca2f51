"""What users hand over, as sentences of tokens."""

import unicodedata
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import wild_tokens

from elmokit.errors import ConfigError, InputError
from elmokit.text.reader import Reader, as_sentences, check_sentence


@given(st.lists(wild_tokens()))
def test_tokens_that_are_given_stay_in_number_and_order(tokens: list[str]) -> None:
    assert Reader(normalization=None).tokens(tokens) == tokens
    normal = Reader().tokens(tokens)
    assert normal == [unicodedata.normalize("NFC", token) for token in tokens]


@given(st.text(st.characters(exclude_categories=())))
def test_tokens_of_a_text_are_those_of_its_spans(text: str) -> None:
    reader = Reader()
    spans = reader.spans(text)
    assert reader.tokens(text) == [span.text for span in spans]
    assert all(0 <= span.start < span.end <= len(text) for span in spans)


def test_tokenizer_is_chosen_by_name() -> None:
    assert Reader("whitespace").tokens("didn't go.") == ["didn't", "go."]
    assert Reader("regex").tokens("didn't go.") == ["did", "n't", "go", "."]
    with pytest.raises(ConfigError, match="tokenizer='nltk'"):
        Reader("nltk")


def test_text_is_one_sentence_and_a_list_is_many() -> None:
    assert as_sentences("One text. Two.") == ["One text. Two."]
    assert as_sentences(["a b", ("c", "d"), iter(["e"])]) == ["a b", ["c", "d"], ["e"]]
    assert as_sentences(iter([])) == []


@pytest.mark.parametrize("inputs", [None, 7, b"bytes", bytearray(b"bytes")])
def test_what_is_no_text_is_refused(inputs: object) -> None:
    with pytest.raises(InputError, match=f"got {type(inputs).__name__}"):
        as_sentences(inputs)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"sentence 3 is {type(inputs).__name__}"):
        check_sentence(inputs, 3)
    with pytest.raises(InputError, match=f"sentence 3, token 1 is {type(inputs).__name__}"):
        check_sentence(["a", inputs], 3)


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(InputError) as caught:
        check_sentence([b"x" * 10_000], 0)
    assert len(str(caught.value)) < 150


def test_single_words_warn_once_for_all() -> None:
    with pytest.warns(UserWarning, match="every sentence is a single word") as caught:
        as_sentences(["The", "cat", " sat "])
    assert len(caught) == 1


@pytest.mark.parametrize("inputs", [["The"], ["The cat", "sat"], [["The"], ["cat"]], ["", "a"]])
def test_what_may_be_sentences_does_not_warn(inputs: list) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_sentences(inputs)
