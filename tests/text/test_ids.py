"""Words as the ids that a token encoder reads, and as rows of the softmax."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import byte_ids, unicode_ids
from strategies import LETTERS, SPECIAL_CHARACTERS, wild_tokens

from elmokit.config import CharCnnConfig, EncoderConfig
from elmokit.errors import ConfigError, FormatError
from elmokit.text.ids import ByteCharacters, TokenIndexer, UnicodeCharacters, Vocab

CHARACTERS = {entry: i for i, entry in enumerate([*SPECIAL_CHARACTERS, *LETTERS])}
UNICODE = CharCnnConfig(
    characters="unicode", num_characters=len(CHARACTERS), max_characters=5, filters=((1, 2),)
)
BYTES = CharCnnConfig(max_characters=5, filters=((1, 2),))
WORDS = {"<oov>": 3, "<bos>": 0, "<eos>": 1, "abc": 2, "한글": 4}
WORD_LISTS = st.lists(
    wild_tokens() | st.sampled_from(["<S>", "</S>", "<bos>", "<eos>"]), max_size=5
)


@given(WORD_LISTS, st.integers(3, 60))
def test_bytes_are_those_of_the_contract(words: list[str], limit: int) -> None:
    rows = ByteCharacters(limit).encode(words)
    assert rows.dtype == np.int64 and rows.shape == (len(words), limit)
    assert rows.tolist() == [byte_ids(word, limit) for word in words]
    assert not words or (rows.min() >= 1 and rows.max() <= 261)


@given(WORD_LISTS, st.integers(3, 60))
def test_code_points_are_those_of_the_contract(words: list[str], limit: int) -> None:
    rows = UnicodeCharacters(CHARACTERS, limit).encode(words)
    assert rows.dtype == np.int64 and rows.shape == (len(words), limit)
    assert rows.tolist() == [unicode_ids(word, CHARACTERS, limit) for word in words]


def test_example_of_the_module_docstring() -> None:
    row = ByteCharacters().encode(["cat"])[0].tolist()
    assert row == [259, 100, 98, 117, 260] + [261] * 45


def test_boundaries_are_the_published_ids() -> None:
    begin, end = ByteCharacters(5).encode(["<S>", "</S>"]).tolist()
    assert begin == [259, 257, 260, 261, 261]
    assert end == [259, 258, 260, 261, 261]


def test_word_marks_of_code_points_are_exchanged() -> None:
    """ELMoForManyLangs was trained so; the published models need it."""
    row = UnicodeCharacters(CHARACTERS, 5).encode(["a"])[0].tolist()
    assert row == [
        CHARACTERS["<eow>"],
        CHARACTERS["a"],
        CHARACTERS["<bow>"],
        CHARACTERS["<pad>"],
        CHARACTERS["<pad>"],
    ]


def test_long_words_lose_their_end_even_inside_a_character() -> None:
    scheme = ByteCharacters(6)
    assert scheme.encode(["한글"])[0].tolist()[1:5] == [b + 1 for b in "한글".encode()[:4]]
    assert scheme.is_cropped("한글") and scheme.is_cropped("abcde")
    assert not scheme.is_cropped("abcd") and not scheme.is_cropped("한a")
    assert UnicodeCharacters(CHARACTERS, 6).is_cropped("한글한글한")
    assert not UnicodeCharacters(CHARACTERS, 6).is_cropped("한글한글")


def test_lone_surrogates_are_left_out() -> None:
    a, b = ByteCharacters().encode(["a\ud800b", "ab"])
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("special", SPECIAL_CHARACTERS)
def test_dictionary_without_a_special_entry_is_refused(special: str) -> None:
    with pytest.raises(ConfigError, match=special):
        UnicodeCharacters({entry: i for entry, i in CHARACTERS.items() if entry != special})


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


def test_unknown_words_have_the_row_of_unk() -> None:
    vocab = Vocab(["</S>", "<S>", "<UNK>", "the"])
    assert [vocab.id(word) for word in ("the", "<S>", "</S>", "zzz")] == [3, 1, 0, 2]
    assert "the" in vocab and "zzz" not in vocab
    assert (len(vocab), vocab[3], list(vocab)[-1]) == (4, "the", "the")


def test_special_words_may_stand_anywhere_but_must_stand_somewhere() -> None:
    assert Vocab(["the", "<UNK>", "</S>", "<S>"]).id("zzz") == 1
    for special in ("<S>", "</S>", "<UNK>"):
        words = [w for w in ("<S>", "</S>", "<UNK>", "the") if w != special]
        with pytest.raises(FormatError, match=f"my.txt.*{special}"):
            Vocab(words, "my.txt")


def test_blank_and_repeated_lines_keep_their_rows() -> None:
    vocab = Vocab.read(["<S>", "</S>", "<UNK>", "", "the ", "the"], "vocab.txt")
    assert list(vocab) == ["<S>", "</S>", "<UNK>", "", "the", "the"]
    assert vocab.id("the") == 5  # the last one, as in the original program


def test_mark_of_old_count_tools_is_no_word() -> None:
    vocab = Vocab.read(["<S>", "</S>", "<UNK>", "!!!MAXTERMID", "the"], "vocab.txt")
    assert vocab.id("the") == 3


def test_vocabularies_are_equal_by_their_words() -> None:
    words = ["<S>", "</S>", "<UNK>"]
    assert Vocab(words) == Vocab(iter(words)) and hash(Vocab(words)) == hash(Vocab(words))
    assert Vocab(words) != Vocab([*words, "the"]) and Vocab(words) != words
