"""Words → ids: those that a token encoder reads, and the rows of the softmax (`Vocab`).

An encoder reads characters, rows of a table, or both. Characters are UTF-8 bytes (the published
ELMo) or code points (ELMoForManyLangs). The byte scheme has one row of `max_characters` ids per
word, each one above its raw value so that 0 is free for padding whole words:

    "cat" → 259, 100, 98, 117, 260, 261, 261, …   (begin of word, c, a, t, end of word, padding)
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..config import EncoderConfig
from ..errors import ConfigError, FormatError, quoted

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 257, 258, 259, 260, 261
BOS, EOS, UNK = "<S>", "</S>", "<UNK>"


class ByteCharacters:
    """UTF-8 bytes between word marks; a longer word loses its end, perhaps inside a character.

    What UTF-8 cannot hold (lone surrogates) is left out, as the original programs do. The words
    `<S>` and `</S>` mean the sentence boundaries, also where a text has them literally.
    """

    bos, eos = BOS, EOS

    def __init__(self, max_characters: int = 50) -> None:
        self.max_characters = max_characters

    def encode(self, words: Sequence[str]) -> NDArray[np.int64]:
        """One row of `max_characters` ids per word."""
        room = self.max_characters - 2
        spelled = [_utf8(word)[:room] for word in words]
        data = np.frombuffer(b"".join(s.ljust(room, b"\0") for s in spelled), dtype=np.uint8)
        lengths = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))
        rows = np.full((len(words), self.max_characters), PADDING, dtype=np.int64)
        rows[:, 0] = BEGIN_WORD
        inside = np.arange(room) < lengths[:, None]
        rows[:, 1:-1][inside] = data.reshape(-1, room)[inside] + np.int64(1)
        rows[np.arange(len(words)), 1 + lengths] = END_WORD
        for i, word in enumerate(words):
            if word == self.bos or word == self.eos:
                rows[i, 1] = BEGIN_SENTENCE if word == self.bos else END_SENTENCE
                rows[i, 2:] = [END_WORD] + [PADDING] * (self.max_characters - 3)
        return rows

    def is_cropped(self, word: str) -> bool:
        """Whether the word is longer than a row can hold."""
        return len(_utf8(word)) > self.max_characters - 2


class UnicodeCharacters:
    """Code points by a dictionary from the training corpus, with five special entries.

    ELMoForManyLangs was trained with `<bow>` and `<eow>` exchanged, so every published model
    needs them exchanged again.
    """

    bos, eos = "<bos>", "<eos>"

    def __init__(self, dictionary: Mapping[str, int], max_characters: int = 50) -> None:
        for special in ("<oov>", "<pad>", "<bos>", "<eos>", "<bow>", "<eow>"):
            if special not in dictionary:
                raise ConfigError(f"character dictionary: the entry {special!r} is missing")
        self.dictionary = dict(dictionary)
        self.max_characters = max_characters

    def encode(self, words: Sequence[str]) -> NDArray[np.int64]:
        """One row of `max_characters` ids per word."""
        ids, unknown = self.dictionary, self.dictionary["<oov>"]
        begin_word, end_word = ids["<eow>"], ids["<bow>"]
        rows = np.full((len(words), self.max_characters), ids["<pad>"], dtype=np.int64)
        for row, word in zip(rows, words, strict=True):
            if word == self.bos or word == self.eos:
                spelled = [ids[word]]
            else:
                spelled = [ids.get(c, unknown) for c in word[: self.max_characters - 2]]
            row[: len(spelled) + 2] = [begin_word, *spelled, end_word]
        return rows

    def is_cropped(self, word: str) -> bool:
        """Whether the word is longer than a row can hold."""
        return len(word) > self.max_characters - 2


class TokenIndexer:
    """Characters, table rows or both for a list of words, as the model's encoder wants them.

    Args:
        config: The encoder that will read the ids.
        characters: Code points and their ids, for an encoder with `characters="unicode"`.
        words: Words and their rows, for an encoder with word vectors.
    """

    def __init__(
        self,
        config: EncoderConfig,
        characters: dict[str, int] | None = None,
        words: dict[str, int] | None = None,
    ) -> None:
        self.characters = characters
        self.words = words
        self.scheme: ByteCharacters | UnicodeCharacters | None = None
        if (cnn := config.char_cnn) is not None:
            if cnn.characters == "bytes":
                self.scheme = ByteCharacters(cnn.max_characters)
            else:
                self.scheme = UnicodeCharacters(characters or {}, cnn.max_characters)
                _check_rows("character dictionary", self.scheme.dictionary, cnn.num_characters)
        if config.num_words:
            _check_rows("word dictionary", words or {}, config.num_words)
        self.unknown = _unknown_row(words) if config.num_words and words else 0
        by_words = UnicodeCharacters if words and "<bos>" in words else ByteCharacters
        self.bos, self.eos = (self.scheme or by_words).bos, (self.scheme or by_words).eos

    def __call__(
        self, words: Sequence[str]
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Character ids (a row per word) and table rows of `words`; None for an absent part."""
        characters = None if self.scheme is None else self.scheme.encode(words)
        if self.words is None:
            return characters, None
        if isinstance(self.scheme, UnicodeCharacters):
            # ELMoForManyLangs crops a word before it looks up either of its parts.
            words = [word[: self.scheme.max_characters - 2] for word in words]
        rows = [self.words.get(word, self.unknown) for word in words]
        return characters, np.array(rows, dtype=np.int64)


class Vocab(Sequence[str]):
    """Words in the order of their softmax rows; the three special words may stand anywhere.

    >>> vocab = Vocab(["<S>", "</S>", "<UNK>", "the", "cat"])
    >>> vocab.id("cat"), vocab.id("platypus")
    (4, 2)
    """

    def __init__(self, words: Iterable[str], name: str = "vocabulary") -> None:
        self.words = tuple(words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        for special in (BOS, EOS, UNK):
            if special not in self._ids:
                raise FormatError(f"{name}: the special word {special!r} is missing; add a line")

    @classmethod
    def read(cls, lines: Iterable[str], name: str) -> "Vocab":
        """The vocabulary of a file with one word per line (`name` is for errors).

        Blank and repeated lines keep their rows: a published softmax counts them.
        """
        words = (line.strip() for line in lines)
        # Old count tools end their files with this line, which is not a word.
        return cls((word for word in words if word != "!!!MAXTERMID"), name)

    @property
    def fingerprint(self) -> str:
        """The same for equal vocabularies, and for no others: 12 hexadecimal digits."""
        sha = hashlib.sha256()
        for word in self.words:
            sha.update(word.encode("utf-8", "surrogatepass") + b"\n")
        return sha.hexdigest()[:12]

    def id(self, word: str) -> int:
        """The row of `word`, or that of `<UNK>`."""
        return self._ids.get(word, self._ids[UNK])

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.words[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocab) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)


def _utf8(word: str) -> bytes:
    return word.encode("utf-8", "ignore")


def _unknown_row(words: Mapping[str, int]) -> int:
    for name in (UNK, "<oov>"):
        if name in words:
            return words[name]
    raise ConfigError("word dictionary: an entry '<UNK>' for words outside of it is missing")


def _check_rows(name: str, dictionary: Mapping[str, int], num_rows: int) -> None:
    """A dictionary that points outside its table would fail much later and say much less."""
    if len(dictionary) == 0:
        raise ConfigError(f"{name}: the model needs one and none was given")
    for entry, row in dictionary.items():
        if not 0 <= row < num_rows:
            raise ConfigError(
                f"{name}: {quoted(entry)} has id {row}, the model has 0..{num_rows - 1}"
            )
