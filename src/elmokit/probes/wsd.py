"""Word senses by the nearest average vector of SemCor's senses, layer by layer (paper, table 5)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..model import Elmo
from ..pooling import normalise
from .layers import Vectors, layer_names, spread, stream_layers, with_average
from .tables import format_table, percent
from .wsd_data import SenseSentence, SenseSet, Target

ALL = "all"
FIRST_SENSE = "first sense"
TIE = 1e-6
"""Cosines that differ by less are equal: rounding does not choose senses."""


@dataclass(frozen=True, slots=True)
class WsdResult:
    """The F1 of each layer on each test set.

    Attributes:
        f1: By layer (`first sense`, `0`, `1`, …, `average`), then by test set and `all`.
        num_instances: Words to be disambiguated, by test set and `all`.
        backed_off: Share of the words that have no sense in the training data, so that every
            layer answers with WordNet's first sense; by test set and `all`.
        num_train_sentences: Sentences that were averaged.
        num_senses: Senses of the tested words that have an average.
    """

    f1: dict[str, dict[str, float]]
    num_instances: dict[str, int]
    backed_off: dict[str, float]
    num_train_sentences: int
    num_senses: int

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "f1": self.f1,
            "instances": self.num_instances,
            "backed_off": self.backed_off,
            "train_sentences": self.num_train_sentences,
            "senses": self.num_senses,
            "method": "1-nearest-neighbour (cosine) to sense averages, first sense if unseen",
        }

    def __str__(self) -> str:
        names = list(self.num_instances)
        rows = [[row, *(percent(f1[name]) for name in names)] for row, f1 in self.f1.items()]
        rows.append(["backed off", *(f"{self.backed_off[name]:.1%}" for name in names)])
        rows.append(["instances", *(f"{self.num_instances[name]:,}" for name in names)])
        return (
            f"{format_table(['F1 of layer', *names], rows)}\n"
            f"{self.num_senses:,} senses of the tested words averaged over "
            f"{self.num_train_sentences:,} sentences"
        )


def wsd_probe(
    elmo: Elmo,
    train: Sequence[SenseSentence],
    tests: Sequence[SenseSet],
    senses: Mapping[str, Mapping[str, int]],
    *,
    max_sentences: int | None = None,
) -> WsdResult:
    """How well the vectors of each layer tell senses apart.

    The vector of a word is compared, by its cosine, to the average vector of each sense that its
    lemma and part of speech have in the training data; among equals the lower sense number wins.
    Only sums of the senses of tested words are kept in memory, never the vectors of all tokens.

    Args:
        elmo: The model.
        train: Sentences with senses, such as SemCor's.
        tests: Test sets.
        senses: Sense numbers by entry and key, of `read_sense_index`.
        max_sentences: Average over so many sentences only, at even distances.
    """
    _check(train, tests)
    train = spread(train, max_sentences)
    wanted = {target.entry for t in tests for s in t.sentences for target in s.targets}
    candidates = {
        entry: _Candidates.of(sums, senses.get(entry, {}))
        for entry, sums in _sense_sums(elmo, train, wanted).items()
    }
    tallies = {test.name: _Tally(len(layer_names(elmo.num_layers))) for test in tests}
    for test in tests:
        for target, vector in _target_vectors(elmo, test.sentences):
            first, known = first_sense(target.entry, senses), candidates.get(target.entry)
            tallies[test.name].add(target, first, known, vector)
    tallies[ALL] = _Tally.total(tallies.values())
    rows = (FIRST_SENSE, *layer_names(elmo.num_layers))
    return WsdResult(
        f1={row: {name: t.f1(i) for name, t in tallies.items()} for i, row in enumerate(rows)},
        num_instances={name: tally.num_targets for name, tally in tallies.items()},
        backed_off={name: t.num_backed_off / t.num_targets for name, t in tallies.items()},
        num_train_sentences=len(train),
        num_senses=sum(len(known.keys) for known in candidates.values()),
    )


def first_sense(entry: str, senses: Mapping[str, Mapping[str, int]]) -> str | None:
    """The key of WordNet's first sense of an entry; None for an entry that it does not have."""
    numbers = senses.get(entry)
    return min(numbers, key=lambda key: (numbers[key], key)) if numbers else None


def first_sense_f1(tests: Iterable[SenseSet], senses: Mapping[str, Mapping[str, int]]) -> float:
    """The F1 of always answering with WordNet's first sense, over all test sets together."""
    tally = _Tally(0)
    for test in tests:
        for sentence in test.sentences:
            for target in sentence.targets:
                tally.add(target, first_sense(target.entry, senses), None, None)
    return tally.f1(0)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The senses that a word can have, in WordNet's order, and their averages (S, L + 1, D)."""

    keys: tuple[str, ...]
    averages: Vectors

    @classmethod
    def of(cls, sums: Mapping[str, Vectors], numbers: Mapping[str, int]) -> "_Candidates":
        # A sum points where its average does, which is all that a cosine looks at.
        keys = sorted(sums, key=lambda key: (numbers.get(key, 1 << 30), key))
        return cls(tuple(keys), normalise(np.stack([with_average(sums[key]) for key in keys])))

    def nearest(self, vector: Vectors) -> list[str]:
        """The sense nearest to (L, D), for each layer and for their average."""
        cosines = np.einsum("sld,ld->ls", self.averages, normalise(with_average(vector)))
        close = cosines >= cosines.max(axis=1, keepdims=True) - TIE
        return [self.keys[i] for i in close.argmax(axis=1)]


class _Tally:
    """Counts of right answers: of the first sense, then of every layer."""

    def __init__(self, num_layers: int) -> None:
        self.right = np.zeros(1 + num_layers, np.int64)
        self.answered = np.zeros(1 + num_layers, np.int64)
        self.num_targets = self.num_backed_off = 0

    @classmethod
    def total(cls, parts: Iterable["_Tally"]) -> "_Tally":
        """The counts of several test sets together."""
        parts = list(parts)
        total = cls(len(parts[0].right) - 1)
        for part in parts:
            total.right += part.right
            total.answered += part.answered
            total.num_targets += part.num_targets
            total.num_backed_off += part.num_backed_off
        return total

    def add(
        self,
        target: Target,
        first: str | None,
        candidates: _Candidates | None,
        vector: Vectors | None,
    ) -> None:
        """Count the answers for one word; without candidates they are all the first sense."""
        answers: list[str | None] = [first] * len(self.right)
        if candidates is not None and vector is not None:
            answers[1:] = candidates.nearest(vector)
        self.right += [answer in target.keys for answer in answers]
        self.answered += [answer is not None for answer in answers]
        self.num_targets += 1
        self.num_backed_off += candidates is None

    def f1(self, row: int) -> float:
        """2PR / (P + R); a word without an answer lowers recall only."""
        return float(2 * self.right[row] / (self.answered[row] + self.num_targets))


def _sense_sums(
    elmo: Elmo, train: Sequence[SenseSentence], wanted: set[str]
) -> dict[str, dict[str, Vectors]]:
    """The sum of the vectors, (L, D), of each sense, by entry and key; of wanted entries only."""
    sums: dict[str, dict[str, Vectors]] = {}
    for target, vector in _target_vectors(elmo, train, wanted):
        of_entry = sums.setdefault(target.entry, {})
        for key in target.keys:
            of_entry[key] = of_entry[key] + vector if key in of_entry else vector
    return sums


def _target_vectors(
    elmo: Elmo, sentences: Sequence[SenseSentence], wanted: set[str] | None = None
) -> Iterator[tuple[Target, Vectors]]:
    """Each target with its vector in all layers, (L, D): the mean of its tokens."""
    useful = [
        (sentence, targets)
        for sentence in sentences
        if (targets := [t for t in sentence.targets if wanted is None or t.entry in wanted])
    ]
    layers = stream_layers(elmo, [sentence.tokens for sentence, _ in useful])
    for (_, targets), vectors in zip(useful, layers, strict=True):
        for target in targets:
            yield target, vectors[:, target.start : target.end].mean(axis=1)


def _check(train: Sequence[SenseSentence], tests: Sequence[SenseSet]) -> None:
    if not any(sentence.targets for sentence in train):
        raise InputError("the training data have no word with a sense: there is nothing to compare")
    if not tests:
        raise InputError("there is no test set; give at least one")
    names = [test.name for test in tests]
    if ALL in names or len(set(names)) < len(names):
        raise InputError(
            f"test sets {', '.join(names)}: expected different names, none of them all"
        )
    for test in tests:
        if not test.num_targets:
            raise InputError(f"test set {test.name}: there is no word to disambiguate")
