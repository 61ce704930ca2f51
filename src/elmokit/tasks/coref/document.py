"""Documents with their coreference clusters, in the columns of CoNLL-2012.

A row is a token: the document's name first, the token in the fourth column, and in the last one
the clusters whose mentions begin `(5`, end `5)` or both `(5)` at it, with `|` between several.
Columns are separated by tabs, as in LitBank, or by spaces. Blank lines end sentences;
`#begin document` and `#end document` stand around each document.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from ...errors import FileError, FormatError, InputError
from ...files.read import read_lines
from ..parts.passage import Passage

log = logging.getLogger(__name__)


Span: TypeAlias = tuple[int, int]
"""A mention: its first token, counted over the whole document, and the one after its last."""
Cluster: TypeAlias = tuple[Span, ...]
_BEGIN = re.compile(r"#begin document \((.*)\); part (\d+)\s*")
_MARK = re.compile(r"(\()?(\d+)(\))?")
_WORD_COLUMN, _MIN_COLUMNS = 3, 5


@dataclass(frozen=True, slots=True)
class CorefDocument:
    """A document in sentences, and its mentions by the entities that they mean."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[Cluster, ...] = ()
    source: Passage | None = field(default=None, repr=False, compare=False)
    """The text that it was, if it was one."""

    @property
    def tokens(self) -> list[str]:
        """All tokens; what spans count."""
        return [token for sentence in self.sentences for token in sentence]

    def without_singletons(self) -> "CorefDocument":
        """The document without the mentions that stand alone."""
        real = tuple(cluster for cluster in self.clusters if len(cluster) > 1)
        return CorefDocument(self.name, self.sentences, real)

    def window(self, first: int, end: int) -> "CorefDocument":
        """The sentences `first` to before `end`, with the mentions inside."""
        starts = [0, *accumulate(map(len, self.sentences))]
        low, high = starts[first], starts[end]
        inside = (
            tuple((s - low, e - low) for s, e in cluster if low <= s and e <= high)
            for cluster in self.clusters
        )
        kept = tuple(cluster for cluster in inside if cluster)
        return CorefDocument(self.name, self.sentences[first:end], kept)


def read_documents(path: Path | str, *, labelled: bool = True) -> list[CorefDocument]:
    """The documents of a file, or of all files in a folder whose names have `conll` in them.

    Without `labelled`, they have no clusters, whatever is in the last column.
    """
    if not Path(path).is_dir():
        return list(_read_file(Path(path), labelled))
    files = [p for p in sorted(Path(path).rglob("[!.]*conll*")) if p.is_file()]
    if not files:
        raise FileError(f"{path} has no file with conll in its name, such as a.conll or a.conll.gz")
    return [document for file in files for document in _read_file(file, labelled)]


def _read_file(path: Path, labelled: bool) -> Iterator[CorefDocument]:
    document: _DocumentReader | None = None
    found = False
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}, line {number}"
        if line.startswith("#begin"):
            if document is not None:
                raise FormatError(f"{where}: the document before it has no #end document")
            document = _DocumentReader(where, _name(line, where), labelled)
        elif line.startswith("#end"):
            if document is None:
                raise FormatError(f"{where}: no document begins before this end")
            yield document.close()
            document, found = None, True
        elif line.startswith("#"):
            continue
        elif document is not None:
            document.add(line, where)
        elif line.strip():
            raise FormatError(f"{where}: expected a line `#begin document (NAME); part 0` before")
    if document is not None:
        raise FormatError(f"{document.where}: the document has no #end document; is it complete?")
    if not found:
        raise InputError(f"{path} has no documents")


def _name(line: str, where: str) -> str:
    match = _BEGIN.fullmatch(line)
    if match is None:
        raise FormatError(f"{where}: expected #begin document (NAME); part 0, found {line!r:.60}")
    return match[1] if int(match[2]) == 0 else f"{match[1]}, part {int(match[2])}"


@dataclass(slots=True)
class _DocumentReader:
    """A document while its rows are read."""

    where: str
    name: str
    labelled: bool
    sentences: list[tuple[str, ...]] = field(default_factory=list)
    clusters: dict[str, list[Span]] = field(default_factory=dict)
    mentions: set[Span] = field(default_factory=set)
    sentence: list[str] = field(default_factory=list)
    begun: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    num_before: int = 0
    num_repeated: int = 0

    def add(self, line: str, where: str) -> None:
        """A row, or the end of a sentence."""
        if not line.strip():
            self.end_sentence()
            return
        # LitBank leaves the last column empty where nothing begins or ends.
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) < _MIN_COLUMNS:
            raise FormatError(
                f"{where}: found {len(columns)} columns; expected {_MIN_COLUMNS} or more, "
                "the token in the fourth, the clusters in the last"
            )
        token = columns[_WORD_COLUMN].strip()
        if not token:
            raise FormatError(f"{where}: the token is empty")
        if self.labelled:
            self._mark(columns[-1].strip(), where)
        self.sentence.append(token)

    def end_sentence(self) -> None:
        """All mentions of the sentence must have ended."""
        for name, begun in self.begun.items():
            for _, where in begun:
                raise FormatError(f"{where}: the mention ({name} does not end in its sentence")
        if self.sentence:
            self.sentences.append(tuple(self.sentence))
            self.num_before += len(self.sentence)
            self.sentence = []

    def close(self) -> CorefDocument:
        """The whole document."""
        self.end_sentence()
        if not self.sentences:
            raise FormatError(f"{self.where}: the document has no tokens")
        if self.num_repeated:
            log.warning("%s: %d repeated mentions are left out", self.where, self.num_repeated)
        clusters = (tuple(sorted(spans)) for spans in self.clusters.values())
        return CorefDocument(self.name, tuple(self.sentences), tuple(sorted(clusters)))

    def _mark(self, cell: str, where: str) -> None:
        """What begins and ends at the next token."""
        position = self.num_before + len(self.sentence)
        for mark in _marks(cell):
            match = _MARK.fullmatch(mark)
            if match is None or not (match[1] or match[3]):
                raise FormatError(
                    f"{where}: {mark!r:.40} in the last column; expected (5, 5) or (5)"
                )
            begun = self.begun.setdefault(match[2], [])
            if match[1]:
                begun.append((position, where))
            if match[3]:
                if not begun:
                    raise FormatError(f"{where}: a mention ends with {mark}, but none has begun")
                self._keep(match[2], (begun.pop()[0], position + 1))

    def _keep(self, name: str, span: Span) -> None:
        # As the official scorer does: a span is a mention once only.
        if span in self.mentions:
            self.num_repeated += 1
            return
        self.mentions.add(span)
        self.clusters.setdefault(name, []).append(span)


def _marks(cell: str) -> Sequence[str]:
    return () if cell in ("", "-", "_", "*") else cell.split("|")


def make_clusters(
    spans: Sequence[Span], antecedents: Sequence[int | None], alone: Sequence[bool] | None = None
) -> list[Cluster]:
    """The clusters of spans that are linked, directly or through others.

    Args:
        spans: In the order of the text.
        antecedents: Of each span, the number of one before it, or None.
        alone: Which spans are clusters even without a link; by default none is.
    """
    cluster_of: list[int] = []
    members: defaultdict[int, list[int]] = defaultdict(list)
    for i, antecedent in enumerate(antecedents):
        cluster_of.append(i if antecedent is None else cluster_of[antecedent])
        members[cluster_of[i]].append(i)
    return [
        tuple(spans[i] for i in cluster)
        for first, cluster in members.items()
        if len(cluster) > 1 or (alone is not None and alone[first])
    ]


def bracketed(sentences: Sequence[Sequence[str]], clusters: Sequence[Cluster]) -> list[str]:
    """The sentences with each mention in brackets and the number of its cluster, from 1.

    Example:
        >>> bracketed([["His", "dog", "barks"]], [((0, 1),), ((0, 2),)])
        ['[[His]1 dog]2 barks']
    """
    begins: defaultdict[int, str] = defaultdict(str)
    ends: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, cluster in enumerate(clusters, start=1):
        for start, end in cluster:
            begins[start] += "["
            ends[end - 1].append((start, number))
    lines, position = [], 0
    for sentence in sentences:
        words = []
        for word in sentence:
            # What began last ends first.
            closing = "".join(f"]{number}" for _, number in sorted(ends[position], reverse=True))
            words.append(f"{begins[position]}{word}{closing}")
            position += 1
        lines.append(" ".join(words))
    return lines
