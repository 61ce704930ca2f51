"""Text files, and what a prepared corpus holds."""

import random
from collections.abc import Sequence
from pathlib import Path

from elmokit.corpus import Corpus, Sentences


def spelled(corpus: Corpus, part: Sentences) -> list[list[str]]:
    return [[corpus.words[i] for i in part[k]] for k in range(len(part))]


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def some_lines(number: int) -> list[str]:
    generator = random.Random(1)
    words = ["cat", "dog", "Seoul", "한국어", "ran", "away,", "x" * 60, "<UNK>"]
    return [
        " ".join(generator.choices(words, k=generator.randint(0, 12))) + "." for _ in range(number)
    ]


class Killed(Exception):
    """What stops a run in the middle."""
