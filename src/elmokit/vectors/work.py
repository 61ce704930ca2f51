"""Embedded lines, kept as blocks of a work folder until the file of vectors is written whole.

A block is named by its first line. It holds the lines, their tokens and their vectors.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, FormatError, quoted
from ..files.arrays import load_arrays, save_arrays
from ..files.folders import Work, open_work
from ..files.read import is_there
from ..files.write import check_space, write_errors
from .write import BINARY, Entry, write_vectors

log = logging.getLogger(__name__)

_KINDS = {
    "digest": (np.uint8, 1), "words": (np.uint8, 1), "shapes": (np.int64, 2),
    "values": (np.float32, 1),
}  # fmt: skip


class Blocks:
    """The blocks of one run; make it with `open_blocks`."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.output = work.output
        self.num_lines = 0
        self._files: list[Path] = []
        self._num_bytes = 0

    def begin(self, settings: Mapping[str, str], lines: Iterator[str], resume: bool) -> None:
        """Make the folder ready: empty, or with `lines` past what an earlier run has done.

        Args:
            settings: What must not change within a run.
            lines: The text, from its beginning.
            resume: Whether to continue the run whose blocks are there.
        """
        found = self._settings() if resume else None
        if found is None:
            self.work.begin(settings, "unfinished work is discarded (--resume keeps it)")
            return
        self._check_settings(found, settings)
        self._take_up(lines)
        log.info("%s: continued after %d lines", self.work.folder, self.num_lines)

    def add(self, entries: Sequence[Entry]) -> None:
        """Keep the next lines of the run."""
        texts = [entry.text for entry in entries]
        words = {"texts": texts, "tokens": [entry.tokens for entry in entries]}
        path = self._path()
        values = np.concatenate([entry.vectors.ravel() for entry in entries])
        save_arrays(
            path,
            digest=_digest(texts),
            words=np.frombuffer(json.dumps(words).encode(), dtype=np.uint8),
            shapes=np.array([entry.vectors.shape for entry in entries], dtype=np.int64),
            values=values,
        )
        self._keep(path, len(entries), values.nbytes)

    def entries(self) -> Iterator[Entry]:
        """All entries that were kept, in order."""
        index = 0
        for path in self._files:
            for text, tokens, vectors in _load(path).rows():
                yield Entry(index, text, tokens, vectors)
                index += 1

    def write_output(self, entries: Iterable[Entry], ndim: int) -> int:
        """Write OUT, all of it or nothing; returns the number of its lines."""
        num_lines = 0

        def counted() -> Iterator[Entry]:
            nonlocal num_lines
            for entry in entries:
                yield entry
                num_lines += 1

        temporary = self.work.folder / f"result{self.output.suffix}"
        try:
            with write_errors(self.output, temporary):
                if self.output.suffix.lower() in BINARY:
                    check_space(temporary, self._num_bytes)
                write_vectors(temporary, counted(), ndim)
            self.work.publish(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        return num_lines

    def _settings(self) -> dict[str, Any] | None:
        try:
            return self.work.settings()
        except FormatError as e:
            raise FormatError(f"{e}; leave --resume out to begin anew") from e

    def _check_settings(self, found: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            if found.get(name) != value:
                raise ConfigError(
                    f"{self.work.folder} was begun with {name}={quoted(found.get(name))}, not "
                    f"{quoted(value)}; use the same settings, or leave --resume out to begin anew"
                )

    def _take_up(self, lines: Iterator[str]) -> None:
        """Go past the lines of all blocks up to the first that is missing or damaged."""
        while is_there(path := self._path()):
            try:
                block = _load(path)
            except FormatError as e:  # as after a power failure
                log.warning("%s; it is computed again, and so is what follows it", e)
                return
            num_lines, first = len(block.texts), self.num_lines + 1
            if not np.array_equal(_digest(islice(lines, num_lines)), block.digest):
                raise ConfigError(
                    f"{self.work.folder}: the input is not the one that the run was begun with "
                    f"(lines {first}..{first + num_lines - 1}); leave --resume out to begin anew"
                )
            self._keep(path, num_lines, block.values.nbytes)

    def _keep(self, path: Path, num_lines: int, num_bytes: int) -> None:
        self._files.append(path)
        self.num_lines += num_lines
        self._num_bytes += num_bytes

    def _path(self) -> Path:
        return self.work.block(f"{self.num_lines:012d}")


@contextmanager
def open_blocks(output: Path) -> Iterator[Blocks]:
    """The blocks of a run in OUT.partial, for this process alone."""
    with open_work(output) as work:
        yield Blocks(work)


class _Block(NamedTuple):
    digest: NDArray[np.uint8]
    texts: list[str]
    tokens: list[list[str]]
    shapes: NDArray[np.int64]
    values: NDArray[np.float32]

    def rows(self) -> Iterator[tuple[str, list[str], NDArray[np.float32]]]:
        """The text, the tokens and the vectors of each line."""
        arrays = np.split(self.values, np.cumsum(self.shapes.prod(axis=1))[:-1])
        for text, tokens, shape, array in zip(
            self.texts, self.tokens, self.shapes, arrays, strict=True
        ):
            yield text, tokens, array.reshape(shape)


def _load(path: Path) -> _Block:
    """A block with every byte of it checked."""
    arrays = load_arrays(path, _KINDS)
    try:
        words = json.loads(arrays["words"].tobytes())
        texts, tokens = words["texts"], words["tokens"]
        block = _Block(arrays["digest"], texts, tokens, arrays["shapes"], arrays["values"])
        is_whole = (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(token, str) for line in tokens for token in line)
            and 0 < len(texts) == len(tokens) == len(block.shapes)
            and np.array_equal(_digest(texts), block.digest)
            and block.shapes.min() >= 0
            and int(block.shapes.prod(axis=1).sum()) == len(block.values)
        )
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise FormatError(f"{path} is damaged ({e!s:.80})") from e
    if not is_whole:
        raise FormatError(f"{path} is damaged (its parts do not fit together)")
    return block


def _digest(lines: Iterable[str]) -> NDArray[np.uint8]:
    sha = hashlib.sha256()
    for line in lines:
        sha.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return np.frombuffer(sha.digest(), dtype=np.uint8)
