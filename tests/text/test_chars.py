"""Words as character ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import byte_ids, unicode_ids
from strategies import LETTERS, SPECIAL_CHARACTERS, wild_tokens

from elmokit.errors import ConfigError
from elmokit.text.chars import ByteCharacters, UnicodeCharacters

IDS = {entry: i for i, entry in enumerate([*SPECIAL_CHARACTERS, *LETTERS])}
WORDS = st.lists(wild_tokens() | st.sampled_from(["<S>", "</S>", "<bos>", "<eos>"]), max_size=5)


@given(WORDS, st.integers(3, 60))
def test_bytes_are_those_of_the_contract(words: list[str], limit: int) -> None:
    rows = ByteCharacters(limit).encode(words)
    assert rows.dtype == np.int64 and rows.shape == (len(words), limit)
    assert rows.tolist() == [byte_ids(word, limit) for word in words]
    assert not words or (rows.min() >= 1 and rows.max() <= 261)


@given(WORDS, st.integers(3, 60))
def test_code_points_are_those_of_the_contract(words: list[str], limit: int) -> None:
    rows = UnicodeCharacters(IDS, limit).encode(words)
    assert rows.dtype == np.int64 and rows.shape == (len(words), limit)
    assert rows.tolist() == [unicode_ids(word, IDS, limit) for word in words]


def test_example_of_the_module_docstring() -> None:
    row = ByteCharacters().encode(["cat"])[0].tolist()
    assert row == [259, 100, 98, 117, 260] + [261] * 45


def test_boundaries_are_the_published_ids() -> None:
    begin, end = ByteCharacters(5).encode(["<S>", "</S>"]).tolist()
    assert begin == [259, 257, 260, 261, 261]
    assert end == [259, 258, 260, 261, 261]


def test_word_marks_of_code_points_are_exchanged() -> None:
    """ELMoForManyLangs was trained so; the published models need it."""
    row = UnicodeCharacters(IDS, 5).encode(["a"])[0].tolist()
    assert row == [IDS["<eow>"], IDS["a"], IDS["<bow>"], IDS["<pad>"], IDS["<pad>"]]


def test_long_words_lose_their_end_even_inside_a_character() -> None:
    scheme = ByteCharacters(6)
    assert scheme.encode(["한글"])[0].tolist()[1:5] == [b + 1 for b in "한글".encode()[:4]]
    assert scheme.is_cropped("한글") and scheme.is_cropped("abcde")
    assert not scheme.is_cropped("abcd") and not scheme.is_cropped("한a")
    assert UnicodeCharacters(IDS, 6).is_cropped("한글한글한")
    assert not UnicodeCharacters(IDS, 6).is_cropped("한글한글")


def test_lone_surrogates_are_left_out() -> None:
    a, b = ByteCharacters().encode(["a\ud800b", "ab"])
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("special", SPECIAL_CHARACTERS)
def test_dictionary_without_a_special_entry_is_refused(special: str) -> None:
    with pytest.raises(ConfigError, match=special):
        UnicodeCharacters({entry: i for entry, i in IDS.items() if entry != special})
