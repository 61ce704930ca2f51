"""What users hand over by mistake is named, by its place."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from strategies import make_tiny

from elmokit import Elmo
from elmokit.errors import ConfigError, InputError

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


class Frame:
    """A data frame as pandas, polars, Arrow and `datasets` have them: columns, by their names."""

    def __init__(self, attribute: str = "columns", **columns: list) -> None:
        self._columns = columns
        setattr(self, attribute, list(columns))

    def __getitem__(self, name: str) -> list:
        return self._columns[name]

    def __iter__(self):
        return iter(self._columns)


TABLES = [
    ({"id": [1, 2], "본문": ["첫 문장", "둘째 문장"]}, "dict['본문']"),
    ({"a": ["b"], "c": ["d"]}, "dict['a']"),
    (Frame(id=[1, 2], text=["one text", "two"]), "df['text']"),
    (Frame("column_names", id=[1], body=["one text"]), "df['body']"),
    (Frame(number=[1, 2]), "df['number']"),
]


@pytest.mark.parametrize("call", [*CALLS, TINY.annotate, TINY.tokenize_with_offsets, TINY.warm_up])
@pytest.mark.parametrize(("table", "column"), TABLES)
def test_table_is_refused_with_the_column_to_pass(call, table: object, column: str) -> None:
    with pytest.raises(InputError, match=r"columns .*pass one of them, such as") as caught:
        call(table)
    assert str(caught.value).endswith(column)


def test_frame_of_pandas_is_refused_with_the_column_to_pass() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2], "text": ["one text", "two texts"]})
    with pytest.raises(InputError, match=r"'id', 'text'; pass one of them, such as df\['text'\]"):
        TINY.embed(frame)
    assert len(TINY.embed(frame["text"])) == 2


def test_rows_of_a_table_are_refused_with_the_key_to_take() -> None:
    rows = [{"id": 1, "text": "one text"}, {"id": 2, "text": "two"}]
    with pytest.raises(InputError, match=r"sentence 0 .*\[row\['text'\] for row in rows\]"):
        TINY.embed(rows)
    with pytest.raises(InputError, match="sentence 0 is a dict with the keys "):
        TINY.embed([{}])


def test_a_name_instead_of_a_configuration_says_how_to_load() -> None:
    for name in ("en", Path("model")):
        with pytest.raises(ConfigError, match=r"to load one: Elmo.from_pretrained\("):
            Elmo(name)  # type: ignore[arg-type]


def test_one_text_is_no_text_to_warm_up_with() -> None:
    with pytest.raises(InputError, match=r"\[text\]"):
        make_tiny().warm_up("one text")


def test_tokens_have_no_offsets() -> None:
    with pytest.raises(InputError, match="sentence 1 is a list of tokens"):
        TINY.tokenize_with_offsets(["one text", ["two"]])


@pytest.mark.parametrize("layers", [0, "0", -3, "-3", np.int64(0), torch.tensor(0)])
def test_a_layer_is_the_same_however_its_number_is_given(layers) -> None:
    sentences = ["The cat sat.", "한국어"]
    for one, other in zip(
        TINY.embed(sentences, layers=layers), TINY.embed(sentences, layers="all"), strict=True
    ):
        np.testing.assert_allclose(one, other[0], atol=1e-6)


@pytest.mark.parametrize("layers", [3, -4, "3", "-4", "--1", "1.0", "٣", True, None, 1.0, "9" * 99])
def test_a_layer_that_there_is_not_is_refused_with_those_there_are(layers) -> None:
    for call in (TINY.embed, TINY.encode, TINY.annotate):
        with pytest.raises(ConfigError, match=r"0\.\.2, counted from the top as -1\.\.-3"):
            call(["a b"], layers=layers)
