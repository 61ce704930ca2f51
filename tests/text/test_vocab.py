"""The words of the softmax."""

import pytest

from elmokit.errors import FormatError
from elmokit.text.vocab import Vocab


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
