"""Words as what a token encoder reads."""

import numpy as np
import pytest
from strategies import LETTERS, SPECIAL_CHARACTERS

from elmokit.config import CharCnnConfig, EncoderConfig
from elmokit.errors import ConfigError
from elmokit.text.index import TokenIndexer

CHARACTERS = {entry: i for i, entry in enumerate([*SPECIAL_CHARACTERS, *LETTERS])}
UNICODE = CharCnnConfig(
    characters="unicode", num_characters=len(CHARACTERS), max_characters=5, filters=((1, 2),)
)
BYTES = CharCnnConfig(max_characters=5, filters=((1, 2),))
WORDS = {"<oov>": 3, "<bos>": 0, "<eos>": 1, "abc": 2, "한글": 4}


def test_characters_alone_give_no_rows() -> None:
    characters, rows = TokenIndexer(EncoderConfig(char_cnn=BYTES))(["a"])
    assert characters.shape == (1, 5) and rows is None


def test_words_alone_give_no_characters() -> None:
    indexer = TokenIndexer(EncoderConfig(char_cnn=None, num_words=5, word_dim=2), words=WORDS)
    characters, rows = indexer(["abc", "<bos>", "zzz", ""])
    assert characters is None
    assert rows.dtype == np.int64 and rows.tolist() == [2, 0, 3, 3]


def test_long_words_are_cropped_before_either_part_is_looked_up() -> None:
    config = EncoderConfig(char_cnn=UNICODE, num_words=5, word_dim=2)
    _, rows = TokenIndexer(config, CHARACTERS, WORDS)(["abcd", "abc", "ab"])
    assert rows.tolist() == [2, 2, 3]


@pytest.mark.parametrize(
    ("words", "boundaries"),
    [
        ({"<UNK>": 0, "<S>": 1, "</S>": 2}, ("<S>", "</S>")),
        ({"<oov>": 0, "<bos>": 1, "<eos>": 2}, ("<bos>", "<eos>")),
        ({"<UNK>": 0}, ("<S>", "</S>")),
    ],
)
def test_boundaries_of_a_word_table_are_those_that_it_has(
    words: dict, boundaries: tuple[str, str]
) -> None:
    config = EncoderConfig(char_cnn=None, num_words=3, word_dim=2)
    indexer = TokenIndexer(config, words=words)
    assert (indexer.bos, indexer.eos) == boundaries


def test_boundaries_of_characters_are_those_of_their_scheme() -> None:
    assert TokenIndexer(EncoderConfig(char_cnn=BYTES)).bos == "<S>"
    assert TokenIndexer(EncoderConfig(char_cnn=UNICODE), CHARACTERS).eos == "<eos>"


@pytest.mark.parametrize(
    ("characters", "words", "mention"),
    [
        (None, WORDS, "character dictionary"),
        ({**CHARACTERS, "a": 99}, WORDS, "'a' has id 99"),
        ({**CHARACTERS, "a": -1}, WORDS, "'a' has id -1"),
        (CHARACTERS, None, "word dictionary"),
        (CHARACTERS, {}, "word dictionary"),
        (CHARACTERS, {**WORDS, "abc": 5}, "'abc' has id 5"),
        (CHARACTERS, {"abc": 1}, "<UNK>"),
    ],
)
def test_dictionary_that_does_not_fit_is_refused(
    characters: dict | None, words: dict | None, mention: str
) -> None:
    config = EncoderConfig(char_cnn=UNICODE, num_words=5, word_dim=2)
    with pytest.raises(ConfigError, match=mention):
        TokenIndexer(config, characters, words)
