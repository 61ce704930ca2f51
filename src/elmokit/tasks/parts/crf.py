"""The best sequence of tags: a linear-chain CRF over BIOUL, and Viterbi for plain BIO scores.

Shapes: B sentences, T tokens, K tags. Masks are true for the tokens of a sentence, which stand
before its padding.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...errors import ConfigError, InputError, quoted
from ...nn.shapes import Bool, Float, Int
from .tags import follows, is_tag


class Crf(nn.Module):
    """p(tags | sentence) ∝ exp Σ_t (logit of tag t + transition from tag t-1).

    The likelihood is over all sequences of tags, as in the paper's code; the constraints hold for
    decoding, where they are never violated.

    Args:
        num_tags: K.
        allowed: Booleans [from, to] of shape (K + 2, K + 2), where K is the start of a sentence
            and K + 1 its end (see `bioul_transitions`). None allows everything.
    """

    def __init__(self, num_tags: int, allowed: Tensor | None = None) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self.start = nn.Parameter(torch.empty(num_tags))
        self.end = nn.Parameter(torch.empty(num_tags))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1)
        shape = (num_tags + 2, num_tags + 2)
        if allowed is None:
            allowed = torch.ones(shape, dtype=torch.bool)
        elif allowed.shape != shape:
            raise ConfigError(f"allowed has the shape {tuple(allowed.shape)}; expected {shape}")
        # Follows from the tags, so it is not saved.
        self.register_buffer("allowed", allowed.bool(), persistent=False)

    def log_likelihood(self, logits: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """log p(tags | sentence) of every sentence, (B,); 0 of one without tokens.

        Args:
            logits: Scores of the tags, (B, T, K).
            tags: Ids of the gold tags, (B, T); any of 0..K-1 in the padding.
            mask: Which tokens are real, (B, T).
        """
        logits, mask = logits.float(), mask.bool()
        if logits.shape[1] == 0:
            return logits.new_zeros(len(logits))
        score = self._score(logits, tags, mask) - self._log_partition(logits, mask)
        return torch.where(mask.any(dim=1), score, 0.0)

    @torch.no_grad()
    def decode(self, logits: Tensor, mask: Tensor) -> list[list[int]]:
        """The best allowed tags of every sentence, without its padding.

        Raises:
            InputError: The logits are not finite, or no sequence of that length is allowed.
        """
        logits, mask = logits.float(), mask.bool()
        lengths = mask.sum(dim=1)
        if logits.shape[1] == 0 or not mask.any():
            return [[] for _ in lengths]
        start, between, end = self._constrained()
        best = start + logits[:, 0]
        steps: list[Tensor] = []
        for t in range(1, logits.shape[1]):
            score, previous = (best[:, :, None] + between).max(dim=1)
            # In the padding every tag comes from itself, and the scores stay.
            stay = torch.arange(self.num_tags, device=logits.device).expand_as(previous)
            real = mask[:, t, None]
            best = torch.where(real, score + logits[:, t], best)
            steps.append(torch.where(real, previous, stay))
        score, last = (best + end).max(dim=1)
        if not torch.isfinite(score[lengths > 0]).all():
            raise InputError("no allowed sequence of tags has a finite score; check the logits")
        return _follow_back(last, steps, mask)

    @torch.no_grad()
    def span_probabilities(
        self,
        logits: Float[Tensor, "B T K"],
        mask: Bool[Tensor, "B T"],
        paths: Sequence[Sequence[int]],
        spans: Sequence[Sequence[tuple[int, int]]],
    ) -> list[list[float]]:
        """The marginal probability of pieces of each sentence's path, by forward-backward.

        It is the share of all allowed sequences, each by its probability, that have the same tags
        as the path from the first token of a span up to the one after its last.

        Args:
            logits: Scores of the tags.
            mask: Which tokens are real.
            paths: Tags of each sentence, as `decode` gives them.
            spans: Which pieces of each path are asked for.
        """
        # Differences of long sums: in float64, which not every device has.
        x, mask = logits.float().cpu().double(), mask.bool().cpu()
        start, between, end = (t.cpu().double() for t in self._constrained())
        if not x.shape[1]:
            return [[] for _ in paths]
        before, after = _forward(x, mask, start, between), _backward(x, mask, between, end)
        partition = torch.logsumexp(before[:, -1] + end, dim=1).tolist()
        tags = torch.zeros(mask.shape, dtype=torch.long)
        tags[mask] = torch.tensor([tag for path in paths for tag in path], dtype=torch.long)
        upto, behind, emitted = (t.gather(2, tags[:, :, None])[:, :, 0] for t in (before, after, x))
        emitted[:, 1:] += between[tags[:, :-1], tags[:, 1:]]
        sums = emitted.cumsum(dim=1).tolist()
        found = []
        for row, first_half, second_half, total, pieces in zip(
            sums, upto.tolist(), behind.tolist(), partition, spans, strict=True
        ):
            scores = [
                first_half[first] + row[stop - 1] - row[first] + second_half[stop - 1] - total
                for first, stop in pieces
            ]
            found.append([min(1.0, math.exp(score)) for score in scores])
        return found

    def _score(self, logits: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The unnormalised score of the gold tags."""
        lengths = mask.sum(dim=1)
        emitted = logits.gather(2, tags[:, :, None])[:, :, 0]
        moved = self.transitions[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
        # Not a product with the mask: infinite padding times zero is no number.
        moved = torch.where(mask[:, 1:], moved, 0.0).sum(dim=1)
        inside = torch.where(mask, emitted, 0.0).sum(dim=1) + moved
        return inside + self.start[tags[:, 0]] + self.end[last]

    def _log_partition(self, logits: Tensor, mask: Tensor) -> Tensor:
        """log Σ exp of the scores of all sequences of tags."""
        alpha = self.start + logits[:, 0]
        for t in range(1, logits.shape[1]):
            moved = torch.logsumexp(alpha[:, :, None] + self.transitions, dim=1)
            alpha = torch.where(mask[:, t, None], moved + logits[:, t], alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def _constrained(self) -> tuple[Tensor, Tensor, Tensor]:
        """The transitions with -∞ for what is not allowed: from the start, between, to the end."""
        k = self.num_tags
        allowed: Tensor = self.get_buffer("allowed")
        never = -torch.inf
        return (
            self.start.masked_fill(~allowed[k, :k], never),
            self.transitions.masked_fill(~allowed[:k, :k], never),
            self.end.masked_fill(~allowed[:k, k + 1], never),
        )


def _forward(x: Tensor, mask: Tensor, start: Tensor, between: Tensor) -> Float[Tensor, "B T K"]:
    """log Σ exp of the scores of all tags up to a token that has each tag in turn.

    In the padding, that of the last token.
    """
    rows = [start + x[:, 0]]
    for t in range(1, x.shape[1]):
        moved = torch.logsumexp(rows[-1][:, :, None] + between, dim=1) + x[:, t]
        rows.append(torch.where(mask[:, t, None], moved, rows[-1]))
    return torch.stack(rows, dim=1)


def _backward(x: Tensor, mask: Tensor, between: Tensor, end: Tensor) -> Float[Tensor, "B T K"]:
    """log Σ exp of the scores of all tags behind a token that has each tag in turn."""
    rows = [end.expand(len(x), -1)]
    for t in range(x.shape[1] - 1, 0, -1):
        moved = torch.logsumexp(between + (x[:, t] + rows[-1])[:, None, :], dim=2)
        rows.append(torch.where(mask[:, t, None], moved, rows[-1]))
    return torch.stack(rows[::-1], dim=1)


def bioul_transitions(labels: Sequence[str]) -> Tensor:
    """Which BIOUL tag may follow which: what `Crf` takes as `allowed`.

    Args:
        labels: The tags in the order of their ids, such as ["O", "U-PER", "B-PER", "L-PER"].

    Returns:
        Booleans [from, to] of shape (K + 2, K + 2). Id K is the start of a sentence, K + 1 its
        end; both are like an O beside the sentence.
    """
    for label in labels:
        if not is_tag(label, "BILU"):
            raise InputError(
                f"{quoted(label)} is not a BIOUL tag; expected O or B-, I-, L-, U-LABEL"
            )
    allowed = torch.zeros(len(labels) + 2, len(labels) + 2, dtype=torch.bool)
    start, end = len(labels), len(labels) + 1
    for i, tag in enumerate(labels):
        allowed[i, : len(labels)] = torch.tensor([follows(tag, after) for after in labels])
        allowed[start, i] = follows("O", tag)
        allowed[i, end] = follows(tag, "O")
    return allowed


@torch.no_grad()
def decode_bio(logits: Float[Tensor, "B T K"], mask: Bool[Tensor, "B T"]) -> list[list[int]]:
    """The tags with the largest sum of scores in which every I-X continues a B-X or I-X.

    This is Viterbi's algorithm for transitions that are allowed or not. O and B- may follow
    anything, so that they share one best predecessor, and I-X has two: a step takes K operations
    in place of K².

    Returns:
        The ids of the tags of each sentence, without its padding.
    """
    num_labels = (logits.shape[2] - 1) // 2
    begin, inside = slice(1, 1 + num_labels), slice(1 + num_labels, None)
    begins = torch.arange(1, 1 + num_labels, device=logits.device)
    itself = torch.arange(logits.shape[2], device=logits.device)
    logits = logits.float()
    best = logits[:, 0].clone()
    best[:, inside] = -torch.inf
    steps = []
    for t in range(1, logits.shape[1]):
        top, of_top = best.max(dim=1, keepdim=True)
        is_begun = best[:, begin] >= best[:, inside]
        before_inside = torch.where(is_begun, begins, begins + num_labels)
        score = torch.cat(
            [top.expand(-1, 1 + num_labels), torch.maximum(best[:, begin], best[:, inside])], dim=1
        )
        previous = torch.cat([of_top.expand(-1, 1 + num_labels), before_inside], dim=1)
        real = mask[:, t, None]
        # In the padding every tag comes from itself, and the scores stay.
        best = torch.where(real, score + logits[:, t], best)
        steps.append(torch.where(real, previous, itself))
    return _follow_back(best.argmax(dim=1), steps, mask)


def _follow_back(
    last: Int[Tensor, " B"], steps: Sequence[Int[Tensor, "B K"]], mask: Bool[Tensor, "B T"]
) -> list[list[int]]:
    """The best tags of each sentence, without its padding, from Viterbi's back pointers.

    Args:
        last: The best last tag.
        steps: For each token but the first, the best tag before each tag.
        mask: Which tokens are real.
    """
    path = [last]
    for step in reversed(steps):
        path.append(step.gather(1, path[-1][:, None])[:, 0])
    rows = torch.stack(path[::-1], dim=1).tolist()
    return [row[:length] for row, length in zip(rows, mask.sum(dim=1).tolist(), strict=True)]
