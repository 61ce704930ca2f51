"""BiDAF with residual self-attention (Clark and Gardner 2017; paper, section 4: SQuAD)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...nn.shapes import Float
from ..batch import TokenBatch
from ..embedding import TaskEmbedding
from ..encoder import BiGru, VariationalDropout
from ..task import Read, TaskModel
from .attention import BiAttention, SelfAttention
from .config import SquadConfig
from .data import Question
from .passage import Span, windows
from .spans import best_spans, span_log_likelihood

AT_ONCE = 1 << 14
"""Tokens of windows that are read together in prediction, padding included."""


class BiDaf(TaskModel):
    """A text that reads a question, then itself, and says where the answer starts and ends.

    [x; ELMo] → GRU, the same for text and question → [h; ELMo] → attention between the two → ReLU
    → plus: GRU → attention of the text to itself → ReLU → a GRU and a score for the start → one
    more of each for the end. All GRUs are bidirectional.

    Args:
        config: The sizes.
        embedding: What it reads of each token.
    """

    def __init__(self, config: SquadConfig, embedding: TaskEmbedding) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.dropout = VariationalDropout(config.dropout)
        dim, width = config.gru_dim, 2 * config.gru_dim
        self.encoder = BiGru(embedding.dim, dim)
        attended = width + embedding.output_dim
        self.attention = BiAttention(attended)
        self.fusion = nn.Linear(4 * attended, width)
        self.self_encoder = BiGru(width, dim)
        self.self_attention = SelfAttention(width)
        self.self_fusion = nn.Linear(3 * width, width)
        self.start_encoder = BiGru(width, dim)
        self.end_encoder = BiGru(2 * width, dim)
        self.start = nn.Linear(width, 1, bias=False)
        self.end = nn.Linear(width, 1, bias=False)

    def __call__(self, passages: TokenBatch, questions: TokenBatch) -> tuple[Tensor, Tensor]:
        scores: tuple[Tensor, Tensor] = super().__call__(passages, questions)
        return scores

    def forward(
        self, passages: TokenBatch, questions: TokenBatch
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """The scores of each token of a text as start and as end, −∞ where it has no token."""
        mask = passages.mask
        h, q = self._encode(passages), self._encode(questions)
        h = torch.relu(self.fusion(self.attention(h, q, mask, questions.mask)))
        h = self.dropout(h + self._attend_to_itself(h, mask))
        starts = self.start_encoder(h, mask)
        ends = self.end_encoder(torch.cat([h, starts], dim=-1), mask)
        start, end = self.start(self.dropout(starts)), self.end(self.dropout(ends))
        is_padding = ~mask
        return (
            start.squeeze(-1).masked_fill(is_padding, -torch.inf),
            end.squeeze(-1).masked_fill(is_padding, -torch.inf),
        )

    def loss(self, examples: Sequence[Question], read: Read) -> Tensor:
        """The mean of −log Σ p(start)·p(end) over the spans of the right answers."""
        passages = read([example.passage.tokens for example in examples])
        start, end = self(passages, read([example.tokens for example in examples]))
        spans = [[(span.first, span.last) for span in example.spans] for example in examples]
        return -span_log_likelihood(start, end, spans).mean()

    def predict(self, examples: Sequence[Question], read: Read) -> list[dict[str, Any]]:
        """The answer to each question, where it is in the text, and its probability."""
        found: list[list[_Found]] = [[] for _ in examples]
        for group in self._windows(examples):
            tokens = [examples[i].passage.tokens[start:end] for i, start, end in group]
            start, end = self(read(tokens), read([examples[i].tokens for i, _, _ in group]))
            scores, places = best_spans(start, end, self.config.max_answer_tokens)
            totals = start.logsumexp(dim=1) + end.logsumexp(dim=1)
            rows = zip(group, scores.tolist(), places.tolist(), totals.tolist(), strict=True)
            for (i, shift, _), score, (first, last), total in rows:
                found[i].append(_Found(score, Span(first + shift, last + shift), total))
        return [_answer(example, of) for example, of in zip(examples, found, strict=True)]

    def _encode(self, batch: TokenBatch) -> Tensor:
        h = self.encoder(self.dropout(self.embedding(batch)), batch.mask)
        return self.embedding.at_output(self.dropout(h), batch)

    def _attend_to_itself(self, h: Tensor, mask: Tensor) -> Tensor:
        read = self.dropout(self.self_encoder(self.dropout(h), mask))
        return torch.relu(self.self_fusion(self.self_attention(read, mask)))

    def _windows(self, examples: Sequence[Question]) -> Iterator[list[tuple[int, int, int]]]:
        """The windows of all examples, as (example, start, end), in groups of bounded size."""
        size = self.config.max_paragraph_tokens
        group: list[tuple[int, int, int]] = []
        longest = 0
        for i, example in enumerate(examples):
            for start, end in windows(len(example.passage.tokens), size):
                longest = max(longest, end - start)
                if group and longest * (len(group) + 1) > AT_ONCE:
                    yield group
                    group, longest = [], end - start
                group.append((i, start, end))
        if group:
            yield group


class _Found(NamedTuple):
    """The best span of a window: its score, where it is, and the logarithm of the sum of all."""

    score: float
    span: Span
    total: float


def _answer(example: Question, found: Sequence[_Found]) -> dict[str, Any]:
    """The best of all windows, their scores being compared as they are."""
    best = max(found, key=lambda of_window: of_window.score)
    total = torch.tensor([of_window.total for of_window in found]).logsumexp(dim=0)
    start, end = example.passage.characters(best.span)
    return {
        "answer": example.passage.text[start:end],
        "start": start,
        "end": end,
        "probability": float((best.score - total).exp()),
    }
