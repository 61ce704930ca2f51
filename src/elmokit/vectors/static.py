"""Static word vectors: GloVe, word2vec (text or binary) and fastText `.vec` files.

The kind is found by content: a first line of two whole numbers is a header, and what follows it is
text if it looks like text. No memory is set aside for what a header says: rows are kept as they
come.
"""

import codecs
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, InputError
from ..files.read import read_blocks

MAX_DIM = 1 << 16
"""Values of a vector; a header that says more is damaged."""
_MAX_LINE_BYTES, _MAX_WORD_BYTES, _SAMPLE_BYTES = 4 << 20, 1 << 12, 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaticVectors:
    """Words and their vectors. An unknown word has zeros: it says nothing.

    Attributes:
        words: Row of each word, in the order of the rows.
        matrix: One vector per row, (N, D).
        lowercase: Whether a word that is not there is looked up in lower case.
        source: The file they were read from, if any.
    """

    words: dict[str, int]
    matrix: NDArray[np.float32]
    lowercase: bool = True
    source: str | None = None

    @property
    def dim(self) -> int:
        """D, the size of a vector."""
        return int(self.matrix.shape[1])

    def row(self, word: str) -> int | None:
        """The row of a word, or None."""
        found = self.words.get(word)
        return self.words.get(word.lower()) if found is None and self.lowercase else found

    def vectors(self, tokens: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of some tokens, (T, D), with zeros for unknown ones."""
        result = np.zeros((len(tokens), self.dim), np.float32)
        for i, token in enumerate(tokens):
            if (row := self.row(token)) is not None:
                result[i] = self.matrix[row]
        return result


def read_static_vectors(path: Path | str, wanted: Collection[str] | None = None) -> StaticVectors:
    """The vectors of a file, plain or compressed, in any of the usual formats.

    Of a word that is there twice, the first vector counts. Words that are not UTF-8 are left out.
    With `wanted`, only these words are kept, as they are and in lower case; of the vectors of
    others, only the number of values is checked.

    Raises:
        FormatError: A line or a vector is damaged; says which.
    """
    stream = ByteStream(read_blocks(path, 1 << 20))
    if stream.at_end:
        raise InputError(f"{path} is empty; expected word vectors")
    first = stream.peek(_MAX_LINE_BYTES).partition(b"\n")[0]
    header = _header(first)
    if header:
        stream.until(b"\n", _MAX_LINE_BYTES)
    num_words, dim = header or (None, len(first.split()) - 1)
    if header and not 1 <= dim <= MAX_DIM:
        raise FormatError(f"{path}, line 1: vectors of {dim} values; expected 1..{MAX_DIM}")
    if not 1 <= dim <= MAX_DIM or _has_control(first):
        raise FormatError(
            f"{path}, line 1: not word vectors in the format of GloVe, word2vec or fastText .vec"
        )
    table = _Table(path, dim, wanted)
    if num_words is not None and _is_binary(stream.peek(_SAMPLE_BYTES), dim):
        for word, values, where in _binary_rows(stream, num_words, dim, path):
            if key := table.key(word):
                table.add(key, np.frombuffer(values, "<f4"), where)
    else:
        for word, values, where in _text_rows(stream, dim, 2 if header else 1, path):
            if key := table.key(word):
                table.add(key, _numbers(values, where), where)
    return table.finish(num_words)


class _Table:
    """The rows that are kept, as they come."""

    def __init__(self, path: Path | str, dim: int, wanted: Collection[str] | None) -> None:
        self.path, self.dim = path, dim
        self.wanted = None if wanted is None else {*wanted, *(word.lower() for word in wanted)}
        self.words: dict[str, int] = {}
        self.values = bytearray()
        self.num_read = self.num_undecodable = 0

    def key(self, word: bytes) -> str | None:
        """The word as text if its vector is to be kept."""
        self.num_read += 1
        try:
            key = word.decode("utf-8")
        except UnicodeDecodeError:
            self.num_undecodable += 1
            return None
        new = key not in self.words and (self.wanted is None or key in self.wanted)
        return key if new else None

    def add(self, key: str, values: NDArray[np.float32], where: str) -> None:
        if len(values) != self.dim:
            raise FormatError(f"{where}: {len(values)} values; expected {self.dim}")
        if not np.isfinite(values).all():
            raise FormatError(f"{where}: a value is not a finite number")
        self.words[key] = len(self.words)
        self.values += values.tobytes()

    def finish(self, num_words: int | None) -> StaticVectors:
        if not self.num_read:
            raise InputError(f"{self.path} has a header and no vectors")
        if num_words is not None and num_words > self.num_read:
            raise FormatError(
                f"{self.path} is truncated: its header says {num_words:,} words, and it has "
                f"{self.num_read:,}; download it again"
            )
        if num_words not in (None, self.num_read):
            found = (num_words, self.num_read)
            _log.warning("%s: its header says %d words, but it has %d", self.path, *found)
        if number := self.num_undecodable:
            _log.warning("%s: left out %d words that are not UTF-8", self.path, number)
        matrix = np.frombuffer(self.values, np.float32).reshape(-1, self.dim)
        return StaticVectors(self.words, matrix, source=str(self.path))


def _header(line: bytes) -> tuple[int, int] | None:
    """The number of words and of values that a first line says, if it is a header."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 20 for field in fields):
        return int(fields[0]), int(fields[1])
    return None


def _is_binary(start: bytes, dim: int) -> bool:
    """Whether what follows a header is numbers in bytes, rather than in digits."""
    fields = start.partition(b"\n")[0].rsplit(None, dim)
    if len(fields) == dim + 1 and all(map(_is_number, fields[1:])):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last character may be cut
    except UnicodeDecodeError:
        return True
    return _has_control(start)


def _has_control(text: bytes) -> bool:
    return any(byte < 32 and byte not in b"\t\r\n" for byte in text[:_SAMPLE_BYTES])


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_rows(
    stream: "ByteStream", dim: int, number: int, path: Path | str
) -> Iterator[tuple[bytes, bytes, str]]:
    """Word, numbers and position of every line from line `number` on."""
    while not stream.at_end:
        where = f"{path}, line {number}"
        line = stream.until(b"\n", _MAX_LINE_BYTES)
        if line is None:
            raise FormatError(f"{where}: longer than {_MAX_LINE_BYTES:,} bytes; this is no vector")
        line = line.rstrip()
        number += 1
        if not line:
            continue
        word, _, values = line.partition(b" ")
        if line.count(b" ") != dim:
            # A word with a space in it (GloVe 840B has some), or columns separated by tabs.
            fields = line.rsplit(None, dim)
            if len(fields) != dim + 1:
                found = len(line.split()) - 1
                raise FormatError(f"{where}: {found} values after the word; expected {dim}")
            word, values = fields[0], b" ".join(fields[1:])
        yield word, values, where


def _binary_rows(
    stream: "ByteStream", num_words: int, dim: int, path: Path | str
) -> Iterator[tuple[bytes, bytes, str]]:
    """Word, bytes and position of every vector of a word2vec binary."""
    for number in range(1, num_words + 1):
        if stream.at_end:
            return
        where = f"{path}, vector {number} of {num_words}"
        word = stream.until(b" ", _MAX_WORD_BYTES)
        if word is None:
            raise FormatError(f"{where}: its word does not end; the file is damaged")
        if not word.strip() and stream.at_end:
            return
        values = stream.take(4 * dim)
        if len(values) < 4 * dim:
            raise FormatError(f"{where}: ends after {len(values)} of {4 * dim} bytes")
        # The original program ends every vector with a newline, others do not.
        yield word.removeprefix(b"\n"), values, where


def _numbers(values: bytes, where: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            return np.array([float(value) for value in values.split()], np.float32)
    except ValueError as e:
        raise FormatError(f"{where}: not a number ({e!s:.120})") from e


class ByteStream:
    """The bytes of some blocks, read from the front; a byte order mark is skipped."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._buffer = b""
        self._position = 0
        self._more()
        self._buffer = self._buffer.removeprefix(b"\xef\xbb\xbf")

    @property
    def at_end(self) -> bool:
        """Whether there is nothing left."""
        return self._position == len(self._buffer) and not self._more()

    def until(self, end: bytes, limit: int) -> bytes | None:
        """The bytes before the next `end`, which is skipped, or before the end of the file.

        None if there are more of them than `limit`, which are then still to be read.
        """
        searched = self._position
        while (found := self._buffer.find(end, searched)) < 0:
            if len(self._buffer) - self._position > limit:
                return None
            unread = len(self._buffer) - self._position
            if not self._more():
                return self.take(unread)
            searched = unread
        if found - self._position > limit:
            return None
        start, self._position = self._position, found + len(end)
        return self._buffer[start:found]

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or fewer at the end of the file."""
        self._fill(size)
        start, self._position = self._position, min(self._position + size, len(self._buffer))
        return self._buffer[start : self._position]

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, which are still to be read; fewer at the end of the file."""
        self._fill(size)
        return self._buffer[self._position : self._position + size]

    def _fill(self, size: int) -> None:
        while len(self._buffer) - self._position < size and self._more():
            pass

    def _more(self) -> bool:
        """Put another block behind what is not read yet; False at the end of the file."""
        block = next(self._blocks, b"")
        if block:
            self._buffer = self._buffer[self._position :] + block
            self._position = 0
        return bool(block)
