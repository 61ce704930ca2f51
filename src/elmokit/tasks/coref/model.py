"""End-to-end neural coreference (Lee et al. 2017; paper, section 4: coreference resolution)."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from ..embedding import TaskEmbedding
from ..encoder import BiLstm
from ..task import Read, TaskModel
from .clusters import make_clusters
from .config import CorefConfig
from .data import Cluster, CorefDocument, Span
from .mentions import Mentions, ScoredSpans
from .pairs import Antecedents, antecedent_likelihood
from .spans import cluster_ids, in_sentence, prune


class CorefModel(TaskModel):
    """[x; ELMo] → biLSTM a sentence → spans → the best λT of them → an antecedent or none each.

    Documents are read one by one: a batch of several has the mean of their losses.

    Args:
        config: The sizes.
        embedding: What it reads of each token.
    """

    def __init__(self, config: CorefConfig, embedding: TaskEmbedding) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.encoder = BiLstm(
            embedding.dim, config.lstm_dim, config.lstm_layers, config.lstm_dropout
        )
        self.dropout = nn.Dropout(config.lstm_dropout)
        self.mentions = Mentions(config, embedding.dim, self.encoder.dim + embedding.output_dim)
        self.antecedents = Antecedents(config, self.mentions.dim)

    def loss(self, examples: Sequence[CorefDocument], read: Read) -> Tensor:
        """The mean over documents of -log likelihood of their clusters."""
        limit = self.config.max_train_tokens
        losses = [self._document_loss(training_window(d, limit), read) for d in examples]
        return torch.stack(losses).mean()

    def predict(self, examples: Sequence[CorefDocument], read: Read) -> list[list[Cluster]]:
        """The clusters of each document."""
        return [self._clusters(document, read) for document in examples]

    def score_spans(
        self, sentences: Sequence[Sequence[str]], read: Read
    ) -> tuple[ScoredSpans, Tensor]:
        """The mention scores of all spans of a document, and which of the grid are spans."""
        x, states = self._read(sentences, read)
        lengths = torch.tensor([len(sentence) for sentence in sentences], device=x.device)
        return self.mentions(x, states), in_sentence(lengths, self.config.max_width)

    def _read(self, sentences: Sequence[Sequence[str]], read: Read) -> tuple[Tensor, Tensor]:
        """x and x* of all tokens in their order, read in groups of sentences of like lengths."""
        starts = [0, *accumulate(map(len, sentences))]
        inputs, states, places = [], [], []
        for group in length_groups([len(sentence) for sentence in sentences]):
            batch = read([sentences[i] for i in group])
            x = self.embedding(batch)
            h = self.dropout(self.encoder(x, batch.mask))
            inputs.append(x[batch.mask])
            states.append(self.embedding.at_output(h, batch)[batch.mask])
            places += [t for i in group for t in range(starts[i], starts[i + 1])]
        order = torch.tensor(places).argsort().to(inputs[0].device)
        return torch.cat(inputs)[order], torch.cat(states)[order]

    def keep(self, scores: Tensor, is_span: Tensor) -> list[tuple[int, int]]:
        """The places of the λT best spans that do not cross."""
        num_spans = max(1, int(self.config.spans_per_token * len(scores)))
        return prune(scores.detach().cpu().numpy(), is_span.cpu().numpy(), num_spans)

    def _document_loss(self, document: CorefDocument, read: Read) -> Tensor:
        spans, is_span = self.score_spans(document.sentences, read)
        kept = self.keep(spans.scores, is_span)
        scores = self._link_scores(spans, kept)
        ids = torch.tensor(cluster_ids(kept, document.clusters), device=scores.device)
        loss = -antecedent_likelihood(scores, ids).sum()
        if self.config.mention_loss:
            loss = loss + self.config.mention_loss * self._mention_loss(spans, is_span, document)
        return loss

    def _link_scores(self, spans: ScoredSpans, kept: Sequence[tuple[int, int]]) -> Tensor:
        start, width = torch.tensor(kept, device=spans.scores.device).T
        links: Tensor = self.antecedents(spans.represent(kept), spans.scores[start, width])
        return links

    def _mention_loss(self, spans: ScoredSpans, is_span: Tensor, document: CorefDocument) -> Tensor:
        """-log likelihood of each span being a mention of the data or not."""
        is_mention = torch.zeros(is_span.shape)
        for start, end in (span for cluster in document.clusters for span in cluster):
            if end - start <= self.config.max_width:
                is_mention[start, end - start - 1] = 1
        return nn.functional.binary_cross_entropy_with_logits(
            spans.scores[is_span], is_mention.to(spans.scores)[is_span], reduction="sum"
        )

    def _clusters(self, document: CorefDocument, read: Read) -> list[Cluster]:
        spans, is_span = self.score_spans(document.sentences, read)
        kept = self.keep(spans.scores, is_span)
        scores = self._link_scores(spans, kept)
        num = scores.shape[1] - 1
        best = scores.argmax(dim=1).tolist()
        antecedents = [i - 1 - num + k if k else None for i, k in enumerate(best)]
        found: list[Span] = [(start, start + width + 1) for start, width in kept]
        if not self.config.singletons:
            return make_clusters(found, antecedents)
        start, width = zip(*kept, strict=True)
        alone = (spans.scores[list(start), list(width)] > 0).tolist()
        return make_clusters(found, antecedents, alone)


def length_groups(lengths: Sequence[int]) -> list[list[int]]:
    """The numbers of all sentences in groups, none twice as long as another of its group or more.

    One long sentence then costs no padding in all others.
    """
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if not groups or lengths[i] >= 2 * lengths[groups[-1][0]]:
            groups.append([])
        groups[-1].append(i)
    return groups


def training_window(document: CorefDocument, max_tokens: int) -> CorefDocument:
    """The document, or some of its sentences in a row, drawn by torch's chance, if it is too long.

    They are as many as fit; a single one that does not fit is whole all the same.
    """
    ends = [0, *accumulate(map(len, document.sentences))]
    if ends[-1] <= max_tokens:
        return document
    # The last sentence to begin with: all that follow fit.
    latest = next(i for i, before in enumerate(ends) if ends[-1] - before <= max_tokens)
    first = int(torch.randint(min(latest + 1, len(document.sentences)), ()))
    fitting = (i for i in range(len(ends) - 1, first, -1) if ends[i] - ends[first] <= max_tokens)
    return document.window(first, next(fitting, first + 1))
