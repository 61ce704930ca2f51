"""Which files to read, and a first look at all of them before time is spent."""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Protocol

from ..errors import FileError, FormatError, InputError
from ..files.read import not_utf8, read_blocks
from ..files.write import whole_file
from ..text.sentences import Choice

_READ_BYTES = 4 << 20
_SAMPLED_LINES, _SAMPLED_LINES_A_BLOCK = 10_000, 1000


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read, and the name by which the user knows it."""

    path: Path
    name: str
    is_named: bool
    """Whether the user named this very file, rather than a folder with it."""


class ByteBar(Protocol):
    """Is told of the bytes that have been read."""

    def update(self, number: int) -> object:
        """So many more."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a first reading of some files found.

    Attributes:
        files: Those with text in them.
        empty_files: The names of those without.
        num_bytes: Bytes of text, decompressed.
        digest: Hash of all text.
        sample: Lines from everywhere in it.
    """

    files: list[Path]
    empty_files: list[str]
    num_bytes: int
    digest: str
    sample: list[str]


@dataclass(frozen=True, slots=True)
class Text:
    """One input as the user named it: a file, a folder or standard input."""

    name: str
    scan: Scan
    choice: Choice


def find_files(inputs: Sequence[str | Path]) -> list[Source]:
    """The files of the inputs in order; those of a folder sorted, without hidden ones."""
    files: list[Source] = []
    for path in map(Path, inputs):
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if _is_visible(file, path))
            if not found:
                raise InputError(f"{path}: there is no file in this folder")
            files += [Source(file, str(file), is_named=False) for file in found]
        elif str(path) == "-":
            files.append(Source(path, "standard input", is_named=True))
        elif path.exists():
            files.append(Source(path, str(path), is_named=True))
        else:
            raise FileError(f"{path}: no such file or folder")
    return files


def spooled(files: Sequence[Source], folder: Path, prefix: str) -> list[Source]:
    """The same files, with a copy in `folder` of each that can be read only once."""
    regular = []
    for i, file in enumerate(files):
        if str(file.path) == "-" or not file.path.is_file():
            copy = folder / f"{prefix}-{i}{file.path.suffix}"
            with (
                whole_file(copy) as temporary,
                _open_stream(file.path) as stream,
                temporary.open("wb") as target,
            ):
                shutil.copyfileobj(stream, target)
            file = replace(file, path=copy)
        regular.append(file)
    return regular


def scan(files: Sequence[Source], bar: "ByteBar") -> Scan:
    """Read everything once, and fail at the first byte that is not text."""
    sha, num_bytes = hashlib.sha256(), 0
    sample, filled, empty = list[str](), list[Path](), list[str]()
    for file in files:
        size = 0
        for block, text in _checked(file):
            sha.update(block)
            size += len(block)
            room = min(_SAMPLED_LINES_A_BLOCK, _SAMPLED_LINES - len(sample))
            sample += islice(text.split("\n"), max(0, room))
            bar.update(len(block))
        sha.update(b"\0")  # where a file ends is part of the text
        num_bytes += size
        if size:
            filled.append(file.path)
        elif file.is_named:
            raise InputError(f"{file.name} is empty; leave it out")
        else:
            empty.append(file.name)
    if empty and not filled:
        raise InputError(f"{empty[0]} is empty, and so are all files beside it")
    return Scan(filled, empty, num_bytes, sha.hexdigest(), sample)


def text_blocks(files: Sequence[Path], size: int, *, paragraphs: bool) -> Iterator[bytes]:
    """All text in blocks of whole lines, small files together.

    A block has about `size` bytes, at least half of them; with `paragraphs`, it rather ends between
    two of these, as files always do.
    """
    parts: list[bytes] = []
    for path in files:
        if parts and paragraphs:
            parts.append(b"\n")
        block = b""
        for i, block in enumerate(read_blocks(path, size, paragraphs=paragraphs)):
            parts.append(block.removeprefix(b"\xef\xbb\xbf") if i == 0 else block)
            if sum(map(len, parts)) >= size // 2:
                yield b"".join(parts)
                parts = []
        if parts and not block.endswith(b"\n"):
            parts.append(b"\n")
    if parts:
        yield b"".join(parts)


def _open_stream(path: Path) -> IO[bytes]:
    if str(path) == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return path.open("rb")


def _checked(file: Source) -> Iterator[tuple[bytes, str]]:
    """The blocks of a file, as bytes and as text."""
    num_lines = 0
    name = file.name
    for block in read_blocks(file.path, _READ_BYTES):
        if num_lines == 0 and block.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise FormatError(
                f"{name}, line 1: UTF-16, not UTF-8; convert the file: iconv -f UTF-16 -t UTF-8"
            )
        if (zero := block.find(b"\0")) >= 0:
            line = num_lines + block.count(b"\n", 0, zero) + 1
            raise FormatError(f"{name}, line {line}: a zero byte, so this is no text; leave it out")
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError as e:
            line = num_lines + block.count(b"\n", 0, e.start) + 1
            column = e.start - (block.rfind(b"\n", 0, e.start) + 1)
            raise not_utf8(name, line, e.reason, column) from e
        yield block, text
        num_lines += block.count(b"\n")


def _is_visible(path: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
    return not hidden and path.is_file()
