"""Do the vectors of a word tell its meanings apart? A test that needs a table and no training.

Leave-one-out: every occurrence is given the sense to whose other occurrences it has the largest
mean cosine. It is the small sister of the WSD probe, for any language.

The cosine with the average of a sense would not do: an average of fewer vectors is noisier and so
further off, and the own sense, left without the occurrence, has one fewer. Of two or three senses
that are not told apart at all, it would find the right one in 45 or 25 % of the cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FormatError, InputError
from ...io.files import read_lines
from ...model import Elmo
from ...pooling import normalise
from ...text.marked import split_marked
from .layers import Vectors, layer_names, stream_layers, with_average
from .tables import format_table, percent

ALL = "all"
HEADER = ("word", "sense", "sentence")
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
        chance: What guessing gets: one over the number of senses, by word and `all`.
        num_occurrences: By word and `all`.
    """

    accuracy: dict[str, dict[str, float]]
    chance: dict[str, float]
    num_occurrences: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "accuracy": self.accuracy,
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
        header = ["word", "n", "chance", *(_title(name) for name in self.accuracy)]
        return (
            f"{format_table(header, rows)}\n"
            "accuracy of the sense with the largest mean cosine, each occurrence left out in turn"
        )


def read_homographs(path: Path | str) -> list[Occurrence]:
    """The rows of a TSV file with the columns word, sense, and sentence with the [word] marked."""
    found = []
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        cells = line.split("\t")
        if number == 1:
            if tuple(cells) != HEADER:
                raise FormatError(f"{where}: expected the columns {', '.join(HEADER)}")
        elif line.strip():
            if len(cells) != len(HEADER) or not all(cell.strip() for cell in cells):
                raise FormatError(f"{where}: expected word, sense and sentence, with tabs between")
            found.append(Occurrence(cells[0], cells[1], *_unmark(cells[2], where)))
    if not found:
        raise InputError(f"{path} is empty; expected words, senses and sentences")
    return found


def homograph_probe(elmo: Elmo, occurrences: Sequence[Occurrence]) -> HomographResult:
    """How often each layer puts a word nearest to the sense that it has.

    The vector of an occurrence is the mean of the tokens that overlap it, however the model's
    tokenizer splits. Senses at the same distance share the point.
    """
    senses = _senses(occurrences)
    layers = np.stack(_vectors(elmo, occurrences), axis=1)  # layer, occurrence, value
    names = layer_names(elmo.num_layers)
    accuracy: dict[str, dict[str, float]] = {name: {} for name in names}
    points = np.zeros((len(names), len(occurrences)))
    for word in senses:
        rows = [i for i, item in enumerate(occurrences) if item.word == word]
        labels = np.array([senses[word].index(occurrences[i].sense) for i in rows])
        for layer, name in enumerate(names):
            points[layer, rows] = leave_one_out(layers[layer, rows], labels)
            accuracy[name][word] = float(points[layer, rows].mean())
    for layer, name in enumerate(names):
        accuracy[name][ALL] = float(points[layer].mean())
    counts = {word: sum(item.word == word for item in occurrences) for word in senses}
    chance = {word: 1 / len(found) for word, found in senses.items()}
    total = sum(chance[word] * count for word, count in counts.items()) / len(occurrences)
    return HomographResult(
        accuracy=accuracy,
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


def _vectors(elmo: Elmo, occurrences: Sequence[Occurrence]) -> list[Vectors]:
    """The vectors of each occurrence, (L + 1, D)."""
    sentences, places = [], []
    for item in occurrences:
        (tokens,) = elmo.tokenize_with_offsets(item.text)
        place = [i for i, t in enumerate(tokens) if t.start < item.end and t.end > item.start]
        if not place:
            raise InputError(
                f"{item.text!r:.80}: no token is at {item.text[item.start : item.end]!r}"
            )
        sentences.append([token.text for token in tokens])
        places.append(place)
    layers = stream_layers(elmo, sentences)
    return [with_average(v[:, p].mean(axis=1)) for v, p in zip(layers, places, strict=True)]


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
            raise InputError(f"{word!r} has one sense only; expected two or more")
        for sense, count in counts.items():
            if count < 2:
                raise InputError(f"{word!r}, sense {sense!r}: one sentence; expected two or more")
    return {word: list(counts) for word, counts in senses.items()}


def _unmark(sentence: str, where: str) -> tuple[str, int, int]:
    """The sentence without its brackets, and the span that was inside of them."""
    unmarked = split_marked(sentence)
    if unmarked is None or unmarked[1] == unmarked[2]:
        raise FormatError(
            f"{where}: expected exactly one word in brackets, as in: the river [bank]"
        )
    return unmarked


def _title(name: str) -> str:
    return f"layer {name}" if name.isdigit() else name
