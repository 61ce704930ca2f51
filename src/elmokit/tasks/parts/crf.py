"""A linear-chain conditional random field: the tags of a sentence, scored together.

Shapes: B sentences, T tokens, K tags. Masks are true for the tokens of a sentence, which stand
before its padding.
"""

import torch
from torch import Tensor, nn

from ...errors import ConfigError, InputError


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
        path = [last]
        for step in reversed(steps):
            path.append(step.gather(1, path[-1][:, None])[:, 0])
        rows = torch.stack(path[::-1], dim=1).tolist()
        return [row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)]

    def _score(self, logits: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The unnormalised score of the gold tags."""
        lengths = mask.sum(dim=1)
        emitted = logits.gather(2, tags[:, :, None])[:, :, 0]
        moved = self.transitions[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
        # Not a product with the mask: infinite padding times zero is no number.
        inside = torch.where(mask, emitted, 0.0).sum(1) + torch.where(mask[:, 1:], moved, 0.0).sum(
            1
        )
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
