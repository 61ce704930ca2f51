"""The words of a task and their rows: learned ones from the training data, or static vectors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..text.normalize import without_surrogates
from .config import WordsConfig

if TYPE_CHECKING:
    from ..vectors.static import StaticVectors

PADDING, UNKNOWN, NUM_SPECIAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class WordTable:
    """Words and, where they are given, their vectors; the first two rows are no words.

    Attributes:
        words: Word of each row from `NUM_SPECIAL` on.
        matrix: Static vectors of these words, (N, D); None where they are to be learned.
    """

    words: Sequence[str]
    matrix: NDArray[np.float32] | None = None
    _rows: dict[str, int] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._rows.update((word, i) for i, word in enumerate(self.words, start=NUM_SPECIAL))

    @property
    def num_rows(self) -> int:
        """Rows of the table, padding and unknown words included."""
        return len(self.words) + NUM_SPECIAL

    def rows(self, tokens: Iterable[str]) -> list[int]:
        """The row of each token as it is written, else of it in small letters, else unknown."""
        known = self._rows
        return [known.get(token) or known.get(token.lower(), UNKNOWN) for token in tokens]


def word_table(
    sentences: Iterable[Iterable[str]], config: WordsConfig, static: "StaticVectors | None"
) -> WordTable | None:
    """The table of a new model: the static vectors, or the frequent words of the training data."""
    if static is not None:
        return WordTable(list(static.words), np.asarray(static.matrix, np.float32))
    if not config.dim:
        return None
    counts = Counter(
        token.lower() if config.lowercase else token for tokens in sentences for token in tokens
    )
    frequent = (w for w, n in sorted(counts.items()) if n >= config.min_count)
    return WordTable([w for w in frequent if _is_line(w)])


def _is_line(word: str) -> bool:
    """Whether a text file can hold a word as a line; others are unknown words."""
    return not word.endswith("\r") and "\n" not in word and without_surrogates(word) == word
