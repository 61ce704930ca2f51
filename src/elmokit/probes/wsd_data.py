"""Words with WordNet senses: SemCor, the test sets of the unified framework, the sense index.

Multi-words are one word in these files, joined by `_` in SemCor and by a blank in the tests. A
language model has read their parts as words, so they are split, and their vector is the mean.
The quotes of the Penn Treebank come as people write them, likewise.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from xml.parsers import expat

from ..errors import FileError, FormatError, InputError, quoted
from ..files.read import read_lines

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
