"""The words of a task and their rows, and sentences as the tensors that every task model reads."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...nn.shapes import Bool, Float, Int
from ...text.ids import PADDING as NO_CHARACTER
from ...text.ids import ByteCharacters
from ...text.normalize import without_surrogates
from ...vectors.static import StaticVectors
from ..config import WordsConfig
from .bilm import LayerSource, Tokens

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


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """A batch of sentences; B sentences, T tokens, N distinct words, C characters, L layers.

    Attributes:
        mask: True for real tokens.
        words: Row of each token in the word table.
        characters: Spelling of each distinct word.
        spelled: Row of each token in `characters`.
        layers: Layers of the biLM.
    """

    mask: Bool[Tensor, "B T"]
    words: Int[Tensor, "B T"] | None = None
    characters: Int[Tensor, "N C"] | None = None
    spelled: Int[Tensor, "B T"] | None = None
    layers: Float[Tensor, "L B T D"] | None = None


class TokenReader:
    """Turns sentences into batches.

    Args:
        config: The word inputs.
        table: Rows of the words; None for no word vectors.
        source: Layers of the biLM; None for a model without ELMo.
        device: Where the batches go.
    """

    def __init__(
        self,
        config: WordsConfig,
        table: WordTable | None,
        source: LayerSource | None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.table, self.source, self.device = table, source, torch.device(device)
        self.characters = ByteCharacters(config.max_characters) if config.char_filters else None
        self.margin = config.char_width

    def __call__(self, sentences: Sequence[Tokens]) -> TokenBatch:
        """The batch of tokenised sentences."""
        lengths = np.array([len(s) for s in sentences], dtype=np.int64)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        words = characters = spelled = layers = None
        if self.table is not None:
            words = self._padded([self.table.rows(s) for s in sentences], mask)
        if self.characters is not None:
            distinct: dict[str, int] = {}
            rows = [[distinct.setdefault(t, len(distinct)) for t in s] for s in sentences]
            spelled = self._padded(rows, mask)
            characters = self._spell(list(distinct))
        if self.source is not None:
            layers = self.source.layers(sentences).to(self.device)
        return TokenBatch(
            torch.from_numpy(mask).to(self.device), words, characters, spelled, layers
        )

    def _spell(self, words: list[str]) -> Tensor:
        assert self.characters is not None
        ids = self.characters.encode(words)
        # Columns beyond one whole filter of padding add nothing to the maximum over positions.
        longest = int((ids != NO_CHARACTER).sum(axis=1).max(initial=0))
        return torch.from_numpy(ids[:, : longest + self.margin]).to(self.device)

    def _padded(self, rows: Sequence[Sequence[int]], mask: np.ndarray) -> Tensor:
        padded = np.zeros(mask.shape, dtype=np.int64)
        padded[mask] = [i for row in rows for i in row]
        return torch.from_numpy(padded).to(self.device)
