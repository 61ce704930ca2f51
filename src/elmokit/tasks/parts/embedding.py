"""What a task model reads of each token: [static vectors; character CNN; ELMo]."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...config import CharCnnConfig
from ...nn import ScalarMix
from ...nn.char_cnn import CharCnn
from ...nn.shapes import Float
from ..config import ElmoPlacement, WordsConfig
from .words import NUM_SPECIAL, TokenBatch, WordTable


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
        self.char_cnn = CharCnn(_spelling(words)) if words.char_filters else None
        self.dropout = nn.Dropout(words.dropout)
        norm, dropout = elmo.layer_norm, elmo.dropout
        self.mixes = nn.ModuleDict()
        for name, is_there in (("input", elmo.at_input), ("output", elmo.at_output)):
            if is_there:
                self.mixes[name] = ScalarMix(num_layers, layer_norm=norm, dropout=dropout)
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

    def penalty(self) -> Float[Tensor, ""]:
        """λ‖s‖² of all mixes, to add to the loss."""
        zero = torch.zeros(())
        return sum((mix.penalty(self.l2) for mix in self._scalar_mixes().values()), zero)

    def layer_weights(self) -> dict[str, dict[str, list[float] | float]]:
        """The learned softmax(s) and γ by place: JSON data, and what Figure 2 shows."""
        return {
            place: {"weights": mix.weights().tolist(), "gamma": mix.gamma.item()}
            for place, mix in self._scalar_mixes().items()
        }

    def _scalar_mixes(self) -> dict[str, ScalarMix]:
        return {name: mix for name, mix in self.mixes.items() if isinstance(mix, ScalarMix)}


class _WordVectors(nn.Module):
    """A vector a row: learned, or static and then frozen unless they are to be tuned."""

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


def _spelling(words: WordsConfig) -> CharCnnConfig:
    return CharCnnConfig(
        max_characters=words.max_characters,
        dim=words.char_dim,
        filters=((words.char_width, words.char_filters),),
        num_highway=0,
    )
