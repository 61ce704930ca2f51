"""Blocks → the files of a corpus: choose the text and count its words, then write."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..text.ids import ByteCharacters
from .block import Block
from .corpus import SPECIAL_WORDS, UNK_ID

MAX_VALID_TOKENS = 200_000
"""More held-out text than this would only cost time: perplexity is then good to a percent."""

_WORDS_AT_A_TIME = 1 << 16


class Selected(NamedTuple):
    """The file of a block, and how often each of its units stands in a part of the corpus."""

    path: Path
    copies: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class InputTotals:
    """What the blocks of one input hold.

    Attributes:
        num_sentences: Sentences of its training text, each counted once.
        num_weighted: Tokens that it contributes to the training text.
        num_changed: Units that markup was removed from.
        num_markup: Units dropped for being nothing but markup; the next three were dropped too.
    """

    num_sentences: int = 0
    num_tokens: int = 0
    num_weighted: int = 0
    num_lines: int = 0
    num_empty: int = 0
    num_cut: int = 0
    num_changed: int = 0
    num_markup: int = 0
    num_boilerplate: int = 0
    num_duplicated: int = 0
    num_leaked: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What the blocks hold together.

    Attributes:
        words: Every distinct word: the special ones, then by falling count, then by spelling.
        counts: How often each stands in the training text.
        train: The training text.
        valid: The held-out text.
        inputs: The same for each input.
        num_sentences: Sentences of the inputs that are used, held out or not, each counted once.
        num_duplicated: Units that repeat an earlier one of the inputs.
        num_leaked: Units of a held-out file that the inputs have too.
    """

    words: list[str]
    counts: NDArray[np.int64]
    train: list[Selected]
    valid: list[Selected]
    inputs: list[InputTotals]
    num_sentences: int
    num_tokens: int
    num_duplicated: int
    num_leaked: int


def held_out(
    hashes: NDArray[np.uint64], lengths: NDArray[np.int64], fraction: float
) -> NDArray[np.uint64]:
    """The hashes of the units to hold out: the lowest ones, up to a fraction of all tokens.

    Equal units have equal hashes, so none is both trained on and held out. A unit repeated so
    often that it would be a tenth of the held-out text or more is left to the training text.
    """
    distinct, inverse = np.unique(hashes, return_inverse=True)
    sizes = np.bincount(inverse, weights=lengths, minlength=len(distinct)).astype(np.int64)
    wanted = min(MAX_VALID_TOKENS, fraction * sizes.sum())
    if wanted <= 0 or len(distinct) < 2:
        return distinct[:0]
    fits = np.flatnonzero(sizes <= max(wanted / 10, np.median(sizes)))
    num_taken = 1 + int(np.searchsorted(np.cumsum(sizes[fits]), wanted))
    return distinct[fits[: min(num_taken, len(distinct) - 1)]]


def weighted_copies(hashes: NDArray[np.uint64], weight: float) -> NDArray[np.uint8]:
    """How often each unit occurs in text of this weight.

    Each does as often as the whole part of the weight says. A part of the units as large as its
    fraction, chosen by their hashes, does so once more.
    """
    # The lowest hashes are held out, so the choice needs other numbers: those of splitmix64.
    mixed = hashes + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    whole, fraction = divmod(weight, 1)
    return (int(whole) + (mixed * 2.0**-64 < fraction)).astype(np.uint8)


def count(
    train: Sequence[Sequence[Path]], weights: Sequence[float], valid: Sequence[Path],
    fraction: float, clean: bool,
) -> Totals:  # fmt: skip
    """Read all blocks, choose what is trained on and what is held out, and count the words.

    Args:
        train: The blocks of each input.
        weights: How often a sentence of each input occurs in the training text.
        valid: The blocks of text that is held out as a whole.
        fraction: Without such text, the part of the inputs to hold out.
        clean: Whether to drop duplicates, and training text that is held out too.
    """
    hashes, lengths = _units([path for blocks in train for path in blocks])
    outside, _ = _units(valid)
    roles = _UnitRoles(hashes, lengths, outside if clean else None, 0.0 if valid else fraction)
    words = _WordCounts()
    totals = [Counter[str]() for _ in train]
    used: Counter[str] = Counter()
    parts: tuple[list[Selected], list[Selected]] = ([], [])
    end = 0
    for blocks, weight, total in zip(train, weights, totals, strict=True):
        for path in blocks:
            block = Block.load(path)
            units = slice(end, end := end + len(block.hashes))
            is_trained, is_held = roles.is_trained[units], roles.is_held[units]
            copies = weighted_copies(block.hashes, weight) * is_trained
            is_used = is_held | (copies > 0)
            words.add(block, copies, is_used)
            parts[0].append(Selected(path, copies))
            parts[1].append(Selected(path, is_held.astype(np.uint8)))
            used.update(_sizes(block, is_used))
            total.update(_sizes(block, is_trained))
            total.update(
                num_weighted=int((block.unit_lengths() * copies).sum()),
                num_duplicated=int(roles.is_repeated[units].sum()),
                num_leaked=int(roles.is_leaked[units].sum()),
                **block.numbers(),
            )
    if valid:
        parts[1].clear()
    for path in valid:
        block = Block.load(path)
        once = np.ones(len(block.hashes), dtype=np.uint8)
        words.add(block, 0 * once, once > 0)
        parts[1].append(Selected(path, once))
    distinct, counts = words.sorted()
    return Totals(
        words=distinct,
        counts=counts,
        train=parts[0],
        valid=parts[1],
        inputs=[InputTotals(**total) for total in totals],
        num_duplicated=len(hashes) - len(np.unique(hashes)),
        num_leaked=int(np.isin(outside, hashes).sum()),
        **used,
    )


class _UnitRoles:
    """Which units of the inputs are trained on, held out, or dropped as leaked or repeated.

    `outside` are the hashes of the held-out files if the text is to be cleaned.
    """

    def __init__(
        self, hashes: NDArray[np.uint64], lengths: NDArray[np.int64],
        outside: NDArray[np.uint64] | None, fraction: float,
    ) -> None:  # fmt: skip
        self.is_leaked, self.is_repeated = np.zeros((2, len(hashes)), dtype=np.bool_)
        if outside is not None:
            self.is_leaked = np.isin(hashes, outside)
            self.is_repeated = ~self.is_leaked
            self.is_repeated[np.unique(hashes, return_index=True)[1]] = False
        is_kept = ~(self.is_leaked | self.is_repeated)
        self.is_held = is_kept & np.isin(
            hashes, held_out(hashes[is_kept], lengths[is_kept], fraction)
        )
        self.is_trained = is_kept & ~self.is_held


def _sizes(block: Block, units: NDArray[np.bool_]) -> dict[str, int]:
    """The sentences and tokens of some units."""
    return {
        "num_sentences": int(block.sentences[units].sum()),
        "num_tokens": int(block.unit_lengths()[units].sum()),
    }


class _WordCounts:
    """Words in the order of their first appearance, and their counts."""

    def __init__(self) -> None:
        self._ids: defaultdict[str, int] = defaultdict()
        self._ids.default_factory = self._ids.__len__
        self._counts = np.zeros(1 << 16, dtype=np.int64)
        for word in SPECIAL_WORDS:
            self._ids[word]

    def add(self, block: Block, copies: NDArray[np.uint8], is_used: NDArray[np.bool_]) -> None:
        """Count the copies of each unit; words of units that are not used do not count."""
        counts = np.bincount(
            block.tokens, weights=block.by_token(copies), minlength=len(block.words)
        ).astype(np.int64)  # fmt: skip
        words = block.words
        if not is_used.all():
            kept = np.unique(block.tokens[block.by_token(is_used)])
            words, counts = [words[i] for i in kept.tolist()], counts[kept]
        ids = np.fromiter(map(self._ids.__getitem__, words), np.int64, len(words))
        missing = len(self._ids) - len(self._counts)
        if missing > 0:
            self._counts = np.pad(self._counts, (0, missing + len(self._counts)))
        self._counts[ids] += counts

    def sorted(self) -> tuple[list[str], NDArray[np.int64]]:
        """The special words, then all others by falling count and by spelling."""
        words, counts = list(self._ids), self._counts.tolist()
        first = len(SPECIAL_WORDS)
        rest = sorted(range(first, len(words)), key=lambda i: (-counts[i], words[i]))
        order = [*range(first), *rest]
        return [words[i] for i in order], self._counts[order]


def _units(paths: Sequence[Path]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hash and the tokens of every unit."""
    hashes, lengths = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    for block in map(Block.load, paths):
        hashes.append(block.hashes)
        lengths.append(block.unit_lengths())
    return np.concatenate(hashes), np.concatenate(lengths)


class Part(NamedTuple):
    """The training or the held-out text as it was written, and how often each word is in it."""

    num_sentences: int
    num_tokens: int
    counts: NDArray[np.int64]


class CorpusWriter:
    """Writes the arrays and word lists of a corpus into a folder, and hashes what it writes."""

    def __init__(self, folder: Path, totals: Totals, vocab_size: int, max_characters: int) -> None:
        self.folder = folder
        self._totals = totals
        self._ids = {word: i for i, word in enumerate(totals.words)}
        self._sha = hashlib.sha256()
        self._write_words("words.txt", totals.words)
        self._write_words("vocab.txt", totals.words[:vocab_size])
        self._write_array("counts", np.int64, (len(totals.words),), [totals.counts])
        shape = (len(totals.words), max_characters)
        self._write_array("characters", np.uint16, shape, self._characters(max_characters))

    @property
    def fingerprint(self) -> str:
        """Hash of everything that was written."""
        return self._sha.hexdigest()

    def write_part(self, name: str, blocks: Sequence[Selected]) -> Part:
        """Write the sentences of one part, `train` or `valid`.

        What occurs several times in a block is written after all of the block.
        """
        lengths = [np.zeros(0, dtype=np.int32)]
        for path, copies in blocks:
            block = Block.load(path)
            lengths += (block.lengths[block.by_sentence(units)] for units in _rounds(copies))
        ends = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        counts = np.zeros(len(self._ids), dtype=np.int64)
        tokens = self._tokens(blocks, counts)
        self._write_array(f"{name}.tokens", np.int32, (int(offsets[-1]),), tokens)
        self._write_array(f"{name}.offsets", np.int64, offsets.shape, [offsets])
        return Part(len(offsets) - 1, int(offsets[-1]), counts)

    def _tokens(
        self, blocks: Sequence[Selected], counts: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int32]]:
        for path, copies in blocks:
            block = Block.load(path)
            # Words of units that are left out may have no id; no token here is one of them.
            ids = np.fromiter((self._ids.get(w, UNK_ID) for w in block.words), np.int32)
            for units in _rounds(copies):
                tokens = ids[block.tokens[block.by_token(units)]]
                counts += np.bincount(tokens, minlength=len(counts))
                yield tokens

    def _characters(self, max_characters: int) -> Iterator[NDArray[np.uint16]]:
        scheme = ByteCharacters(max_characters)
        words = self._totals.words
        for start in range(0, len(words), _WORDS_AT_A_TIME):
            yield scheme.encode(words[start : start + _WORDS_AT_A_TIME]).astype(np.uint16)

    def _write_words(self, name: str, words: Iterable[str]) -> None:
        data = "".join(f"{word}\n" for word in words).encode()
        self._sha.update(data)
        (self.folder / name).write_bytes(data)

    def _write_array(
        self, name: str, dtype: DTypeLike, shape: tuple[int, ...], parts: Iterable[NDArray[Any]]
    ) -> None:
        """Write a .npy file of any size, part by part."""
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        with (self.folder / f"{name}.npy").open("wb") as file:
            np.lib.format.write_array_header_2_0(file, header)
            for part in parts:
                data = np.ascontiguousarray(part, dtype=dtype)
                file.write(data.data)
                self._sha.update(data.data)


def _rounds(copies: NDArray[np.uint8]) -> Iterator[NDArray[np.bool_]]:
    """The units that occur once or more, then those that occur twice or more, and so on."""
    return (copies > number for number in range(int(copies.max(initial=0))))
