"""The finished part of a long run, kept in a folder OUT.partial until OUT can be written whole.

    meta.json            the settings of the run
    000000000000.npz     a block of entries, named by its first line; each is whole or not there
    result.h5            OUT while it is being written, renamed when it is complete

A run that is killed at any moment leaves nothing at OUT, and its blocks can be continued.
"""

import hashlib
import json
import logging
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ConfigError, FileError
from ..files import read_json, whole_file, write_json
from ..lock import locked
from .entry import Entry
from .write import write_vectors

log = logging.getLogger(__name__)


class Blocks:
    """The blocks of one run; make it with `open_blocks`."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(f"{output.name}.partial")
        self.num_lines = 0
        self._files: list[Path] = []

    def begin(self, settings: Mapping[str, str], lines: Iterator[str], resume: bool) -> None:
        """Make the folder ready: empty, or with `lines` past what an earlier run has done.

        Args:
            settings: What must not change within a run.
            lines: The text, from its beginning.
            resume: Whether to continue the run whose blocks are there.
        """
        meta = self.folder / "meta.json"
        if resume and meta.is_file():
            self._check_settings(read_json(meta), settings)
            self._take_up(lines)
            log.info("%s: continued after %d lines", self.folder, self.num_lines)
            return
        if self.has_blocks:
            log.warning("%s: unfinished work is discarded (--resume keeps it)", self.folder)
        self.clear()
        with whole_file(meta) as temporary:
            write_json(temporary, settings)

    def add(self, entries: Sequence[Entry]) -> None:
        """Keep the next lines of the run."""
        texts = [entry.text for entry in entries]
        words = {"texts": texts, "tokens": [entry.tokens for entry in entries]}
        path = self.folder / f"{self.num_lines:012d}.npz"
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                digest=_digest(texts),
                words=np.frombuffer(json.dumps(words).encode(), dtype=np.uint8),
                shapes=np.array([entry.vectors.shape for entry in entries], dtype=np.int64),
                values=np.concatenate([entry.vectors.ravel() for entry in entries]),
            )
            file.flush()
            os.fsync(file.fileno())
        self._files.append(path)
        self.num_lines += len(entries)

    def entries(self) -> Iterator[Entry]:
        """All entries that were kept, in order."""
        index = 0
        for path in self._files:
            with np.load(path) as block:
                words = json.loads(block["words"].tobytes())
                shapes, values = block["shapes"], block["values"]
            ends = np.cumsum(shapes.prod(axis=1))
            arrays = np.split(values, ends[:-1])
            for text, tokens, shape, array in zip(
                words["texts"], words["tokens"], shapes, arrays, strict=True
            ):
                yield Entry(index, text, tokens, array.reshape(shape))
                index += 1

    def write_output(self, entries: Iterable[Entry], ndim: int) -> int:
        """Write OUT, all of it or nothing; returns the number of its lines."""
        num_lines = 0

        def counted() -> Iterator[Entry]:
            nonlocal num_lines
            for entry in entries:
                yield entry
                num_lines += 1

        temporary = self.folder / f"result{self.output.suffix}"
        write_vectors(temporary, counted(), ndim)
        os.replace(temporary, self.output)
        return num_lines

    def _check_settings(self, found: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            if found.get(name) != value:
                raise ConfigError(
                    f"{self.folder} was begun with {name}={found.get(name)!r}, not {value!r}; "
                    "use the same settings, or leave --resume out to begin anew"
                )

    def _take_up(self, lines: Iterator[str]) -> None:
        while (path := self.folder / f"{self.num_lines:012d}.npz").is_file():
            try:
                # Opened here, because np.load forgets to close a file that is not an archive.
                with path.open("rb") as file, np.load(file) as block:
                    num_lines, digest = len(block["shapes"]), block["digest"]
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                break  # damaged, as by a power failure; it is computed again
            first = self.num_lines + 1
            if not np.array_equal(_digest(islice(lines, num_lines)), digest):
                raise ConfigError(
                    f"{self.folder}: the input is not the one that the run was begun with "
                    f"(lines {first}..{first + num_lines - 1}); leave --resume out to begin anew"
                )
            self._files.append(path)
            self.num_lines += num_lines

    def clear(self) -> None:
        """Remove what an earlier run left, but no file that cannot be ours."""
        for pattern in ("[0-9]*.npz", ".*.partial", "meta.json", "result.*"):
            for file in self.folder.glob(pattern):
                file.unlink(missing_ok=True)

    @property
    def has_blocks(self) -> bool:
        """Whether there is work that can be continued."""
        return any(self.folder.glob("[0-9]*.npz"))


@contextmanager
def open_blocks(output: Path) -> Iterator[Blocks]:
    """The folder OUT.partial for this process alone; after an error it stays if it holds work."""
    blocks = Blocks(output)
    if blocks.folder.exists() and not blocks.folder.is_dir():
        raise FileError(f"{blocks.folder} is in the way of the folder for unfinished work")
    blocks.folder.mkdir(parents=True, exist_ok=True)
    lock = blocks.folder / "lock"
    with locked(lock, output):
        try:
            yield blocks
            blocks.clear()
        finally:
            if not blocks.has_blocks:
                blocks.clear()
                with suppress(OSError):  # files of others are in the folder
                    lock.unlink(missing_ok=True)
                    blocks.folder.rmdir()


def _digest(lines: Iterable[str]) -> np.ndarray:
    sha = hashlib.sha256()
    for line in lines:
        sha.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return np.frombuffer(sha.digest(), dtype=np.uint8)
