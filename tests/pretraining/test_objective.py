"""The sampled words follow their formula, and stand for the whole vocabulary."""

import numpy as np
import pytest
import torch

from elmokit.nn import Softmax, sampled_softmax_loss, softmax_loss
from elmokit.pretraining.objective import LogUniformSampler


def test_probabilities_are_log_uniform() -> None:
    p = LogUniformSampler(50, 5).probabilities
    np.testing.assert_allclose(p[3], np.log(5 / 4) / np.log(51))
    np.testing.assert_allclose(p.sum(), 1)


@pytest.mark.parametrize("num_samples", [1, 10, 35])
def test_words_are_different_and_as_frequent_as_expected(num_samples: int) -> None:
    sampler, generator = LogUniformSampler(40, num_samples), np.random.default_rng(1)
    draws = 4000
    counts, expected = np.zeros(40), np.zeros(40)
    for _ in range(draws):
        words, log_expected = sampler(generator)
        assert len(set(words.tolist())) == len(words) == num_samples
        counts[words] += 1
        expected += np.exp(log_expected)
    # Five standard deviations, and the error of the formula, which takes the number of tries as
    # given.
    allowed = 5 * np.sqrt(expected * (1 - expected / draws)) + 0.02 * draws
    assert (np.abs(counts - expected) < allowed).all()
    assert (counts[:3] > counts[-3:]).all() or num_samples == 35


def test_the_sum_over_samples_estimates_the_sum_over_all_words() -> None:
    sampler, generator = LogUniformSampler(60, 20), np.random.default_rng(1)
    values = np.exp(np.random.default_rng(2).normal(size=60))
    sums = []
    for _ in range(3000):
        words, log_expected = sampler(generator)
        sums.append((values[words] / np.exp(log_expected[words])).sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - values.sum()) < 5 * error + 0.01 * values.sum()


def test_all_words_as_samples_are_the_full_softmax() -> None:
    torch.manual_seed(0)
    softmax = Softmax(30, 4).double()
    h, targets = torch.randn(9, 4).double(), torch.randint(0, 30, (9,))
    words, log_expected = LogUniformSampler(30, 99)(np.random.default_rng(0))
    loss = sampled_softmax_loss(
        h,
        targets,
        softmax.weight,
        softmax.bias,
        torch.from_numpy(words),
        torch.from_numpy(log_expected).double(),
    )
    torch.testing.assert_close(loss, softmax_loss(h, targets, softmax.weight, softmax.bias))


def test_the_gradient_of_the_sampled_loss_nears_the_full_one() -> None:
    torch.manual_seed(0)
    softmax = Softmax(200, 8).double()
    h = torch.randn(50, 8).double().requires_grad_()
    targets = torch.randint(0, 200, (50,))
    full = softmax_loss(h, targets, softmax.weight, softmax.bias)
    wanted = torch.autograd.grad(full, h)[0]

    def error(num_samples: int) -> float:
        sampler, generator = LogUniformSampler(200, num_samples), np.random.default_rng(1)
        total = torch.zeros_like(h)
        for _ in range(60):
            words, log_expected = map(torch.from_numpy, sampler(generator))
            loss = sampled_softmax_loss(
                h, targets, softmax.weight, softmax.bias, words, log_expected.double()
            )
            total += torch.autograd.grad(loss, h)[0]
        return float((total / 60 - wanted).norm() / wanted.norm())

    errors = [error(n) for n in (5, 40, 160)]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.1
