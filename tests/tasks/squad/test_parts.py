"""Attention and span search: each against the plainest way to compute it."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from elmokit.tasks.squad.model import (
    BiAttention,
    SelfAttention,
    TriLinear,
    best_spans,
    masked_softmax,
    span_log_likelihood,
)

LENGTHS, Q_LENGTHS = (6, 1, 4), (2, 3, 1)


def mask_of(lengths: tuple[int, ...]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def similarity(trilinear: TriLinear, h: Tensor, q: Tensor) -> float:
    w1, w2 = trilinear.first.weight[0], trilinear.second.weight[0]
    return sum(
        float(w1[d] * h[d] + w2[d] * q[d] + trilinear.product[d] * h[d] * q[d])
        for d in range(len(h))
    )


@torch.no_grad()
def test_attention_to_the_question_equals_loops() -> None:
    torch.manual_seed(0)
    attention = BiAttention(3)
    h, q = torch.randn(3, 6, 3), torch.randn(3, 3, 3)
    merged = attention(h, q, mask_of(LENGTHS), mask_of(Q_LENGTHS))
    for b, (num_tokens, num_words) in enumerate(zip(LENGTHS, Q_LENGTHS, strict=True)):
        scores = torch.tensor(
            [
                [similarity(attention.similarity, h[b, i], q[b, j]) for j in range(num_words)]
                for i in range(num_tokens)
            ]
        )
        to_text = torch.softmax(scores.max(dim=1).values, dim=0)
        v = sum(to_text[i] * h[b, i] for i in range(num_tokens))
        for i in range(num_tokens):
            weights = torch.softmax(scores[i], dim=0)
            u = sum(weights[j] * q[b, j] for j in range(num_words))
            expected = torch.cat([h[b, i], u, h[b, i] * u, h[b, i] * v])
            torch.testing.assert_close(merged[b, i], expected)


@torch.no_grad()
def test_attention_to_itself_equals_loops_and_leaves_itself_out() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(3)
    h = torch.randn(3, 6, 3)
    merged = attention(h, mask_of(LENGTHS))
    for b, num_tokens in enumerate(LENGTHS):
        for i in range(num_tokens):
            others = [j for j in range(num_tokens) if j != i]
            u = torch.zeros(3)
            if others:
                scores = [similarity(attention.similarity, h[b, i], h[b, j]) for j in others]
                weights = torch.softmax(torch.tensor(scores), dim=0)
                u = sum(w * h[b, j] for w, j in zip(weights, others, strict=True))
            torch.testing.assert_close(merged[b, i], torch.cat([h[b, i], u, h[b, i] * u]))


def test_softmax_over_nothing_is_nothing() -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[True, False], [False, False]]))
    assert weights.tolist() == [[1, 0], [0, 0]]
    weights.sum().backward()
    assert scores.grad is not None and scores.grad.isfinite().all()


@given(st.integers(1, 9), st.integers(1, 10), st.integers(0, 10_000))
def test_best_span_equals_brute_force(num_tokens: int, max_tokens: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, num_tokens + 1, (3,), generator=generator)
    is_padding = torch.arange(num_tokens) >= lengths[:, None]
    start, end = (
        torch.randn(3, num_tokens, generator=generator).masked_fill(is_padding, -torch.inf)
        for _ in range(2)
    )
    scores, places = best_spans(start, end, max_tokens)
    for b, length in enumerate(lengths.tolist()):
        allowed = {
            (i, j): float(start[b, i] + end[b, j])
            for i in range(length)
            for j in range(i, min(length, i + max_tokens))
        }
        best = max(allowed, key=lambda span: allowed[span])
        assert tuple(places[b].tolist()) == best
        assert float(scores[b]) == pytest.approx(allowed[best])


def test_likelihood_sums_over_the_right_spans() -> None:
    torch.manual_seed(0)
    start, end = torch.randn(2, 5), torch.randn(2, 5)
    start[1, 3:] = end[1, 3:] = -torch.inf
    spans = [[(0, 2), (3, 4), (1, 1)], [(2, 2)]]
    found = span_log_likelihood(start, end, spans)
    for b, of_row in enumerate(spans):
        starts, ends = torch.softmax(start[b], 0), torch.softmax(end[b], 0)
        expected = sum(float(starts[i] * ends[j]) for i, j in of_row)
        assert float(found[b].exp()) == pytest.approx(expected)
