"""The deep tagger of He et al. (2017) (paper, section 4: semantic role labelling)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...nn.shapes import Float, Int
from ..batch import TokenBatch
from ..embedding import TaskEmbedding
from ..task import Read, TaskModel
from .config import SrlConfig
from .data import Frame
from .decode import bio_tags, decode_bio
from .highway_lstm import AlternatingLstm


class SrlTagger(TaskModel):
    """[x; ELMo; is it the predicate?] → alternating highway LSTMs → a softmax over BIO tags.

    It learns each token's tag alone; that tags fit together is up to the decoder.

    Args:
        config: The sizes.
        embedding: What it reads of each token.
        labels: Labels of the arguments, V among them.
    """

    def __init__(self, config: SrlConfig, embedding: TaskEmbedding, labels: Sequence[str]) -> None:
        super().__init__()
        self.tags = bio_tags(labels)
        self._ids = {tag: i for i, tag in enumerate(self.tags)}
        self.embedding = embedding
        self.predicate = nn.Embedding(2, config.predicate_dim)
        self.encoder = AlternatingLstm(
            embedding.dim + config.predicate_dim,
            config.lstm_dim,
            config.lstm_layers,
            config.dropout,
        )
        self.scores = nn.Linear(config.lstm_dim + embedding.output_dim, len(self.tags))
        nn.init.orthogonal_(self.scores.weight)
        nn.init.zeros_(self.scores.bias)

    def __call__(self, batch: TokenBatch, predicates: Tensor) -> Tensor:
        logits: Tensor = super().__call__(batch, predicates)
        return logits

    def forward(self, batch: TokenBatch, predicates: Int[Tensor, " B"]) -> Float[Tensor, "B T K"]:
        """The scores of the tags of each token.

        Args:
            batch: The sentences.
            predicates: The place of each one's predicate.
        """
        places = torch.arange(batch.mask.shape[1], device=batch.mask.device)
        is_predicate = (places == predicates[:, None]).long()
        x = torch.cat([self.embedding(batch), self.predicate(is_predicate)], dim=-1)
        h = self.encoder(x, batch.mask)
        scores: Tensor = self.scores(self.embedding.at_output(h, batch))
        return scores

    def loss(self, examples: Sequence[Frame], read: Read) -> Tensor:
        """The mean negative log-likelihood of a token's tag."""
        batch, logits = self._read(examples, read)
        tags = [self._ids[tag] for example in examples for tag in example.tags]
        target = torch.tensor(tags, device=logits.device)
        return nn.functional.cross_entropy(logits[batch.mask], target)

    def predict(self, examples: Sequence[Frame], read: Read) -> list[list[str]]:
        """The BIO tags of each frame."""
        batch, logits = self._read(examples, read)
        return [[self.tags[i] for i in path] for path in decode_bio(logits, batch.mask)]

    def _read(self, examples: Sequence[Frame], read: Read) -> tuple[TokenBatch, Tensor]:
        batch = read([example.tokens for example in examples])
        places = [example.predicate for example in examples]
        return batch, self(batch, torch.tensor(places, device=batch.mask.device))
