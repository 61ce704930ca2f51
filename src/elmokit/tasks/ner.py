"""The biLSTM-CRF tagger (paper, section 4: named entity extraction)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..nn.shapes import Float
from .batch import TokenBatch
from .config import NerConfig
from .crf import Crf
from .data.examples import TaggedSentence
from .embedding import TaskEmbedding
from .encoder import BiLstm
from .tags import bio_to_bioul, bioul_to_bio, bioul_transitions
from .task import Read, TaskModel


class NerTagger(TaskModel):
    """[x; ELMo] → biLSTM layers → scores of the tags → a CRF over the sentence.

    It reads and gives BIO tags; inside it scores BIOUL tags, with the transitions that make no
    sense ruled out.

    Args:
        config: The sizes.
        embedding: What it reads of each token.
        types: Entity types, such as PER.
    """

    def __init__(self, config: NerConfig, embedding: TaskEmbedding, types: Sequence[str]) -> None:
        super().__init__()
        self.tags = ["O", *(f"{place}-{kind}" for kind in types for place in "BILU")]
        self.embedding = embedding
        self.encoder = BiLstm(embedding.dim, config.lstm_dim, config.lstm_layers, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.scores = nn.Linear(self.encoder.dim + embedding.output_dim, len(self.tags))
        self.crf = Crf(len(self.tags), bioul_transitions(self.tags))
        self._ids = {tag: i for i, tag in enumerate(self.tags)}

    def __call__(self, batch: TokenBatch) -> Tensor:
        logits: Tensor = super().__call__(batch)
        return logits

    def forward(self, batch: TokenBatch) -> Float[Tensor, "B T K"]:
        """The scores of the BIOUL tags of each token."""
        h = self.encoder(self.embedding(batch), batch.mask)
        scores: Tensor = self.scores(self.embedding.at_output(self.dropout(h), batch))
        return scores

    def loss(self, examples: Sequence[TaggedSentence], read: Read) -> Tensor:
        """The mean negative log-likelihood of the sentences' tags."""
        batch = read([example.tokens for example in examples])
        tags = torch.zeros_like(batch.mask, dtype=torch.long)
        tags[batch.mask] = torch.tensor(
            [self._ids[tag] for example in examples for tag in bio_to_bioul(example.tags)],
            device=tags.device,
        )
        return -self.crf.log_likelihood(self(batch), tags, batch.mask).mean()

    def predict(self, examples: Sequence[TaggedSentence], read: Read) -> list[list[str]]:
        """The BIO tags of each sentence."""
        batch = read([example.tokens for example in examples])
        paths = self.crf.decode(self(batch), batch.mask)
        return [list(bioul_to_bio([self.tags[i] for i in path])) for path in paths]
