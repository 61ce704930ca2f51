"""Where the data of each experiment are in a folder of data sets.

The paths are patterns relative to the folder; each file may also be compressed (`.gz`, …).
"""

from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError, FileError, quoted


class DataSet(NamedTuple):
    """Training and development data of a task."""

    task: str
    train: str
    dev: str
    title: str = ""
    """Where it is not the paper's name of the task."""
    settings: tuple[str, ...] = ()
    """What the task has to know to read it."""
    has_static: bool = True
    """Whether the (English) static vectors are for it."""


_KLUE = "ner/ko-klue/*.tsv"
_3I4K = "ko-3i4k/train.txt"
_KORQUAD = "korquad/*.json"

DATA_SETS = {
    "ner": DataSet("ner", "ner/en-ewt/train.iob2", "ner/en-ewt/dev.iob2"),
    "sentiment": DataSet("sentiment", "sst5/train.txt", "sst5/dev.txt"),
    "squad": DataSet("squad", "squad/train.json", "squad/dev.json"),
    "snli": DataSet("snli", "snli/train.jsonl", "snli/dev.jsonl"),
    "srl": DataSet("srl", "srl/train.jsonl", "srl/dev.jsonl"),
    "coref": DataSet("coref", "coref/litbank/train", "coref/litbank/dev"),
    "wnut17": DataSet("ner", "ner/wnut17/train.conll", "ner/wnut17/dev.conll", "WNUT 17"),
    "klue": DataSet("ner", _KLUE, _KLUE, "KLUE-NER", ("held_out=0.1",), False),
    "nsmc": DataSet("sentiment", "nsmc/train.tsv", "nsmc/dev.tsv", "NSMC", (), False),
    "3i4k": DataSet(
        "sentiment",
        _3I4K,
        _3I4K,
        "3i4K",
        ("held_out=0.1", "text_column=1", "label_column=0"),
        False,
    ),
    "korquad": DataSet("squad", _KORQUAD, _KORQUAD, "KorQuAD", ("held_out=0.1",), False),
}
"""By name, which is that of the task for the data that stand for the paper's."""

POS_DATA = {
    "en": ("pos/en-ewt/train.conllu", "pos/en-ewt/dev.conllu"),
    "ko": ("pos/ko-kaist/train.conllu", "pos/ko-kaist/dev.conllu"),
}
"""Training and development data of the part-of-speech probe, by language."""

STATIC = "glove/*.txt"
SEMCOR = "wsd/semcor/*.jsonl"
SENSE_SETS = "wsd/*/*.data.xml"
SENSE_INDEX = "wsd/wordnet/index.sense"
HOMOGRAPHS = "wic/en-homographs/train.tsv"
WIC = ("wic/ko-kobest/train.tsv", "wic/ko-kobest/dev.tsv")
MINIMAL_PAIRS = "minimal-pairs/en-blimp-dev.jsonl"
SIMILARITY = "korsts/*dev.tsv"

_SUFFIXES = ("", ".gz", ".xz", ".zst")


def find_all(data: Path, pattern: str) -> list[Path]:
    """What a pattern matches, compressed or not, in the order of the names; at least one."""
    if not data.is_dir():
        raise FileError(f"{data}: no such folder; expected one of data sets (--data)")
    found = {path for suffix in _SUFFIXES for path in data.glob(pattern + suffix)}
    # Of a file that is there both ways, the plain one: its name is the beginning of the other.
    kept = [p for p in sorted(found) if not any(_is_compressed(p, other) for other in found)]
    if not kept:
        raise FileError(
            f"{data} has no {pattern} (or {', '.join(_SUFFIXES[1:])}); see docs/reproduce.md"
        )
    return kept


def find_one(data: Path, pattern: str) -> Path:
    """The one file or folder that a pattern matches."""
    found = find_all(data, pattern)
    if len(found) > 1:
        names = ", ".join(str(path.relative_to(data)) for path in found)
        raise FileError(f"{data}: {pattern} is to be one file; there are {names}")
    return found[0]


def find_pair(data: Path, patterns: tuple[str, str]) -> tuple[Path, Path]:
    """Training and development data."""
    return find_one(data, patterns[0]), find_one(data, patterns[1])


def data_set(name: str) -> DataSet:
    """The data set of that name."""
    if name not in DATA_SETS:
        raise ConfigError(f"task {quoted(name)}: expected one of {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def task_data(data: Path, name: str) -> tuple[Path, Path]:
    """The files of a data set."""
    found = data_set(name)
    return find_pair(data, (found.train, found.dev))


def _is_compressed(path: Path, other: Path) -> bool:
    return path != other and path.suffix in _SUFFIXES[1:] and path.with_suffix("") == other
