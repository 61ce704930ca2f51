"""Words → the ids that a token encoder reads."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..config import EncoderConfig
from ..errors import ConfigError, quoted
from .chars import ByteCharacters, CharacterScheme, UnicodeCharacters


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
        self.scheme: CharacterScheme | None = None
        if config.char_cnn is not None:
            limit = config.char_cnn.max_characters
            if config.char_cnn.characters == "bytes":
                self.scheme = ByteCharacters(limit)
            else:
                self.scheme = UnicodeCharacters(characters or {}, limit)
                _check_rows("character dictionary", self.scheme.dictionary,
                            config.char_cnn.num_characters)  # fmt: skip
        if config.num_words:
            _check_rows("word dictionary", words or {}, config.num_words)
        self.unknown = _unknown_row(words) if config.num_words and words else 0
        named = "<bos>" if words and "<bos>" in words else "<S>"
        self.bos = self.scheme.bos if self.scheme else named
        self.eos = self.scheme.eos if self.scheme else {"<bos>": "<eos>", "<S>": "</S>"}[named]

    def __call__(
        self, words: Sequence[str]
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Character ids (a row a word) and table rows of `words`; None for an absent part."""
        characters = None if self.scheme is None else self.scheme.encode(words)
        if self.words is None:
            return characters, None
        if isinstance(self.scheme, UnicodeCharacters):
            # ELMoForManyLangs crops a word before it looks up either of its parts.
            words = [word[: self.scheme.max_characters - 2] for word in words]
        rows = [self.words.get(word, self.unknown) for word in words]
        return characters, np.array(rows, dtype=np.int64)


def _unknown_row(words: Mapping[str, int]) -> int:
    for name in ("<UNK>", "<oov>"):
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
