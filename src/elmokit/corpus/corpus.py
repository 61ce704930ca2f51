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

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import ConfigError, FileError, FormatError, quoted
from ..files.read import (
    MAX_WORDS_BYTES,
    check_readable,
    is_there,
    json_field,
    read_json,
    unreadable,
)
from ..text.ids import BOS, EOS, PADDING, UNK, Vocab
from ..text.sentences import SENTENCE_MODES, SentenceMode

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
        self._check_range("counts", self.counts, None)
        self._check_range("characters", self.characters, PADDING + 1)
        self.train = self._sentences("train", info.train_sentences, info.train_tokens)
        self.valid = self._sentences("valid", info.valid_sentences, info.valid_tokens)
        self.vocab = Vocab(self._lines("vocab.txt", info.vocab_size), str(folder / "vocab.txt"))

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Corpus":
        """The corpus in `folder`, every number of it checked.

        Raises:
            FileError: There is no such folder, or a file cannot be read.
            FormatError: It is not a prepared corpus, or one that is damaged.
        """
        folder = Path(folder)
        if not is_there(folder) or not folder.is_dir():
            raise FileError(f"{folder}: no such folder; make it with: elmokit prepare TEXT -o DIR")
        if not is_there(folder / "corpus.json"):
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
        words = self._lines("words.txt", self.num_words)
        if words[: len(self.vocab)] != list(self.vocab):
            raise self._damaged("words.txt", "does not begin with the words of vocab.txt")
        return words

    def __repr__(self) -> str:
        return f"Corpus({str(self.folder)!r}, {self.info})"

    def _sentences(self, part: str, num_sentences: int, num_tokens: int) -> Sentences:
        tokens = self._map(f"{part}.tokens", np.int32, (num_tokens,))
        offsets = self._map(f"{part}.offsets", np.int64, (num_sentences + 1,))
        if offsets[0] != 0 or offsets[-1] != num_tokens:
            raise self._damaged(f"{part}.offsets.npy", "does not fit the tokens")
        if (decreasing := np.flatnonzero(np.diff(offsets) <= 0)).size:
            raise self._damaged(
                f"{part}.offsets.npy", f"does not increase after sentence {decreasing[0]}"
            )
        self._check_range(f"{part}.tokens", tokens, self.num_words)
        return Sentences(tokens, offsets)

    def _map(self, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
        path = self._file(f"{name}.npy")
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except OSError as e:
            raise unreadable(path, e) from e
        except Exception as e:  # numpy reads the header as Python, so it can fail in many ways
            raise self._damaged(path.name, f"cannot be read ({e!s:.80})") from e
        if array.dtype != dtype or array.shape != shape:
            found = f"{array.dtype}{list(array.shape)}"
            raise self._damaged(path.name, f"holds {found}, not {np.dtype(dtype)}{list(shape)}")
        return array  # type: ignore[no-any-return]

    def _check_range(self, name: str, values: NDArray[Any], end: int | None) -> None:
        """Refuse numbers below 0, or from `end` on."""
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if low < 0 or (end is not None and high >= max(end, 1)):
            allowed = "0 and more" if end is None else f"0..{end - 1}"
            raise self._damaged(
                f"{name}.npy", f"holds {low if low < 0 else high}; expected {allowed}"
            )

    def _lines(self, name: str, count: int) -> list[str]:
        path = self._file(name, MAX_WORDS_BYTES)
        try:
            words = path.read_bytes().decode("utf-8").split("\n")[:-1]
        except OSError as e:
            raise unreadable(path, e) from e
        except UnicodeDecodeError as e:
            raise self._damaged(name, "is not UTF-8") from e
        if len(words) != count:
            raise self._damaged(name, f"has {len(words)} lines, not {count}")
        if tuple(words[:3]) != SPECIAL_WORDS:
            raise self._damaged(name, f"does not begin with {' '.join(SPECIAL_WORDS)}")
        if "" in words or len(set(words)) < count:
            raise self._damaged(name, "has an empty line, or the same word twice")
        return words

    def _file(self, name: str, max_bytes: int | None = None) -> Path:
        path = self.folder / name
        if not is_there(path):
            raise self._damaged(name, "is missing")
        check_readable(path, max_bytes)
        return path

    def _damaged(self, name: str, problem: str) -> FormatError:
        return FormatError(f"{self.folder}: {name} {problem}; prepare the corpus again")


def _read_info(path: Path) -> CorpusInfo:
    values = read_json(path)
    found = values.get("format")
    if found != FORMAT:
        raise FormatError(f"{path}: format={quoted(found)}: expected {FORMAT!r}")

    def get(name: str, *kinds: type, default: Any = ...) -> Any:
        return json_field(values, name, *kinds, where=str(path), default=default)

    def count(name: str, least: int = 0, most: int = 2**62) -> int:
        value: int = get(name, int)
        if not least <= value <= most:
            limits = f"{least} or more" if most == 2**62 else f"{least}..{most}"
            raise FormatError(f"{path}: {name}={quoted(value)}: expected {limits}")
        return value

    normalization = get("normalization", str, type(None))
    if normalization not in ("NFC", None):
        raise FormatError(f"{path}: normalization={quoted(normalization)}: expected NFC or null")
    for i, text in enumerate(get("report.inputs", list, default=[])):
        text = {"input": text}
        json_field(text, "input.name", str, where=f"{path}: report.inputs[{i}]")
        json_field(text, "input.weight", int, float, where=f"{path}: report.inputs[{i}]")
    special = len(SPECIAL_WORDS)
    num_words = count("num_words", special)
    sizes = {
        f"{part}_{what}": count(f"{part}.{what}")
        for part in ("train", "valid")
        for what in ("sentences", "tokens")
    }
    return CorpusInfo(
        tokenizer=get("tokenizer", str),
        normalization=normalization,
        max_characters=count("max_characters", 3, 2**16),
        num_words=num_words,
        vocab_size=count("vocab_size", special, num_words),
        fingerprint=get("fingerprint", str),
        report=get("report", dict),
        **sizes,
    )


Mode: TypeAlias = Literal["auto"] | SentenceMode


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareConfig:
    """How text is read, and what is made of it.

    Attributes:
        tokenizer: As in `Elmo`: regex, whitespace, spacy:LANGUAGE or kiwi.
        normalization: Unicode form of all text, or None.
        sentences: One per line ("lines"), several per line ("split"), or running over the ends of
            lines ("wrapped", with blank lines between paragraphs); "auto" looks at each input.
        max_length: Maximum words per sentence; a longer one is cut into even pieces.
        vocab_size: Maximum words that the softmax predicts, including the three special ones.
        min_count: How often each of them must occur.
        max_characters: Maximum UTF-8 bytes per word, including two boundary markers.
        valid_fraction: Fraction of the tokens to hold out, up to 200,000 of them: lines chosen by a
            hash of their text. Not used where files are held out.
        clean: Remove markup, and drop boilerplate, duplicate lines and training lines that are also
            in the held-out text; see `elmokit.corpus.clean`.
    """

    tokenizer: str = "regex"
    normalization: str | None = "NFC"
    sentences: Mode = "auto"
    max_length: int = 400
    vocab_size: int = 50_000
    min_count: int = 1
    max_characters: int = 50
    valid_fraction: float = 0.01
    clean: bool = False

    def __post_init__(self) -> None:
        modes = ("auto", *SENTENCE_MODES)
        if self.sentences not in modes:
            raise ConfigError(f"sentences={quoted(self.sentences)}: expected {', '.join(modes)}")
        limits = {
            "max_length": (1, math.inf), "vocab_size": (len(SPECIAL_WORDS) + 1, math.inf),
            "min_count": (1, math.inf), "max_characters": (3, 1000), "valid_fraction": (0, 0.5),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name}={getattr(self, name)}: expected {low}..{high}")
