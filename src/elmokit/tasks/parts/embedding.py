"""What a task model reads of each token: [static vectors; character CNN; ELMo].

`TokenReader` turns sentences into the tensors of a `TokenBatch`, and `TaskEmbedding` turns these
into one vector per token. Shapes: B sentences, T tokens, N distinct words, C characters, L layers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...config import CharCnnConfig
from ...nn import CharCnn, ScalarMix
from ...nn.shapes import Bool, Float, Int
from ...text.ids import PADDING as NO_CHARACTER
from ...text.ids import ByteCharacters
from ...text.normalize import without_surrogates
from ...vectors.static import StaticVectors
from ..config import ElmoPlacement, WordsConfig
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
    sentences: Iterable[Iterable[str]], config: WordsConfig, static: StaticVectors | None
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
    """A batch of sentences.

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
    """Turns tokenised sentences into batches on `device`; without `source` there is no ELMo."""

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
        """The batch of the sentences."""
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


class TaskEmbedding(nn.Module):
    """x_k and ELMo_k of each token, ELMo at the input, the output or both (paper, section 3.3).

    The biLM is no part of it: its layers come with the batch.

    Args:
        elmo: Where ELMo goes.
        words: The context-free inputs.
        table: Words and perhaps their static vectors; None for no word vectors.
        num_layers: Layers of the biLM that come with a batch.
        elmo_dim: Width of these layers.
    """

    def __init__(
        self,
        elmo: ElmoPlacement,
        words: WordsConfig,
        table: WordTable | None,
        num_layers: int = 0,
        elmo_dim: int = 0,
    ) -> None:
        super().__init__()
        self.l2 = elmo.l2
        self.table = None if table is None else _WordVectors(words, table)
        self.char_cnn = None
        if words.char_filters:
            self.char_cnn = CharCnn(
                CharCnnConfig(
                    max_characters=words.max_characters,
                    dim=words.char_dim,
                    filters=((words.char_width, words.char_filters),),
                    num_highway=0,
                )
            )
        self.dropout = nn.Dropout(words.dropout)
        self.mixes = nn.ModuleDict(
            {
                name: ScalarMix(num_layers, layer_norm=elmo.layer_norm, dropout=elmo.dropout)
                for name in elmo.mixes
            }
        )
        self.dim = words.char_filters + (elmo_dim if elmo.at_input else 0)
        self.dim += 0 if self.table is None else self.table.dim
        self.output_dim = elmo_dim if elmo.at_output else 0

    __call__: Callable[..., Tensor]

    def forward(self, batch: TokenBatch) -> Float[Tensor, "B T D"]:
        """[x_k; ELMo_k], or x_k alone; zero where the shorter sentences end."""
        parts = []
        if self.table is not None:
            parts.append(self.dropout(self.table(batch.words)))
        if self.char_cnn is not None:
            assert batch.characters is not None and batch.spelled is not None
            parts.append(self.dropout(self.char_cnn(batch.characters)[batch.spelled]))
        if "input" in self.mixes:
            parts.append(self.mixes["input"](batch.layers, batch.mask))
        return torch.cat(parts, dim=-1) * batch.mask[..., None]

    def at_output(
        self,
        h: Float[Tensor, "B T H"],
        batch: TokenBatch,
        dropout: Callable[[Tensor], Tensor] | None = None,
    ) -> Float[Tensor, "B T H+E"]:
        """[h_k; ELMo_k] where ELMo is at the output, else h_k; `dropout` in place of the mix's."""
        mix = self._scalar_mixes().get("output")
        if mix is None:
            return h
        assert batch.layers is not None
        mixed = mix.combine(batch.layers, batch.mask)
        return torch.cat([h, (dropout or mix.dropout)(mixed)], dim=-1)

    @property
    def input_mix(self) -> ScalarMix | None:
        """The mix of the layers at the input."""
        return self._scalar_mixes().get("input")

    def penalty(self) -> Float[Tensor, ""]:
        """λ‖s‖² of all mixes, to add to the loss."""
        zero = torch.zeros(())
        return sum((mix.penalty(self.l2) for mix in self._scalar_mixes().values()), zero)

    def layer_weights(self) -> dict[str, dict[str, list[float] | float]]:
        """The learned softmax(s) and γ of each mix: JSON data, and what Figure 2 shows."""
        return {
            name: {"weights": mix.weights().tolist(), "gamma": mix.gamma.item()}
            for name, mix in self._scalar_mixes().items()
        }

    def _scalar_mixes(self) -> dict[str, ScalarMix]:
        return {name: mix for name, mix in self.mixes.items() if isinstance(mix, ScalarMix)}


class _WordVectors(nn.Module):
    """One vector per row: learned, or static and then frozen unless `tune_static` is set."""

    def __init__(self, config: WordsConfig, table: WordTable) -> None:
        super().__init__()
        self.dim = config.dim if table.matrix is None else int(table.matrix.shape[1])
        rows = torch.zeros(table.num_rows, self.dim)
        if table.matrix is not None:
            rows[NUM_SPECIAL:] = torch.from_numpy(table.matrix)
        else:
            rows[1:].normal_(std=self.dim**-0.5)
        self.weight: Tensor
        if table.matrix is None or config.tune_static:
            self.weight = nn.Parameter(rows)
        else:
            # Not in the saved model: a run keeps its static vectors once for all seeds.
            self.register_buffer("weight", rows, persistent=False)

    def forward(self, words: Tensor) -> Tensor:
        return nn.functional.embedding(words, self.weight, padding_idx=0)
