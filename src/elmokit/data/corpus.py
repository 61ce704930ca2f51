"""A prepared corpus: sentences as memory-mapped word ids, every distinct word spelled once.

A folder that `elmokit prepare` made holds

    corpus.json         how it was made, its sizes, and the report
    words.txt           every distinct word, one a line; its row is its id
    vocab.txt           the first lines of the same: the words that the softmax predicts
    counts.npy          int64, how often each word stands in the training text
    characters.npy      uint16, the character ids of each word
    train.tokens.npy    int32, the word ids of all sentences, one after the other
    train.offsets.npy   int64, where each sentence begins, and where the last one ends
    valid.…             the same for the held-out text

Words are sorted by falling frequency after the three special ones, so a word is its own row of
the softmax if it is below `len(vocab)`, and `<UNK>` as a target otherwise.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import FileError, FormatError
from ..io.files import json_field, read_json
from ..text.vocab import BOS, EOS, UNK, Vocab

FORMAT = "elmokit-corpus-1"
BOS_ID, EOS_ID, UNK_ID = 0, 1, 2
SPECIAL_WORDS = (BOS, EOS, UNK)
"""The words of these three ids."""


@dataclass(frozen=True)
class Sentences:
    """Sentences one after the other, without boundary words.

    Attributes:
        tokens: The word ids of all sentences.
        offsets: Where each sentence begins in `tokens`, and where the last one ends.
    """

    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sentence; none is empty."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"sentence {i} of {len(self)}")
        i %= len(self)
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusInfo:
    """How a corpus was made, and its sizes.

    Attributes:
        tokenizer: Name of the tokenizer that cut the words.
        normalization: Unicode form of the words, or None.
        max_characters: Width of a row of character ids.
        num_words: Distinct words, the three special ones included.
        vocab_size: Words that the softmax predicts: the first of them.
        fingerprint: Hash of all words and sentences.
        report: What `elmokit prepare` found, as plain data.
    """

    tokenizer: str
    normalization: str | None
    max_characters: int
    num_words: int
    vocab_size: int
    train_sentences: int
    train_tokens: int
    valid_sentences: int
    valid_tokens: int
    fingerprint: str
    report: Mapping[str, Any] = field(repr=False)


class Corpus:
    """A prepared corpus on disk; see the module for its files."""

    def __init__(self, folder: Path, info: CorpusInfo) -> None:
        self.folder = folder
        self.info = info
        shape = (info.num_words, info.max_characters)
        self.counts: NDArray[np.int64] = self._map("counts", np.int64, (info.num_words,))
        self.characters: NDArray[np.uint16] = self._map("characters", np.uint16, shape)
        self.train = self._sentences("train", info.train_sentences, info.train_tokens)
        self.valid = self._sentences("valid", info.valid_sentences, info.valid_tokens)
        self.vocab = Vocab(self._lines("vocab.txt", info.vocab_size), str(folder / "vocab.txt"))

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Corpus":
        """The corpus in `folder`, its files checked for presence, type and size.

        Raises:
            FileError: There is no such folder.
            FormatError: It is not a prepared corpus, or one that lost a part.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise FileError(f"{folder}: no such folder; make it with: elmokit prepare TEXT -o DIR")
        if not (folder / "corpus.json").is_file():
            raise FormatError(
                f"{folder}: not a prepared corpus (there is no corpus.json); "
                "make one with: elmokit prepare TEXT -o DIR"
            )
        return cls(folder, _read_info(folder / "corpus.json"))

    @property
    def num_words(self) -> int:
        """Distinct words, the three special ones included."""
        return self.info.num_words

    @cached_property
    def words(self) -> list[str]:
        """All distinct words in the order of their ids; read on first use."""
        return self._lines("words.txt", self.num_words)

    def __repr__(self) -> str:
        return f"Corpus({str(self.folder)!r}, {self.info})"

    def _sentences(self, part: str, num_sentences: int, num_tokens: int) -> Sentences:
        tokens = self._map(f"{part}.tokens", np.int32, (num_tokens,))
        offsets = self._map(f"{part}.offsets", np.int64, (num_sentences + 1,))
        if offsets[0] != 0 or offsets[-1] != num_tokens:
            raise self._damaged(f"{part}.offsets.npy", "does not fit the tokens")
        return Sentences(tokens, offsets)

    def _map(self, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
        path = self.folder / f"{name}.npy"
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError as e:
            raise self._damaged(path.name, "is missing") from e
        except OSError as e:
            raise FileError(f"{path} cannot be read: {e.strerror or e}") from e
        except (ValueError, EOFError) as e:
            raise self._damaged(path.name, f"cannot be read ({e})") from e
        if array.dtype != dtype or array.shape != shape:
            found = f"{array.dtype}{list(array.shape)}"
            raise self._damaged(path.name, f"holds {found}, not {np.dtype(dtype)}{list(shape)}")
        return array  # type: ignore[no-any-return]

    def _lines(self, name: str, count: int) -> list[str]:
        path = self.folder / name
        try:
            words = path.read_bytes().decode("utf-8").split("\n")[:-1]
        except OSError as e:
            raise FileError(f"{path} cannot be read: {e.strerror or e}") from e
        except UnicodeDecodeError as e:
            raise self._damaged(name, "is not UTF-8") from e
        if len(words) != count:
            raise self._damaged(name, f"has {len(words)} lines, not {count}")
        if tuple(words[:3]) != SPECIAL_WORDS:
            raise self._damaged(name, f"does not begin with {' '.join(SPECIAL_WORDS)}")
        return words

    def _damaged(self, name: str, problem: str) -> FormatError:
        return FormatError(f"{self.folder}: {name} {problem}; prepare the corpus again")


def _read_info(path: Path) -> CorpusInfo:
    values = read_json(path)
    found = values.get("format")
    if found != FORMAT:
        raise FormatError(f"{path}: format={found!r:.40}: expected {FORMAT!r}")

    def get(name: str, *kinds: type) -> Any:
        value = json_field(values, name, *kinds, where=str(path))
        if int in kinds and value < 0:
            raise FormatError(f"{path}: {name}={value}: expected a number from 0")
        return value

    sizes = {
        f"{part}_{what}": get(f"{part}.{what}", int)
        for part in ("train", "valid")
        for what in ("sentences", "tokens")
    }
    return CorpusInfo(
        tokenizer=get("tokenizer", str),
        normalization=get("normalization", str, type(None)),
        max_characters=get("max_characters", int),
        num_words=get("num_words", int),
        vocab_size=get("vocab_size", int),
        fingerprint=get("fingerprint", str),
        report=get("report", dict),
        **sizes,
    )
