"""Do the vectors of a word tell its meanings apart? The WSD probe for any table of any language.

With a small table, leave-one-out: every occurrence is given the sense to whose other occurrences it
has the largest mean cosine. The cosine with the average of a sense would not do: an average of
fewer vectors is noisier and so further off, and the own sense, left without the occurrence, has one
fewer. Of two or three senses that are not told apart at all, it would find the right one in 45 or
25 % of the cases.

With training data, every occurrence is given the sense whose average vector in training is nearest,
by cosine.
"""

import csv
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, InputError, quoted
from ..files.read import read_lines
from ..layers import normalise
from ..model import Elmo
from ..tables import format_table, percent
from .layers import Vectors, layer_names, layer_title, read_marked, word_vectors

ALL = "all"
HEADER = ("word", "sense", "sentence")
OFFSET_HEADER = ("homograph", "wordid", "sentence", "start", "end")
"""The columns of the Wikipedia Homograph Data (Gorman et al. 2018)."""
HELD_OUT = 5
"""One sentence in so many is held out where no development data are given."""
TIE = 1e-5
"""Cosines that differ by less are equal; layer 0 gives a word one vector up to rounding."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word with one of its meanings: `text[start:end]`."""

    word: str
    sense: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class HomographResult:
    """Share of occurrences that are nearest to their own sense.

    Attributes:
        accuracy: By layer (`0`, `1`, …, `average`), then by word and `all`.
        balanced: The same with every sense of a word counting alike, and for `all` every word.
        chance: What guessing gets: one over the number of senses, by word and `all`.
        num_occurrences: By word and `all`.
    """

    accuracy: dict[str, dict[str, float]]
    balanced: dict[str, dict[str, float]]
    chance: dict[str, float]
    num_occurrences: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced,
            "chance": self.chance,
            "occurrences": self.num_occurrences,
            "method": "leave-one-out, largest mean cosine, ties shared",
        }

    def __str__(self) -> str:
        columns = {"chance": self.chance, **self.accuracy}
        rows = [
            [word, f"{number:,}", *(percent(column[word]) for column in columns.values())]
            for word, number in self.num_occurrences.items()
        ]
        balanced = [percent(column[ALL]) for column in self.balanced.values()]
        rows.append(["all, balanced", "", percent(self.chance[ALL]), *balanced])
        header = ["word", "n", "chance", *(layer_title(name) for name in self.accuracy)]
        return (
            f"{format_table(header, rows)}\n"
            "accuracy of the sense with the largest mean cosine, each occurrence left out in turn"
        )


@dataclass(frozen=True, slots=True)
class SplitResult:
    """How often words get the sense that they have, with senses learned on other sentences.

    Attributes:
        accuracy: Share of all occurrences, by layer (`0`, `1`, …, `average`) and for `majority`,
            each word's most frequent sense in training.
        balanced: The mean over words of the mean over their senses.
        by_word: Balanced accuracy by layer, then by word.
        num_train: Training occurrences of the words that are scored.
        num_dev: Occurrences that are scored.
        skipped: Words with fewer than two senses in training or none to score.
    """

    accuracy: dict[str, float]
    balanced: dict[str, float]
    by_word: dict[str, dict[str, float]]
    num_train: int
    num_dev: int
    skipped: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced,
            "balanced_by_word": self.by_word,
            "train_occurrences": self.num_train,
            "dev_occurrences": self.num_dev,
            "skipped_words": self.skipped,
            "method": "nearest average of the training occurrences, by cosine",
        }

    def __str__(self) -> str:
        rows = [
            [name, percent(value), percent(self.balanced[name])]
            for name, value in self.accuracy.items()
        ]
        num_words = len(next(iter(self.by_word.values())))
        skipped = f"; {len(self.skipped)} words with one sense skipped" if self.skipped else ""
        return (
            f"{format_table(['layer', 'accuracy', 'balanced'], rows)}\n"
            f"{num_words} words, {self.num_train:,} training occurrences, {self.num_dev:,} to score"
            f"{skipped}"
        )


def read_homographs(path: Path | str) -> list[Occurrence]:
    """The rows of a TSV file: word, sense, and sentence with the [word] marked.

    Also reads quoted TSV with the columns homograph, wordid, sentence, and start and end in bytes.
    """
    lines = read_lines(path)
    header = next(lines, "")
    columns = tuple(next(csv.reader([header], delimiter="\t"), []))
    if columns == OFFSET_HEADER:
        found = list(_with_offsets(lines, path))
    elif columns == HEADER:
        found = list(_with_brackets(lines, path))
    else:
        raise FormatError(
            f"{path}, line 1: expected the columns {', '.join(HEADER)}; or "
            f"{', '.join(OFFSET_HEADER)}"
        )
    if not found:
        raise InputError(f"{path} is empty; expected words, senses and sentences")
    return found


def _with_brackets(lines: Iterator[str], path: Path | str) -> Iterator[Occurrence]:
    for number, line in enumerate(lines, 2):
        where = f"{path}, line {number}"
        cells = line.split("\t")
        if line.strip():
            if len(cells) != len(HEADER) or not all(cell.strip() for cell in cells):
                raise FormatError(f"{where}: expected word, sense and sentence, with tabs between")
            word = read_marked(cells[2], where)
            yield Occurrence(cells[0], cells[1], word.text, word.start, word.end)


def _with_offsets(lines: Iterator[str], path: Path | str) -> Iterator[Occurrence]:
    rows = csv.reader(lines, delimiter="\t")
    try:
        for number, cells in enumerate(rows, 2):
            where = f"{path}, line {number}"
            if len(cells) != len(OFFSET_HEADER):
                raise FormatError(f"{where}: expected {len(OFFSET_HEADER)} columns")
            word, sense, text, *offsets = cells
            if not all(cell.isascii() and cell.isdigit() for cell in offsets):
                raise FormatError(f"{where}: start, end={quoted(offsets)}: expected numbers")
            # The offsets count UTF-8 bytes: of 14,487 rows, 88 say so.
            encoded = text.encode("utf-8", "replace")
            first, last = (int(cell[:9]) for cell in offsets)
            if not first < last <= len(encoded):
                raise FormatError(f"{where}: {first} to {last} is no stretch of the sentence")
            start, end = (len(encoded[:i].decode("utf-8", "replace")) for i in (first, last))
            yield Occurrence(word, sense, text, start, end)
    except csv.Error as e:
        raise FormatError(f"{path}: not a TSV file ({e!s:.80})") from e


def split_by_sentence(
    occurrences: Sequence[Occurrence],
) -> tuple[list[Occurrence], list[Occurrence]]:
    """Training and held-out occurrences; the hash of its sentence decides where one goes."""
    parts: tuple[list[Occurrence], list[Occurrence]] = ([], [])
    for item in occurrences:
        number = int.from_bytes(hashlib.sha256(item.text.encode("utf-8", "replace")).digest()[:8])
        parts[number % HELD_OUT == 0].append(item)
    return parts


def trained_homograph_probe(
    elmo: Elmo, train: Sequence[Occurrence], dev: Sequence[Occurrence]
) -> SplitResult:
    """How often each layer gives a word the sense that it has, with averages from other sentences.

    An occurrence whose sense is not in training counts as wrong.
    """
    in_train = _by_word(train)
    in_dev = _by_word(dev)
    words = [
        word
        for word, items in in_train.items()
        if word in in_dev and len({item.sense for item in items}) > 1
    ]
    if not words:
        raise InputError("no word has two senses in training and a sentence to score")
    chosen = [[item for word in words for item in part[word]] for part in (in_train, in_dev)]
    known, asked = (np.stack(word_vectors(elmo, part), axis=1) for part in chosen)
    names = layer_names(elmo.num_layers)
    points: dict[str, list[NDArray[np.float64]]] = {name: [] for name in (*names, "majority")}
    balanced: dict[str, dict[str, float]] = {name: {} for name in points}
    for word in words:
        learned = [i for i, item in enumerate(chosen[0]) if item.word == word]
        tested = [i for i, item in enumerate(chosen[1]) if item.word == word]
        senses = list(dict.fromkeys(chosen[0][i].sense for i in learned))
        labels = np.array([senses.index(chosen[0][i].sense) for i in learned])
        gold = [chosen[1][i].sense for i in tested]
        usual = senses[int(np.bincount(labels).argmax())]
        guesses = {"majority": [usual] * len(gold)}
        for layer, name in enumerate(names):
            averages = np.stack([known[layer, learned][labels == s].mean(axis=0)
                                 for s in range(len(senses))])  # fmt: skip
            cosines = normalise(asked[layer, tested]) @ normalise(averages).T
            # Of equally near senses the more frequent one, as its label is met first.
            best = (cosines >= cosines.max(axis=1, keepdims=True) - TIE).argmax(axis=1)
            guesses[name] = [senses[i] for i in best]
        for name, guess in guesses.items():
            hits = np.array([a == b for a, b in zip(guess, gold, strict=True)], np.float64)
            points[name].append(hits)
            balanced[name][word] = _balanced(hits, gold)
    return SplitResult(
        accuracy={name: float(np.concatenate(hits).mean()) for name, hits in points.items()},
        balanced={name: float(np.mean([*row.values()])) for name, row in balanced.items()},
        by_word=balanced,
        num_train=len(chosen[0]),
        num_dev=len(chosen[1]),
        skipped=sorted({*in_train, *in_dev} - set(words)),
    )


def _by_word(occurrences: Sequence[Occurrence]) -> dict[str, list[Occurrence]]:
    """The occurrences of each word, the most frequent sense first."""
    found: dict[str, list[Occurrence]] = {}
    for item in occurrences:
        found.setdefault(item.word, []).append(item)
    for items in found.values():
        senses = [item.sense for item in items]
        items.sort(key=lambda item: (-senses.count(item.sense), item.sense))
    return found


def _balanced(points: NDArray[np.float64], senses: Sequence[str]) -> float:
    """The mean over senses of the mean points of their occurrences."""
    labels = np.array(senses)
    return float(np.mean([points[labels == sense].mean() for sense in dict.fromkeys(senses)]))


def homograph_probe(elmo: Elmo, occurrences: Sequence[Occurrence]) -> HomographResult:
    """How often each layer puts a word nearest to the sense that it has.

    The vector of an occurrence is the mean of the tokens that overlap it, however the model's
    tokenizer splits. Senses at the same distance share the point.
    """
    senses = _senses(occurrences)
    layers = np.stack(word_vectors(elmo, occurrences), axis=1)  # layer, occurrence, value
    names = layer_names(elmo.num_layers)
    accuracy: dict[str, dict[str, float]] = {name: {} for name in names}
    balanced: dict[str, dict[str, float]] = {name: {} for name in names}
    points = np.zeros((len(names), len(occurrences)))
    for word in senses:
        rows = [i for i, item in enumerate(occurrences) if item.word == word]
        labels = np.array([senses[word].index(occurrences[i].sense) for i in rows])
        for layer, name in enumerate(names):
            points[layer, rows] = leave_one_out(layers[layer, rows], labels)
            accuracy[name][word] = float(points[layer, rows].mean())
            gold = [occurrences[i].sense for i in rows]
            balanced[name][word] = _balanced(points[layer, rows], gold)
    for layer, name in enumerate(names):
        accuracy[name][ALL] = float(points[layer].mean())
        balanced[name][ALL] = float(np.mean([*balanced[name].values()]))
    counts = {word: sum(item.word == word for item in occurrences) for word in senses}
    chance = {word: 1 / len(found) for word, found in senses.items()}
    total = sum(chance[word] * count for word, count in counts.items()) / len(occurrences)
    return HomographResult(
        accuracy=accuracy,
        balanced=balanced,
        chance={**chance, ALL: total},
        num_occurrences={**counts, ALL: len(occurrences)},
    )


def leave_one_out(vectors: Vectors, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each row, its points: 1 if its own sense is nearest, a share of it in a tie, else 0."""
    near = nearness(vectors, labels)
    is_nearest = near >= near.max(axis=0) - TIE
    rows = np.arange(len(labels))
    points: NDArray[np.float64] = is_nearest[labels, rows] / is_nearest.sum(axis=0)
    return points


def nearness(vectors: Vectors, labels: NDArray[np.int64]) -> Vectors:
    """The mean cosine of each row with the other rows of each sense: senses, rows."""
    is_other = ~np.eye(len(labels), dtype=bool)
    directions = normalise(vectors)
    cosines = directions @ directions.T
    senses = range(labels.max() + 1)
    return np.stack([cosines.mean(axis=1, where=is_other & (labels == s)) for s in senses])


def _senses(occurrences: Sequence[Occurrence]) -> dict[str, list[str]]:
    """The senses of each word, each of which must be left with an example without another."""
    senses: dict[str, dict[str, int]] = {}
    for item in occurrences:
        counts = senses.setdefault(item.word, {})
        counts[item.sense] = counts.get(item.sense, 0) + 1
    if not senses or ALL in senses:
        raise InputError("expected words with their senses; a word must not be called 'all'")
    for word, counts in senses.items():
        if len(counts) < 2:
            raise InputError(f"{quoted(word)} has one sense only; expected two or more")
        for sense, count in counts.items():
            if count < 2:
                raise InputError(
                    f"{quoted(word)}, sense {quoted(sense)}: one sentence; expected two or more"
                )
    return {word: list(counts) for word, counts in senses.items()}
