"""BiDAF with residual self-attention (Clark and Gardner 2017; paper, section 4: SQuAD).

Attention is tri-linear: from a text to a question and back, and of a text to itself. T tokens of
the text, J of the question, D their width. No tensor has both T·J (or T·T) and D.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, TypedDict

import torch
from torch import Tensor, nn

from ...config import one_of, within
from ...errors import ConfigError
from ...nn.shapes import Bool, Float, Int
from ..config import (
    MAX_COUNT,
    MAX_WIDTH,
    ElmoPlacement,
    TaskConfig,
    TrainerConfig,
    WordsConfig,
    below_one,
)
from ..parts.embedding import TaskEmbedding, TokenBatch
from ..parts.encoders import BiGru, VariationalDropout
from ..parts.passage import Passage, Span
from ..task import Read, TaskModel

Rules: TypeAlias = Literal["squad", "korquad"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SquadConfig(TaskConfig):
    """BiDAF with self-attention (Clark and Gardner 2017), at the paper's sizes."""

    elmo: ElmoPlacement = field(default_factory=lambda: ElmoPlacement(place="both", l2=0.0))
    words: WordsConfig = field(
        default_factory=lambda: WordsConfig(
            char_dim=20, char_filters=100, char_width=5, dropout=0.0
        )
    )
    train: TrainerConfig = field(
        default_factory=lambda: TrainerConfig(
            optimizer="adadelta", lr=1.0, batch_size=45, epochs=24, halve_after=0, ema=0.999
        )
    )
    gru_dim: int = 90
    """Units of each direction of the GRUs; other layers are twice as wide."""
    dropout: float = 0.2
    """Variational: the same values are dropped at all tokens of a text."""
    max_answer_tokens: int = 17
    """Longest answer that is predicted."""
    max_paragraph_tokens: int = 400
    """Longest text that is read at once; a longer one is read in overlapping windows."""
    max_questions: int = 0
    """Number of training questions, of whole paragraphs drawn from all articles; 0 for all."""
    rules: Literal["auto", "squad", "korquad"] = "auto"
    """How answers are scored; `auto` is by what the file calls itself."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, MAX_WIDTH, "gru_dim", "max_answer_tokens")
        within(self, 0, MAX_COUNT, "max_questions")
        within(self, 2, MAX_COUNT, "max_paragraph_tokens")
        below_one(self, "dropout")
        one_of("rules", self.rules, ("auto", "squad", "korquad"))
        if self.max_paragraph_tokens < 2 * self.max_answer_tokens:
            raise ConfigError(
                f"max_paragraph_tokens={self.max_paragraph_tokens}: expected at least "
                f"{2 * self.max_answer_tokens}, twice max_answer_tokens"
            )


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a passage.

    Attributes:
        passage: What holds the answer.
        text: The question.
        tokens: Its tokens.
        answers: The right answers; none where they are not known.
        spans: Where in the passage they are.
        rules: How an answer is scored.
        name: Its id, if it has one.
    """

    passage: Passage
    text: str
    tokens: tuple[str, ...]
    answers: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    rules: Rules = "squad"
    name: str = ""


class Answer(TypedDict):
    """An answer, where it is in the text (characters), and its probability."""

    answer: str
    start: int
    end: int
    probability: float


MAX_WINDOW_TOKENS = 1 << 14
"""Tokens of windows that are read together in prediction, padding included."""


class BiDaf(TaskModel[Question, Answer]):
    """A text that reads a question, then itself, and says where the answer starts and ends.

    [x; ELMo] → GRU, the same for text and question → [h; ELMo] → attention between the two → ReLU
    → plus: GRU → attention of the text to itself → ReLU → a GRU and a score for the start → one
    more of each for the end. All GRUs are bidirectional.
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

    __call__: Callable[..., tuple[Tensor, Tensor]]

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

    def predict(self, examples: Sequence[Question], read: Read) -> list[Answer]:
        """The answer to each question, where it is in the text, and its probability."""
        found: list[list[_WindowSpan]] = [[] for _ in examples]
        for group in self._windows(examples):
            tokens = [examples[i].passage.tokens[start:end] for i, start, end in group]
            start, end = self(read(tokens), read([examples[i].tokens for i, _, _ in group]))
            scores, positions = best_spans(start, end, self.config.max_answer_tokens)
            totals = start.logsumexp(dim=1) + end.logsumexp(dim=1)
            rows = zip(group, scores.tolist(), positions.tolist(), totals.tolist(), strict=True)
            for (i, shift, _), score, (first, last), total in rows:
                found[i].append(_WindowSpan(score, Span(first + shift, last + shift), total))
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
                if group and longest * (len(group) + 1) > MAX_WINDOW_TOKENS:
                    yield group
                    group, longest = [], end - start
                group.append((i, start, end))
        if group:
            yield group


class _WindowSpan(NamedTuple):
    """The best span of a window: its score, where it is, and the logarithm of the sum of all."""

    score: float
    span: Span
    total: float


def _answer(example: Question, found: Sequence[_WindowSpan]) -> Answer:
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


class TriLinear(nn.Module):
    """a_ij = w₁·h_i + w₂·q_j + w₃·(h_i ⊙ q_j), how much h_i and q_j have to do with each other."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(dim, 1, bias=False)
        self.second = nn.Linear(dim, 1, bias=False)
        self.product = nn.Parameter(torch.empty(dim).uniform_(-1, 1) * (3 / dim) ** 0.5)

    __call__: Callable[..., Tensor]

    def forward(
        self, h: Float[Tensor, "B T D"], q: Float[Tensor, "B J D"]
    ) -> Float[Tensor, "B T J"]:
        products = (h * self.product) @ q.transpose(1, 2)
        scores: Tensor = products + self.first(h) + self.second(q).transpose(1, 2)
        return scores


class BiAttention(nn.Module):
    """What the question looks like to each token, and the text to the question (Seo et al. 2017).

    Returns [h; u; h ⊙ u; h ⊙ v] for each token, u being what it attends to in the question, and v
    the tokens of the text that some word of the question attends to most.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim)

    __call__: Callable[..., Tensor]

    def forward(
        self,
        h: Float[Tensor, "B T D"],
        q: Float[Tensor, "B J D"],
        mask: Bool[Tensor, "B T"],
        q_mask: Bool[Tensor, "B J"],
    ) -> Float[Tensor, "B T 4*D"]:
        scores = self.similarity(h, q)
        u = masked_softmax(scores, q_mask[:, None]) @ q
        strongest = scores.masked_fill(~q_mask[:, None], -torch.inf).amax(dim=-1)
        v = masked_softmax(strongest, mask)[:, None] @ h
        return torch.cat([h, u, h * u, h * v], dim=-1)


class SelfAttention(nn.Module):
    """[h; u; h ⊙ u], u being what a token attends to among the others."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim)

    __call__: Callable[..., Tensor]

    def forward(
        self, h: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T 3*D"]:
        is_other = ~torch.eye(h.shape[1], dtype=torch.bool, device=h.device)
        u = masked_softmax(self.similarity(h, h), mask[:, None] & is_other) @ h
        return torch.cat([h, u, h * u], dim=-1)


def masked_softmax(
    scores: Float[Tensor, "... T"], mask: Bool[Tensor, "... T"]
) -> Float[Tensor, "... T"]:
    """The softmax over the positions of the mask; all zero where there are none."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask


def best_spans(
    start: Float[Tensor, "B T"], end: Float[Tensor, "B T"], max_tokens: int
) -> tuple[Float[Tensor, " B"], Int[Tensor, "B 2"]]:
    """The largest start_i + end_j of each row with i ≤ j < i + max_tokens, and its i and j.

    All spans are tried, those of a length at once.
    """
    best = torch.full_like(start[:, 0], -torch.inf)
    positions = torch.zeros(len(start), 2, dtype=torch.long, device=start.device)
    for more in range(min(max_tokens, start.shape[1])):
        scores, first = (start[:, : start.shape[1] - more] + end[:, more:]).max(dim=1)
        is_better = scores > best
        best = torch.where(is_better, scores, best)
        positions = torch.where(
            is_better[:, None], torch.stack([first, first + more], 1), positions
        )
    return best, positions


def span_log_likelihood(
    start: Float[Tensor, "B T"], end: Float[Tensor, "B T"], spans: list[list[tuple[int, int]]]
) -> Float[Tensor, " B"]:
    """log Σ p(start_i)·p(end_j) over the right spans (i, j) of each row.

    Args:
        start: Scores of the tokens where an answer may start, −∞ where there is no token.
        end: Scores of those where it may end.
        spans: One or more spans for each row.
    """
    most = max(map(len, spans))
    # A span again is a span of no weight.
    padded = [[*of_row, *[of_row[0]] * (most - len(of_row))] for of_row in spans]
    is_real = torch.tensor([[k < len(of_row) for k in range(most)] for of_row in spans])
    positions = torch.tensor(padded, device=start.device)
    log_start = start.log_softmax(dim=1).gather(1, positions[..., 0])
    log_end = end.log_softmax(dim=1).gather(1, positions[..., 1])
    joint = (log_start + log_end).masked_fill(~is_real.to(start.device), -torch.inf)
    return joint.logsumexp(dim=1)


def windows(num_tokens: int, size: int) -> list[tuple[int, int]]:
    """Windows over so many tokens, each reaching half of its size into the next.

    So every span of up to half a window is whole in one of them.

    >>> windows(10, 4)
    [(0, 4), (2, 6), (4, 8), (6, 10)]
    """
    last = max(0, num_tokens - size)
    starts = [*range(0, last, max(1, size // 2)), last]
    return [(start, min(start + size, num_tokens)) for start in starts]


def window_around(span: Span, num_tokens: int, size: int, choice: float) -> tuple[int, int]:
    """A window that holds a span whole, though it be longer than `size`.

    Args:
        span: What it must hold.
        num_tokens: Tokens in all.
        size: Tokens of the window.
        choice: Which of the possible windows, of 0 up to 1.
    """
    size = min(num_tokens, max(size, span.last - span.first + 1))
    lowest, highest = max(0, span.last + 1 - size), min(span.first, num_tokens - size)
    start = lowest + int(choice * (highest - lowest + 1))
    return start, start + size


def spans_inside(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """The spans that lie in a window, counted from its start."""
    return tuple(
        Span(span.first - start, span.last - start)
        for span in spans
        if start <= span.first and span.last < end
    )
