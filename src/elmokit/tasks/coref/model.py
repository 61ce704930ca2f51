"""End-to-end neural coreference (Lee et al. 2017; paper, section 4: coreference resolution)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor, nn

from ...config import within
from ...errors import ConfigError
from ...nn.shapes import Float, Int
from ..config import (
    MAX_COUNT,
    MAX_LAYERS,
    MAX_WIDTH,
    ElmoPlacement,
    TaskConfig,
    TrainerConfig,
    WordsConfig,
    below_one,
)
from ..parts.embedding import TaskEmbedding
from ..parts.encoders import BiLstm
from ..task import Read, TaskModel
from .document import Cluster, CorefDocument, Span, make_clusters
from .spans import (
    BUCKETS,
    PairProducts,
    cluster_ids,
    distance_buckets,
    has_predecessors,
    head_weights,
    in_sentence,
    predecessors,
    prune,
    windows,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CorefConfig(TaskConfig):
    """Span ranking (Lee et al. 2017): the paper's model, at sizes for two processor cores."""

    elmo: ElmoPlacement = field(default_factory=lambda: ElmoPlacement(l2=0.0))
    words: WordsConfig = field(
        default_factory=lambda: WordsConfig(char_dim=8, char_filters=50, char_width=4)
    )
    """The paper has 50 filters of each width 3, 4 and 5."""
    train: TrainerConfig = field(
        default_factory=lambda: TrainerConfig(batch_size=1, epochs=40, halve_after=4)
    )
    """A batch is of documents."""
    lstm_dim: int = 100
    """Units of each direction; 200 in the paper."""
    lstm_layers: int = 1
    ffnn_dim: int = 100
    """Width of the hidden layers of all feed-forward networks; 150 in the paper."""
    ffnn_layers: int = 2
    feature_dim: int = 20
    """Width of the embeddings of widths and distances."""
    max_width: int = 10
    """Longest mention, in tokens."""
    spans_per_token: float = 0.3
    """λ: a document of T tokens keeps λT spans; 0.4 in the paper."""
    max_antecedents: int = 100
    """K: how many of the spans before it a span is compared with; 250 in the paper."""
    mention_loss: float = 0.5
    """Weight of -log likelihood of all spans being mentions or not; 0 in the paper, which has many
    more documents to learn mentions from by their links alone."""
    max_train_tokens: int = 1200
    """Longer documents are learned from in windows of whole sentences, drawn anew every epoch; the
    paper's are of 50 sentences."""
    singletons: bool = False
    """Mentions that nothing else refers to: dropped from the data, as in CoNLL-2012, or kept, and
    then learned and predicted, too."""
    lstm_dropout: float = 0.2
    """Of the biLSTM's states."""
    dropout: float = 0.2
    """Of the hidden layers and of the features."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, MAX_WIDTH, "lstm_dim", "ffnn_dim", "feature_dim", "max_width")
        within(self, 1, MAX_LAYERS, "lstm_layers", "ffnn_layers")
        within(self, 1, MAX_COUNT, "max_antecedents", "max_train_tokens")
        below_one(self, "lstm_dropout", "dropout")
        if not self.spans_per_token > 0:
            raise ConfigError(f"spans_per_token={self.spans_per_token}: expected more than 0")
        if not self.mention_loss >= 0:
            raise ConfigError(f"mention_loss={self.mention_loss}: expected 0 or more")
        if self.singletons and not self.mention_loss:
            raise ConfigError("singletons: they are learned by mention_loss; set it above 0")


class Ffnn(nn.Module):
    """Hidden layers of ReLU units with dropout, and one linear unit on top.

    It reads a concatenation of parts of the widths `input_dims`. Where many inputs share their
    parts, as spans share their ends, the first layer is cheaper part by part: W [a; b] = W_a a +
    W_b b. `parts` gives these matrices, and `finish` continues from their sum.
    """

    def __init__(
        self, input_dims: tuple[int, ...], dim: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.input_dims = input_dims
        self.first = nn.Linear(sum(input_dims), dim)
        rest: list[nn.Module] = [nn.ReLU(), nn.Dropout(dropout)]
        for _ in range(num_layers - 1):
            rest += [nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout)]
        self.rest = nn.Sequential(*rest, nn.Linear(dim, 1))

    __call__: Callable[..., Tensor]

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest"]:
        """The score of each vector."""
        return self.finish(self.first(x))

    def parts(self) -> tuple[Tensor, ...]:
        """The matrix of the first layer for each part, (D_part, dim): x_part @ it."""
        return tuple(torch.split(self.first.weight.T, list(self.input_dims)))

    def finish(self, hidden: Float[Tensor, "*rest H"]) -> Float[Tensor, "*rest"]:
        """The scores, from the sums that the units of the first layer get, bias included."""
        scores: Tensor = self.rest(hidden)
        return scores.squeeze(-1)


class Mentions(nn.Module):
    """g_i = [x*_start; x*_end; x̂_i; φ(i)] and s_m(i) of the spans of a document.

    x* are the states of the biLSTM, x̂ the input vectors weighted by head attention, φ the width.
    """

    def __init__(self, config: CorefConfig, input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.max_width = config.max_width
        sizes = (config.ffnn_dim, config.ffnn_layers, config.dropout)
        dims = (state_dim, state_dim, input_dim, config.feature_dim)
        self.dim = sum(dims)
        self.head = Ffnn((state_dim,), *sizes)
        self.width = nn.Embedding(config.max_width, config.feature_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.score = Ffnn(dims, *sizes)

    def forward(self, x: Float[Tensor, "T D"], states: Float[Tensor, "T H"]) -> "ScoredSpans":
        """The scores of all spans of a document."""
        weights = head_weights(self.head(states), self.max_width)
        widths = self.dropout(self.width.weight)
        by_start, by_end, by_head, by_width = self.score.parts()
        hidden = (
            (states @ by_start + self.score.first.bias)[:, None]
            + windows(states @ by_end, self.max_width)
            + weights @ windows(x @ by_head, self.max_width)
            + widths @ by_width
        )
        return ScoredSpans(x, states, weights, widths, self.score.finish(hidden))


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSpans:
    """The spans of a document on their grid, with s_m; g is made for those that are kept."""

    x: Float[Tensor, "T D"]
    states: Float[Tensor, "T H"]
    weights: Float[Tensor, "T W W"]
    widths: Float[Tensor, "W F"]
    scores: Float[Tensor, "T W"]

    def represent(self, kept: Sequence[tuple[int, int]]) -> Float[Tensor, "N G"]:
        """g of the spans at these cells of the grid."""
        start, width = torch.tensor(kept, device=self.x.device).T
        tokens = windows(self.x, len(self.widths))[start]
        head = torch.einsum("nw,nwd->nd", self.weights[start, width], tokens)
        ends = self.states[start], self.states[start + width]
        return torch.cat([*ends, head, self.widths[width]], dim=-1)


class Antecedents(nn.Module):
    """s_a(i, j) = FFNN([g_i; g_j; g_i ∘ g_j; φ(i, j)]), φ being the distance in kept spans."""

    def __init__(self, config: CorefConfig, span_dim: int) -> None:
        super().__init__()
        self.max_antecedents = config.max_antecedents
        dims = (span_dim, span_dim, span_dim, config.feature_dim)
        self.score = Ffnn(dims, config.ffnn_dim, config.ffnn_layers, config.dropout)
        self.distance = nn.Embedding(len(BUCKETS), config.feature_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, g: Float[Tensor, "N G"], mention_scores: Float[Tensor, " N"]
    ) -> Float[Tensor, "N K+1"]:
        """s(i, j) = s_m(i) + s_m(j) + s_a(i, j), and before it s(i, ε) = 0: no antecedent."""
        num = max(1, min(self.max_antecedents, len(g) - 1))
        of_span, of_antecedent, of_product, of_distance = self.score.parts()
        hidden = (g @ of_span + self.score.first.bias)[:, None] + predecessors(
            g @ of_antecedent, num
        )
        buckets = distance_buckets(torch.arange(num, 0, -1, device=g.device))
        hidden = hidden + (self.dropout(self.distance.weight) @ of_distance)[buckets]
        hidden = hidden + PairProducts.apply(g, of_product.T, num)  # type: ignore[no-untyped-call]
        scores = self.score.finish(hidden)
        scores = scores + mention_scores[:, None] + predecessors(mention_scores, num)
        scores = scores.masked_fill(~has_predecessors(len(g), num, g.device), -torch.inf)
        return torch.cat([scores.new_zeros(len(g), 1), scores], dim=1)


def antecedent_likelihood(
    scores: Float[Tensor, "N K+1"], ids: Int[Tensor, " N"]
) -> Float[Tensor, " N"]:
    """log Σ P(y_i) over the right antecedents of each span.

    Right are those of the same cluster; where there are none among the K, as for spans that are
    no mention, it is right to have no antecedent.

    Args:
        scores: What `Antecedents` gives.
        ids: Number of each span's cluster, 0 for none.
    """
    num = scores.shape[1] - 1
    is_right = (predecessors(ids, num) == ids[:, None]) & (ids > 0)[:, None]
    is_right = torch.cat([~is_right.any(dim=1, keepdim=True), is_right], dim=1)
    right = scores.masked_fill(~is_right, -torch.inf)
    return right.logsumexp(dim=1) - scores.logsumexp(dim=1)


class CorefModel(TaskModel[CorefDocument, list[Cluster]]):
    """[x; ELMo] → biLSTM per sentence → spans → the best λT of them → an antecedent or none each.

    Documents are read one by one: a batch of several has the mean of their losses.
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
        inputs, states, positions = [], [], []
        for group in length_groups([len(sentence) for sentence in sentences]):
            batch = read([sentences[i] for i in group])
            x = self.embedding(batch)
            h = self.dropout(self.encoder(x, batch.mask))
            inputs.append(x[batch.mask])
            states.append(self.embedding.at_output(h, batch)[batch.mask])
            positions += [t for i in group for t in range(starts[i], starts[i + 1])]
        order = torch.tensor(positions).argsort().to(inputs[0].device)
        return torch.cat(inputs)[order], torch.cat(states)[order]

    def keep(self, scores: Tensor, is_span: Tensor) -> list[tuple[int, int]]:
        """The cells of the λT best spans that do not cross."""
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
    """The document, or some of its sentences in a row, drawn by torch's rng, if it is too long.

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
