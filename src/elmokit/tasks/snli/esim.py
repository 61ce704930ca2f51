"""ESIM, the enhanced sequential inference model (Chen et al. 2017; paper, section 4: SNLI).

Shapes: P pairs, B = 2P sentences (all premises, then all hypotheses), T tokens, K labels.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...nn.shapes import Bool, Float
from ..batch import TokenBatch
from ..embedding import TaskEmbedding
from ..encoder import BiLstm, VariationalDropout
from ..labels import LabelModel
from ..task import Read
from .config import SnliConfig
from .data import SentencePair


class Esim(LabelModel):
    """Two sentences that attend to each other, compared token by token, then pooled.

    One biLSTM reads both; ELMo is at its input, its output or both. Each token is compared with
    what it is aligned to in the other sentence, a second biLSTM composes the comparisons, and two
    feed-forward layers say the label.

    Args:
        config: The sizes.
        embedding: What it reads of each token.
        labels: The classes.
    """

    def __init__(self, config: SnliConfig, embedding: TaskEmbedding, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.embedding = embedding
        self.encoder = BiLstm(embedding.dim, config.dim)
        width = self.encoder.dim + embedding.output_dim
        self.projection = nn.Linear(4 * width, config.dim)
        self.composer = BiLstm(config.dim, config.dim)
        self.input_dropout = VariationalDropout(config.dropout)
        has_elmo = len(embedding.mixes) > 0
        self.attention_dropout = nn.Dropout(config.attention_dropout if has_elmo else 0.0)
        self.classifier = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(4 * self.composer.dim, config.dim),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.dim, len(self.labels)),
        )

    def __call__(self, batch: TokenBatch) -> Tensor:
        logits: Tensor = super().__call__(batch)
        return logits

    def forward(self, batch: TokenBatch) -> Float[Tensor, "P K"]:
        """The scores of the labels; the first half of the batch are the premises."""
        h = self.encoder(self.input_dropout(self.embedding(batch)), batch.mask)
        h = self.embedding.at_output(h, batch)
        aligned = torch.cat(soft_alignment(*h.chunk(2), *batch.mask.chunk(2)))
        x = h.new_zeros(*batch.mask.shape, self.projection.out_features)
        x[batch.mask] = self._compared(h[batch.mask], aligned[batch.mask])
        v = self.composer(self.input_dropout(x), batch.mask)
        premise, hypothesis = torch.cat(pooled(v, batch.mask), dim=-1).chunk(2)
        scores: Tensor = self.classifier(torch.cat([premise, hypothesis], dim=-1))
        return scores

    def scores(self, examples: Sequence[SentencePair], read: Read) -> Float[Tensor, "P K"]:
        """The scores of the labels of each pair."""
        sentences = [e.premise for e in examples] + [e.hypothesis for e in examples]
        return self(read(sentences))

    def _compared(self, h: Float[Tensor, "N W"], aligned: Float[Tensor, "N W"]) -> Tensor:
        """Each real token beside what it is aligned to, their difference and their product."""
        enhanced = torch.cat([h, aligned, h - aligned, h * aligned], dim=-1)
        return torch.relu(self.projection(self.attention_dropout(enhanced)))


def soft_alignment(
    a: Float[Tensor, "P S D"],
    b: Float[Tensor, "P T D"],
    a_mask: Bool[Tensor, "P S"],
    b_mask: Bool[Tensor, "P T"],
) -> tuple[Float[Tensor, "P S D"], Float[Tensor, "P T D"]]:
    """What each token of a looks like in b, and the reverse (Chen et al. 2017, eq. 11 to 13).

    ã_i = Σ_j softmax_j(a_i·b_j) b_j over the real tokens of b; likewise b̃_j.
    """
    affinity = a @ b.mT
    over_b = affinity.masked_fill(~b_mask[:, None, :], -torch.inf).softmax(dim=2)
    over_a = affinity.masked_fill(~a_mask[:, :, None], -torch.inf).softmax(dim=1)
    return over_b @ b, over_a.mT @ a


def pooled(v: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> list[Float[Tensor, "B D"]]:
    """The mean and the largest value over the real tokens."""
    real = mask[..., None]
    mean = torch.where(real, v, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return [mean, v.masked_fill(~real, -torch.inf).amax(dim=1)]
