"""Word senses by the nearest average vector of SemCor's senses, layer by layer (paper, table 5).

Also reads the data: SemCor, the test sets of the unified framework, WordNet's sense index.
Multi-words are one word in these files, joined by `_` in SemCor and by a space in the tests. A
language model has read their parts as words, so they are split, and their vector is the mean.
The quotes of the Penn Treebank become the quotes that people write, likewise.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from xml.parsers import expat

import numpy as np

from ..errors import FileError, FormatError, InputError, quoted
from ..files.read import read_lines
from ..layers import normalise
from ..model import Elmo
from ..tables import format_table, percent
from .layers import Vectors, layer_names, spread, stream_layers, with_average

ALL = "all"
FIRST_SENSE = "first sense"
TIE = 1e-6
"""Cosines that differ by less are equal: rounding does not choose senses."""

Gold: TypeAlias = tuple[int, tuple[str, ...]]
"""The line of a key file, and the senses in it."""

_TEST_POS = {"NOUN": "1", "VERB": "2", "ADJ": "3", "ADV": "4"}
_KINDS = {"1": "1", "2": "2", "3": "3", "4": "4", "5": "3"}
"""A satellite adjective (5) is an adjective: WordNet numbers their senses together."""
_QUOTES = {"``": '"', "''": '"'}


@dataclass(frozen=True, slots=True)
class Target:
    """A word whose sense is known.

    Attributes:
        start: Its first token.
        end: The token after its last one.
        entry: Lemma and part of speech, as in `bank%1`.
        keys: Its senses as sense keys; in a test any of them is right.
    """

    start: int
    end: int
    entry: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SenseSentence:
    """A sentence, some of whose words have senses."""

    tokens: tuple[str, ...]
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class SenseSet:
    """A test set."""

    name: str
    sentences: tuple[SenseSentence, ...]

    @property
    def num_targets(self) -> int:
        """Words to be disambiguated."""
        return sum(len(sentence.targets) for sentence in self.sentences)


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
    rows = (FIRST_SENSE, *layer_names(elmo.num_layers))
    tallies = {name: _Tally(len(rows)) for name in (*(test.name for test in tests), ALL)}
    for test in tests:
        for target, vector in _target_vectors(elmo, test.sentences):
            first, known = first_sense(target.entry, senses), candidates.get(target.entry)
            tallies[test.name].add(target, first, known, vector)
        tallies[ALL] += tallies[test.name]
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
    tally = _Tally(1)
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

    def __init__(self, num_rows: int) -> None:
        self.right = np.zeros(num_rows, np.int64)
        self.answered = np.zeros(num_rows, np.int64)
        self.num_targets = self.num_backed_off = 0

    def __iadd__(self, other: "_Tally") -> "_Tally":
        self.right += other.right
        self.answered += other.answered
        self.num_targets += other.num_targets
        self.num_backed_off += other.num_backed_off
        return self

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


def entry_of(key: str) -> str:
    """The lemma and part of speech of a sense key: `good%5:00:00:ample:00` → `good%3`."""
    lemma, _, rest = key.rpartition("%")
    if not lemma or rest[:1] not in _KINDS or rest[1:2] != ":":
        raise ValueError(f"{key!r:.60} is not a sense key, such as bank%1:17:01::")
    return f"{lemma.lower()}%{_KINDS[rest[0]]}"


def read_sense_index(path: Path | str) -> dict[str, dict[str, int]]:
    """Number of each sense by entry, then key, from WordNet's `index.sense`; 1 is the first."""
    numbers: dict[str, dict[str, int]] = {}
    for line_number, line in enumerate(read_lines(path), 1):
        try:
            key, _, sense, _ = line.split()
            numbers.setdefault(entry_of(key), {})[key] = int(sense)
        except ValueError as e:
            raise FormatError(
                f"{path}, line {line_number}: expected a sense key, an offset, a sense number and "
                f"a count, as in WordNet's index.sense ({e})"
            ) from e
    if not numbers:
        raise InputError(f"{path} is empty; expected the sense index of WordNet")
    return numbers


def read_semcor(path: Path | str) -> Iterator[SenseSentence]:
    """The sentences of a JSONL file: {"tokens": [[form, lemma, pos, [sense key, …]], …]}."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                yield _semcor_sentence(json.loads(line)["tokens"])
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
                raise FormatError(
                    f"{path}, line {number}: expected an object with tokens "
                    f"[form, lemma, pos, [sense key, …]] ({e})"
                ) from e


def read_sense_set(folder: Path | str) -> SenseSet:
    """The test set of a folder with one `NAME.data.xml` and its `NAME.gold.key.txt`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder; expected one with a .data.xml and a .key.txt")
    data, gold = (_only_file(folder, kind) for kind in (".data.xml", ".gold.key.txt"))
    keys = _read_gold(gold)
    parser = _TestParser(data, gold, dict(keys))
    sentences = tuple(parser.sentences())
    if parser.keys:
        name, (line, _) = min(parser.keys.items(), key=lambda item: item[1][0])
        raise FormatError(f"{gold}, line {line}: {quoted(name)} is no instance of {data.name}")
    if not keys:
        raise InputError(f"{data}: there is no instance in it to disambiguate")
    return SenseSet(data.name.partition(".data.xml")[0], sentences)


def split_words(form: str) -> list[str]:
    """The words of a multi-word; `_` alone is a word, and two of the marks are a quote."""
    if form in _QUOTES:
        return [_QUOTES[form]]
    return form.replace("_", " ").split() or [form]


def _semcor_sentence(tokens: list[Any]) -> SenseSentence:
    words: list[str] = []
    targets: list[Target] = []
    for form, _, _, keys in tokens:
        start = len(words)
        words += split_words(form)
        by_entry: dict[str, list[str]] = {}
        for key in keys:
            by_entry.setdefault(entry_of(key), []).append(key)
        targets += [Target(start, len(words), entry, tuple(k)) for entry, k in by_entry.items()]
    return SenseSentence(tuple(words), tuple(targets))


def _only_file(folder: Path, kind: str) -> Path:
    found = sorted(p for p in folder.iterdir() if p.name.removesuffix(".gz").endswith(kind))
    if len(found) != 1:
        raise FileError(f"{folder}: {len(found)} files end in {kind}; expected one")
    return found[0]


def _read_gold(path: Path) -> dict[str, Gold]:
    """The line and the right senses of each instance."""
    keys: dict[str, Gold] = {}
    for number, line in enumerate(read_lines(path), 1):
        name, *senses = line.split() or [""]
        if senses and name not in keys:
            keys[name] = number, tuple(senses)
        elif name:
            fault = "a second line of" if senses else "no sense key for"
            raise FormatError(f"{path}, line {number}: {fault} {name!r:.60}")
    return keys


class _TestParser:
    """Reads the XML of the unified framework: sentences of `wf` and `instance` elements.

    `keys` are the gold senses; each is taken out when its instance comes.
    """

    def __init__(self, path: Path, gold: Path, keys: dict[str, Gold]) -> None:
        self.path, self.gold, self.keys = path, gold, keys
        self._done: list[SenseSentence] = []
        self._words: list[str] = []
        self._targets: list[Target] = []
        self._element: dict[str, str] | None = None
        self._text = ""
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def sentences(self) -> Iterator[SenseSentence]:
        """The sentences of the file."""
        try:
            for line in read_lines(self.path):
                self._parser.Parse(line + "\n")
                yield from self._done
                self._done.clear()
            self._parser.Parse("", True)
        except expat.ExpatError as e:
            reason = expat.ErrorString(e.code)
            raise FormatError(f"{self.path}, line {e.lineno}: not XML ({reason})") from e

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sentence":
            self._words, self._targets = [], []
        elif name in ("wf", "instance"):
            self._element, self._text = attributes, ""

    def _characters(self, text: str) -> None:
        self._text += text

    def _end(self, name: str) -> None:
        if name == "sentence":
            self._done.append(SenseSentence(tuple(self._words), tuple(self._targets)))
        elif name in ("wf", "instance") and self._element is not None:
            start = len(self._words)
            self._words += split_words(self._text.strip()) if self._text.strip() else []
            if name == "instance":
                self._targets.append(self._target(self._element, start))
            self._element = None

    def _target(self, attributes: dict[str, str], start: int) -> Target:
        where = f"{self.path}, line {self._parser.CurrentLineNumber}"
        name, lemma, pos = (attributes.get(key, "") for key in ("id", "lemma", "pos"))
        if not name or not lemma or pos not in _TEST_POS or start == len(self._words):
            raise FormatError(
                f"{where}: instance {quoted(name)}: expected a word with id, lemma and a pos of "
                f"{', '.join(_TEST_POS)}"
            )
        if name not in self.keys:
            raise FormatError(f"{where}: instance {quoted(name)} has no key in {self.gold.name}")
        entry = f"{lemma.lower()}%{_TEST_POS[pos]}"
        return Target(start, len(self._words), entry, self.keys.pop(name)[1])
