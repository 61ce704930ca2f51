"""Where the data of each experiment are in a folder of data sets.

The paths are patterns relative to the folder; each file may also be compressed (`.gz`, …).
"""

from pathlib import Path

from ..errors import FileError

TASK_DATA = {
    "ner": ("ner/en-ewt/train.iob2", "ner/en-ewt/dev.iob2"),
    "sentiment": ("sst5/train.txt", "sst5/dev.txt"),
    "squad": ("squad/train.json", "squad/dev.json"),
    "snli": ("snli/train.jsonl", "snli/dev.jsonl"),
    "srl": ("srl/train.jsonl", "srl/dev.jsonl"),
    "coref": ("coref/litbank/train", "coref/litbank/dev"),
}
"""Training and development data of the tasks."""

POS_DATA = {
    "en": ("pos/en-ewt/train.conllu", "pos/en-ewt/dev.conllu"),
    "ko": ("pos/ko-kaist/train.conllu", "pos/ko-kaist/dev.conllu"),
}
"""Training and development data of the part-of-speech probe, by language."""

STATIC = "glove/*.txt"
SEMCOR = "wsd/semcor/*.jsonl"
SENSE_SETS = "wsd/*/*.data.xml"
SENSE_INDEX = "wsd/wordnet/index.sense"

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


def task_data(data: Path, task: str) -> tuple[Path, Path]:
    """Training and development data of a task."""
    if task not in TASK_DATA:
        raise FileError(f"task {task}: no data are laid out for it (reproduce/layout.py)")
    return find_pair(data, TASK_DATA[task])


def _is_compressed(path: Path, other: Path) -> bool:
    return path != other and path.suffix in _SUFFIXES[1:] and path.with_suffix("") == other
