"""The softmax θs over the word vocabulary, shared by both directions, and its loss.

The products h W of all tokens with all words (or all sampled words) would fill gigabytes, so the
losses take a chunk of rows at a time and use it for the gradients while it is still in the cache.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from .shapes import Float, Int

LIKELIHOOD_VALUES, LIKELIHOOD_ROWS = 1 << 22, 64
"""Numbers in a piece of h W where `log_likelihood` computes it, but no fewer rows."""

CHUNK_VALUES, MIN_ROWS = 1 << 20, 256
"""Numbers in a chunk of h W (4 MB), but no fewer rows than would make products slow."""

BLOCK_ROWS, BLOCK_WORDS = 1024, 2048
"""Tokens and words of a product where no gradients are wanted; its result stays in the cache."""


class Softmax(nn.Module):
    """log p(word | h) for every word of the vocabulary, by the full sum."""

    def __init__(self, num_words: int, dim: int) -> None:
        super().__init__()
        # Uniform with the variance 1/dim: normal numbers on the meta device load torch._dynamo.
        bound = (3 / dim) ** 0.5
        self.weight = nn.Parameter(torch.empty(num_words, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(num_words))

    def forward(self, h: Float[Tensor, "*rest P"]) -> Float[Tensor, "*rest V"]:
        return torch.log_softmax(nn.functional.linear(h, self.weight, self.bias), dim=-1)

    def log_likelihood(
        self, h: Float[Tensor, "N P"], words: Int[Tensor, " N"]
    ) -> Float[Tensor, " N"]:
        """log p(words[n] | h[n]) by the full sum, a chunk of rows at a time."""
        rows = max(LIKELIHOOD_ROWS, LIKELIHOOD_VALUES // len(self.weight))
        parts = [
            self(some).gather(1, of_some[:, None])[:, 0]
            for some, of_some in zip(torch.split(h, rows), torch.split(words, rows), strict=True)
        ]
        return torch.cat(parts) if parts else h.new_zeros(0)


def softmax_loss(
    h: Float[Tensor, "N P"],
    targets: Int[Tensor, " N"],
    weight: Float[Tensor, "V P"],
    bias: Float[Tensor, " V"],
) -> Float[Tensor, ""]:
    """-Σ_n log p(targets[n] | h[n]) over the whole vocabulary."""
    if not torch.is_grad_enabled():
        return _value(h, targets, weight, bias)
    loss: Tensor = _Loss.apply(  # type: ignore[no-untyped-call]
        h, weight, bias, None, targets, True
    )
    return loss


def sampled_softmax_loss(
    h: Float[Tensor, "N P"],
    targets: Int[Tensor, " N"],
    weight: Float[Tensor, "V P"],
    bias: Float[Tensor, " V"],
    samples: Int[Tensor, " S"],
    log_expected: Float[Tensor, " V"],
) -> Float[Tensor, ""]:
    """The same with the sampled words (all different) instead of the vocabulary.

    Each logit loses the logarithm of how often its word is expected among the samples, so that a
    word does not pay for being sampled often. A sample that is the target of a row is left out of
    that row (an accidental hit). `log_expected` is the log of the expected count of each word.
    """
    true_logits = (h * embedding(targets, weight)).sum(dim=1)
    true_logits = true_logits + (bias - log_expected)[targets]
    position = torch.full_like(bias, -1, dtype=torch.long)
    position[samples] = torch.arange(len(samples), device=samples.device)
    loss: Tensor = _Loss.apply(  # type: ignore[no-untyped-call]
        h,
        embedding(samples, weight),
        (bias - log_expected)[samples],
        true_logits,
        position[targets],
        torch.is_grad_enabled(),
    )
    return loss


def _value(h: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The loss without gradients: the products in blocks, at the rate of the largest ones."""
    exact = torch.promote_types(h.dtype, torch.float32)
    total = h.new_zeros((), dtype=exact)
    rows = zip(torch.split(h, BLOCK_ROWS), torch.split(targets, BLOCK_ROWS), strict=True)
    words = list(zip(torch.split(weight, BLOCK_WORDS), torch.split(bias, BLOCK_WORDS), strict=True))
    for some, labels in rows:
        log_sums = [
            torch.addmm(b.to(h.dtype), some, w.t()).to(exact).logsumexp(dim=1) for w, b in words
        ]
        true = (some * embedding(labels, weight)).sum(dim=1).to(exact) + bias[labels].to(exact)
        total += (torch.stack(log_sums).logsumexp(dim=0) - true).sum()
    return total


class _Loss(torch.autograd.Function):
    """Σ_n (log Σ_j exp(logits) - true logit), where the labels say which row is the true one.

    With `true_logits`, the rows are samples: the true word is none of them, and a label that is
    not negative names the one to leave out.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        rows: Tensor,
        bias: Tensor,
        true_logits: Tensor | None,
        labels: Tensor,
        needs_gradient: bool,
    ) -> Tensor:
        step = max(MIN_ROWS, CHUNK_VALUES // len(rows))
        exact = torch.promote_types(h.dtype, torch.float32)
        total = h.new_zeros((), dtype=exact)
        dh, drows, dbias = torch.empty_like(h), torch.zeros_like(rows), torch.zeros_like(bias)
        dtrue = None if true_logits is None else torch.empty_like(true_logits)
        columns = rows.t()
        for a in range(0, len(h), step):
            some, label = h[a : a + step], labels[a : a + step]
            logits = torch.addmm(bias.to(h.dtype), some, columns).to(exact)
            if true_logits is None:
                true = logits.gather(1, label[:, None])[:, 0]
                log_sum = logits.logsumexp(dim=1)
            else:
                hit = label >= 0
                logits[hit.nonzero()[:, 0], label[hit]] = -torch.inf
                true = true_logits[a : a + step].to(exact)
                log_sum = torch.logaddexp(logits.logsumexp(dim=1), true)
            total += (log_sum - true).sum()
            if not needs_gradient:
                continue
            p = logits.sub_(log_sum[:, None]).exp_()
            if dtrue is None:
                p[torch.arange(len(p), device=p.device), label] -= 1
            else:
                dtrue[a : a + step] = torch.exp(true - log_sum) - 1
            p = p.to(h.dtype)
            torch.mm(p, rows, out=dh[a : a + step])
            drows.addmm_(p.t(), some)
            dbias += p.sum(dim=0)
        ctx.gradients = (dh, drows, dbias, dtrue)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        dh, drows, dbias, dtrue = ctx.gradients
        return (
            dh * upstream.to(dh.dtype),
            drows * upstream.to(drows.dtype),
            dbias * upstream.to(dbias.dtype),
            None if dtrue is None else dtrue * upstream,
            None,
            None,
        )
