"""The finished lines of an embedding run, kept in a work folder until the file can take its name.

JSON lines are written once, straight into the file that gets the name in the end (`Lines`). The
other formats cannot be continued after a kill, so their lines are kept as blocks and written to
the file when all are there (`Blocks`), which takes twice the disk.
"""

import hashlib
import json
import logging
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from .. import __version__
from ..errors import ConfigError, FormatError, quoted
from ..files.arrays import load_arrays, save_arrays
from ..files.folders import Work, open_work
from ..files.read import MAX_WORDS_BYTES, check_readable, is_there
from ..files.write import check_space, write_errors
from .write import BINARY, Entry, Offsets, json_lines, write_vectors

log = logging.getLogger(__name__)

_KINDS = {
    "digest": (np.uint8, 1), "words": (np.uint8, 1), "shapes": (np.int64, 2),
    "values": (np.float32, 1),
}  # fmt: skip
_VERSION = "elmokit"
"""The setting that names the version which began a run; older ones kept no offsets either."""
_CHUNK = 1 << 20


@contextmanager
def open_unfinished(
    output: Path, ndim: int, metadata: Mapping[str, object] | None = None
) -> Iterator["Unfinished"]:
    """The finished part of a run in OUT.partial, for this process alone.

    `ndim` and `metadata` are those of `write_vectors`.
    """
    with open_work(output) as work:
        # A run of an older version has kept blocks of JSON lines, too.
        is_jsonl = output.suffix.lower() == ".jsonl" and not is_there(_block_path(work, 0))
        yield Lines(work, ndim) if is_jsonl else Blocks(work, ndim, metadata)


class Unfinished(ABC):
    """The finished lines of one run; make it with `open_unfinished`."""

    def __init__(self, work: Work, ndim: int, metadata: Mapping[str, object] | None = None) -> None:
        self.work = work
        self.output = work.output
        self.ndim = ndim
        self.metadata = metadata
        self.num_lines = 0
        self.result = work.folder / f"result{work.output.suffix}"

    def begin(self, settings: Mapping[str, str], lines: Iterator[str], resume: bool) -> None:
        """Make the folder ready: empty, or with `lines` past what an earlier run has done.

        `lines` are the text from its beginning; the `settings` must not change within a run.
        """
        try:
            found = self.work.settings() if resume else None
        except FormatError as e:
            raise FormatError(f"{e}; leave --resume out to begin anew") from e
        if found is None:
            noted = {**settings, _VERSION: __version__}
            self.work.begin(noted, "unfinished work is discarded (--resume keeps it)")
            self.result.unlink(missing_ok=True)
            return
        # Work of older versions does not say these.
        found = {"sentences": "lines", "empty": "none", **found}
        for name, value in settings.items():
            if found.get(name) != value:
                raise ConfigError(
                    f"{self.work.folder} was begun with {name}={quoted(found.get(name))}, not "
                    f"{quoted(value)}; use the same settings, or leave --resume out to begin anew"
                )
        self._skip_finished(lines)
        log.info("%s: continued after %d lines", self.work.folder, self.num_lines)
        if _VERSION not in found and self.num_lines:
            log.warning(
                "%s was begun by an older elmokit: lines 1..%d have no offsets; leave --resume "
                "out to begin anew",
                self.work.folder,
                self.num_lines,
            )

    @abstractmethod
    def add(self, entries: Sequence[Entry]) -> None:
        """Keep the next lines of the run."""

    @abstractmethod
    def finish(self) -> int:
        """Make OUT of all lines that were kept; returns their number."""

    def write(self, entries: Iterable[Entry]) -> int:
        """Make OUT of lines that were not kept, all of it or nothing; returns their number."""
        num_lines = 0

        def counted() -> Iterator[Entry]:
            nonlocal num_lines
            for entry in entries:
                yield entry
                num_lines += 1

        try:
            with write_errors(self.output, self.result):
                write_vectors(self.result, counted(), self.ndim, self.metadata)
            self.work.publish(self.result)
        finally:
            self.result.unlink(missing_ok=True)
        return num_lines

    @abstractmethod
    def _skip_finished(self, lines: Iterator[str]) -> None:
        """Go past the lines that were kept, up to the first that is missing or damaged."""

    def _check_lines(self, lines: Iterator[str], num_lines: int, digest: bytes) -> None:
        """Go past some lines, which must be those of an earlier run."""
        first = self.num_lines + 1
        if _digest(islice(lines, num_lines)) != digest:
            raise ConfigError(
                f"{self.work.folder}: the input is not the one that the run was begun with "
                f"(lines {first}..{first + num_lines - 1}); leave --resume out to begin anew"
            )


class Lines(Unfinished):
    """JSON lines, of which a journal says how many are finished, with checksums of all."""

    def __init__(self, work: Work, ndim: int) -> None:
        super().__init__(work, ndim)
        self._journal = work.folder / "journal"

    def add(self, entries: Sequence[Entry]) -> None:
        size = crc = 0
        with write_errors(self.output, self.result):
            with self.result.open("ab") as file:
                for line in json_lines(entries, self.ndim):
                    data = line.encode("utf-8")
                    size, crc = size + file.write(data), zlib.crc32(data, crc)
                _to_disk(file)
            digest = _digest(entry.text for entry in entries).hex()
            with self._journal.open("ab") as file:
                file.write(_Group(len(entries), digest, size, crc).to_line())
                _to_disk(file)
        self.num_lines += len(entries)

    def finish(self) -> int:
        with write_errors(self.output, self.result):
            self.result.touch()  # a text may have no lines
        self.work.publish(self.result)
        return self.num_lines

    def _skip_finished(self, lines: Iterator[str]) -> None:
        start, noted = 0, 0
        for line in self._journal_lines():
            group = _Group.from_line(line)
            if group is None or not self._is_whole(group, start):
                where = f"{self.result}, after line {self.num_lines}"
                log.warning("%s is damaged; it is computed again, and so is what follows it", where)
                break
            self._check_lines(lines, group.num_lines, bytes.fromhex(group.digest))
            self.num_lines += group.num_lines
            start, noted = start + group.size, noted + len(line)
        for path, size in ((self._journal, noted), (self.result, start)):
            if is_there(path):
                with write_errors(path), path.open("r+b") as file:
                    file.truncate(size)

    def _journal_lines(self) -> list[bytes]:
        """The lines of the journal, without one that a kill has cut short."""
        if not is_there(self._journal):
            return []
        check_readable(self._journal, MAX_WORDS_BYTES)
        lines = self._journal.read_bytes().splitlines(keepends=True)
        return [line for line in lines if line.endswith(b"\n")]

    def _is_whole(self, group: "_Group", start: int) -> bool:
        """Whether the bytes of a group are in the file as they were written."""
        if not is_there(self.result):
            return False
        check_readable(self.result)
        left, crc = group.size, 0
        with self.result.open("rb") as file:
            file.seek(start)
            while left and (data := file.read(min(left, _CHUNK))):
                left, crc = left - len(data), zlib.crc32(data, crc)
        return left == 0 and crc == group.crc


class _Group(NamedTuple):
    """A line of the journal: lines that were finished together."""

    num_lines: int
    digest: str
    size: int
    crc: int

    def to_line(self) -> bytes:
        """The group and a checksum of it."""
        text = json.dumps(self).encode()
        return text + f" {zlib.crc32(text):08x}\n".encode()

    @classmethod
    def from_line(cls, line: bytes) -> "_Group | None":
        """The group, or None if the line is damaged."""
        text, _, checksum = line.rpartition(b" ")
        if checksum != f"{zlib.crc32(text):08x}\n".encode():
            return None
        try:
            group = cls(*json.loads(text))
            bytes.fromhex(group.digest)
            return group if min(group.num_lines, group.size) > 0 else None
        except (ValueError, TypeError):
            return None


class Blocks(Unfinished):
    """Files of arrays, each named by its first line: lines, their tokens and their vectors."""

    def __init__(self, work: Work, ndim: int, metadata: Mapping[str, object] | None = None) -> None:
        super().__init__(work, ndim, metadata)
        self._files: list[Path] = []
        self._num_bytes = 0

    def add(self, entries: Sequence[Entry]) -> None:
        texts = [entry.text for entry in entries]
        words = {
            "texts": texts,
            "tokens": [entry.tokens for entry in entries],
            "offsets": [entry.offsets for entry in entries],
        }
        path = _block_path(self.work, self.num_lines)
        save_arrays(
            path,
            digest=np.frombuffer(_digest(texts), dtype=np.uint8),
            words=np.frombuffer(json.dumps(words).encode(), dtype=np.uint8),
            shapes=np.array([entry.vectors.shape for entry in entries], dtype=np.int64),
            values=np.concatenate([entry.vectors.ravel() for entry in entries]),
        )
        self._keep(path, entries)

    def entries(self) -> Iterator[Entry]:
        """All entries that were kept, in order."""
        first = 0
        for path in self._files:
            entries = _load(path, first)
            yield from entries
            first += len(entries)

    def finish(self) -> int:
        if self.output.suffix.lower() in BINARY:
            with write_errors(self.output, self.result):
                # Sentences are there twice, and in an npz file for a moment once more.
                is_npz = self.output.suffix.lower() == ".npz"
                copies = 1 if self.ndim > 1 else 3 if is_npz else 2
                check_space(self.result, copies * self._num_bytes)
        return self.write(self.entries())

    def _skip_finished(self, lines: Iterator[str]) -> None:
        while is_there(path := _block_path(self.work, self.num_lines)):
            try:
                entries = _load(path, self.num_lines)
            except FormatError as e:  # as after a power failure
                log.warning("%s; it is computed again, and so is what follows it", e)
                return
            self._check_lines(lines, len(entries), _digest(entry.text for entry in entries))
            self._keep(path, entries)

    def _keep(self, path: Path, entries: Sequence[Entry]) -> None:
        self._files.append(path)
        self.num_lines += len(entries)
        self._num_bytes += sum(entry.vectors.nbytes for entry in entries)


def _block_path(work: Work, first: int) -> Path:
    return work.block(f"{first:012d}")


def _load(path: Path, first: int) -> list[Entry]:
    """The entries of a block, numbered from `first`, with every byte of it checked."""
    arrays = load_arrays(path, _KINDS)
    shapes, values = arrays["shapes"], arrays["values"]
    try:
        words = json.loads(arrays["words"].tobytes())
        texts, tokens = words["texts"], words["tokens"]
        # Older versions kept none.
        offsets = [_offsets(spans) for spans in words.get("offsets", [None] * len(texts))]
        is_whole = (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(token, str) for line in tokens for token in line)
            and 0 < len(texts) == len(tokens) == len(offsets) == len(shapes)
            and _digest(texts) == arrays["digest"].tobytes()
            and shapes.min() >= 0
            and int(shapes.prod(axis=1).sum()) == len(values)
        )
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise FormatError(f"{path} is damaged ({e!s:.80})") from e
    if not is_whole:
        raise FormatError(f"{path} is damaged (its parts do not fit together)")
    vectors = np.split(values, np.cumsum(shapes.prod(axis=1))[:-1])
    return [
        Entry(first + i, text, tokens[i], vectors[i].reshape(shapes[i]), offsets[i])
        for i, text in enumerate(texts)
    ]


def _offsets(spans: Any) -> Offsets | None:
    return None if spans is None else [(int(start), int(end)) for start, end in spans]


def _digest(lines: Iterable[str]) -> bytes:
    sha = hashlib.sha256()
    for line in lines:
        sha.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return sha.digest()


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
