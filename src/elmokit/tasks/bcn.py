"""The biattentive classification network (McCann et al. 2017; paper, section 4: sentiment)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..nn.shapes import Bool, Float
from .batch import TokenBatch
from .config import BcnConfig
from .data.examples import LabelledText
from .embedding import TaskEmbedding
from .encoder import BiLstm, VariationalDropout
from .labels import LabelModel
from .task import Read


class Bcn(LabelModel):
    """A sentence that attends to itself, pooled four ways, and classified by maxout layers.

    The original reads two texts; of a single one, both are the same, and one half is enough.

    Args:
        config: The sizes.
        embedding: What it reads of each token.
        labels: The classes.
    """

    def __init__(self, config: BcnConfig, embedding: TaskEmbedding, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.embedding = embedding
        self.feed_forward = nn.Linear(embedding.dim, config.dim)
        self.encoder = BiLstm(config.dim, config.dim)
        self.integrator = BiLstm(3 * self.encoder.dim, config.dim)
        width = self.integrator.dim + embedding.output_dim
        self.attention = nn.Linear(width, 1)
        self.dropout = nn.Dropout(config.dropout)
        # The largest of values that are dropped and doubled one by one is twice that of prediction.
        self.elmo_dropout = VariationalDropout(config.elmo.dropout)
        pooled = 4 * width
        hidden = max(1, pooled // config.reduction), max(1, pooled // config.reduction**2)
        self.classifier = nn.Sequential(
            Maxout(pooled, hidden[0], config.maxout_pieces),
            nn.Dropout(config.dropout),
            Maxout(hidden[0], hidden[1], config.maxout_pieces),
            nn.Dropout(config.dropout),
            nn.Linear(hidden[1], len(self.labels)),
        )

    def __call__(self, batch: TokenBatch) -> Tensor:
        logits: Tensor = super().__call__(batch)
        return logits

    def forward(self, batch: TokenBatch) -> Float[Tensor, "B K"]:
        """The scores of the classes."""
        x = self.dropout(torch.relu(self.feed_forward(self.embedding(batch))))
        h = self.encoder(x, batch.mask)
        context = biattention(h, batch.mask)
        h = self.integrator(torch.cat([h, h - context, h * context], dim=-1), batch.mask)
        h = self.embedding.at_output(self.dropout(h), batch, self.elmo_dropout)
        pooled = torch.cat([*pools(h, batch.mask), self._attentive(h, batch.mask)], dim=-1)
        scores: Tensor = self.classifier(self.dropout(pooled))
        return scores

    def scores(self, examples: Sequence[LabelledText], read: Read) -> Float[Tensor, "B K"]:
        """The scores of the labels of each text."""
        return self(read([example.tokens for example in examples]))

    def _attentive(self, h: Tensor, mask: Tensor) -> Tensor:
        """The mean of the tokens, weighted by how much each matters."""
        scores = self.attention(h).squeeze(-1).masked_fill(~mask, -torch.inf)
        return torch.einsum("bt,btd->bd", scores.softmax(dim=-1), h)


class Maxout(nn.Module):
    """The largest of several linear functions, value by value (Goodfellow et al. 2013)."""

    def __init__(self, input_dim: int, dim: int, num_pieces: int) -> None:
        super().__init__()
        self.num_pieces = num_pieces
        self.linear = nn.Linear(input_dim, dim * num_pieces)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B E"]:
        pieces: Tensor = self.linear(x).unflatten(-1, (-1, self.num_pieces))
        return pieces.amax(dim=-1)


def biattention(h: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    """What the whole sentence looks like to each of its tokens: softmax(H Hᵀ) H."""
    affinity = torch.einsum("bsd,btd->bst", h, h).masked_fill(~mask[:, None], -torch.inf)
    return affinity.softmax(dim=-1) @ h


def pools(h: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> list[Tensor]:
    """The largest, the mean and the smallest value over the tokens."""
    is_padding = ~mask[..., None]
    mean = (h * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return [
        h.masked_fill(is_padding, -torch.inf).amax(dim=1),
        mean,
        h.masked_fill(is_padding, torch.inf).amin(dim=1),
    ]
