"""Blocks of text → word ids: what a worker does, and the processes that do it."""

import hashlib
import logging
import multiprocessing
import os
import signal
import threading
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import ElmoError, FormatError
from ..files.arrays import load_arrays, save_arrays
from ..files.read import is_there
from ..text.normalize import normalize
from ..text.sentences import SentenceMode, paragraphs, split_sentences
from ..text.tokenize import Tokenizer, load_tokenizer
from .clean import clean_line

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """How text becomes sentences of words."""

    tokenizer: str
    normalization: str | None
    mode: SentenceMode
    max_length: int
    clean: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The sentences of a block of text, as indices into a list of its distinct words.

    A unit is what the user wrote as one: a line, or a paragraph of hard-wrapped text. Those
    without words, and those that cleaning drops, are left out and counted.
    """

    words: list[str]
    tokens: NDArray[np.int32]
    lengths: NDArray[np.int32]
    """Tokens of each sentence."""
    sentences: NDArray[np.int32]
    """Sentences of each unit."""
    hashes: NDArray[np.uint64]
    """Hash of the text of each unit."""
    num_lines: int
    num_empty: int
    num_cut: int
    num_changed: int = 0
    """Units that markup was removed from."""
    num_markup: int = 0
    """Units dropped because they were nothing but markup."""
    num_boilerplate: int = 0

    def save(self, path: Path) -> None:
        """Write a file that is whole or not there."""
        numbers = np.array(list(self.numbers().values()), dtype=np.int64)
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        save_arrays(
            path, words=words, tokens=self.tokens, lengths=self.lengths, sentences=self.sentences,
            hashes=self.hashes, numbers=numbers,
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> Self:
        """The block of a file that `save` wrote; a damaged one is a FormatError."""
        arrays = load_arrays(path, _KINDS)
        try:
            text = arrays.pop("words").tobytes().decode()
            block = cls(
                text.split("\n") if text else [],
                arrays["tokens"], arrays["lengths"], arrays["sentences"], arrays["hashes"],
                *arrays["numbers"].tolist(),
            )  # fmt: skip
        except (TypeError, UnicodeDecodeError) as e:
            raise FormatError(f"{path} is damaged ({e!s:.80})") from e
        if not block._is_sound():
            raise FormatError(f"{path} is damaged (its parts do not fit together)")
        return block

    def _is_sound(self) -> bool:
        """Whether the parts fit together."""
        return (
            min(self.numbers().values()) >= 0
            and len(self.sentences) == len(self.hashes)
            and int(self.tokens.min(initial=0)) >= 0
            and int(self.tokens.max(initial=-1)) < len(self.words)
            and int(self.lengths.min(initial=1)) > 0
            and int(self.lengths.sum(dtype=np.int64)) == len(self.tokens)
            and int(self.sentences.min(initial=1)) > 0
            and int(self.sentences.sum(dtype=np.int64)) == len(self.lengths)
        )

    def numbers(self) -> dict[str, int]:
        """What was counted, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name.startswith("num_")}

    def unit_lengths(self) -> NDArray[np.int64]:
        """Tokens of each unit."""
        ends = np.cumsum(self.lengths, dtype=np.int64)[np.cumsum(self.sentences) - 1]
        return np.diff(ends, prepend=0)

    def by_sentence(self, units: NDArray[Any]) -> NDArray[Any]:
        """A value of each unit, for each sentence."""
        return np.repeat(units, self.sentences)

    def by_token(self, units: NDArray[Any]) -> NDArray[Any]:
        """A value of each unit, for each token."""
        return np.repeat(self.by_sentence(units), self.lengths)


_KINDS = {
    "words": (np.uint8, 1), "tokens": (np.int32, 1), "lengths": (np.int32, 1),
    "sentences": (np.int32, 1), "hashes": (np.uint64, 1), "numbers": (np.int64, 1),
}  # fmt: skip


def is_whole(path: Path) -> bool:
    """Whether the file of a block is there and sound, which a power failure may prevent."""
    if not is_there(path):
        return False
    try:
        Block.load(path)
    except FormatError as e:
        log.warning("%s; it is made again", e)
        return False
    return True


def process_block(data: bytes, reading: Reading, path: Path) -> int:
    """Read one block of text and write what it holds to `path`; returns its size in bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise FormatError(f"the input changed while it was read: not UTF-8 ({e.reason})") from e
    read_text(text, reading, _tokenizer(reading.tokenizer)).save(path)
    return len(data)


def read_text(text: str, reading: Reading, tokenizer: Tokenizer) -> Block:
    """The sentences of a text."""
    # Nothing composes with a newline, so the whole text can be normalised at once.
    lines = normalize(text.replace("\r\n", "\n"), reading.normalization).split("\n")
    if not lines[-1]:
        del lines[-1]
    index: defaultdict[str, int] = defaultdict()
    index.default_factory = index.__len__
    number = index.__getitem__
    tokens, lengths, counts, hashes = array("i"), array("i"), array("i"), array("Q")
    num_cut = 0
    verdicts: Counter[str] = Counter()
    for unit in paragraphs(lines) if reading.mode == "wrapped" else lines:
        if reading.clean:
            unit, verdict = clean_line(unit)
            verdicts[verdict] += 1
            if verdict == "changed":  # an entity may be a combining character
                unit = normalize(unit, reading.normalization)
        before = len(lengths)
        sentences = [unit] if reading.mode == "lines" else split_sentences(unit)
        for words in map(tokenizer.words, sentences):
            tokens.extend(map(number, words))
            pieces = cut(len(words), reading.max_length)
            num_cut += len(pieces) > 1
            lengths.extend(pieces)
        if len(lengths) > before:
            counts.append(len(lengths) - before)
            hashes.append(_hash(" ".join(unit.split()) if reading.clean else unit.strip()))
    num_empty = sum(not line.strip() for line in lines)
    return Block(
        list(index), _array(tokens, np.int32), _array(lengths, np.int32),
        _array(counts, np.int32), _array(hashes, np.uint64), len(lines), num_empty, num_cut,
        *(verdicts[name] for name in ("changed", "markup", "boilerplate")),
    )  # fmt: skip


def cut(length: int, limit: int) -> list[int]:
    """The lengths of the fewest even pieces of a sentence, none longer than `limit`.

    >>> cut(10, 4), cut(4, 4), cut(0, 4)
    ([4, 3, 3], [4], [])
    """
    if length <= limit:
        return [length] if length else []
    num_pieces = -(-length // limit)
    shorter, num_longer = divmod(length, num_pieces)
    return [shorter + (i < num_longer) for i in range(num_pieces)]


def _hash(unit: str) -> int:
    """A number that is the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(unit.encode(), digest_size=8).digest(), "little")


def _array(values: "array[int]", dtype: type) -> NDArray[Any]:
    return np.frombuffer(values, dtype=dtype) if values else np.zeros(0, dtype=dtype)


@cache
def _tokenizer(name: str) -> Tokenizer:
    """The tokenizer of this process; making one may take seconds."""
    return load_tokenizer(name)


def process_all(blocks: Iterable[tuple[bytes, Reading, Path]], num_workers: int) -> Iterator[int]:
    """Write each block's file; yields the bytes of text of each, in order, when it is done."""
    if num_workers == 1:
        for block in blocks:
            yield process_block(*block)
        return
    # Processes made by fork inherit locked locks of other threads; these start clean.
    pool = ProcessPoolExecutor(
        num_workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker
    )
    try:
        pending: deque[Future[int]] = deque()
        for block in blocks:
            pending.append(pool.submit(process_block, *block))
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as e:
        raise ElmoError(
            "a worker process died, perhaps for want of memory; run the same command again with "
            "fewer --workers, and it continues"
        ) from e
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def default_workers() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
