"""The softmax over the word vocabulary."""

import torch

from elmokit.nn import Softmax


def test_log_probabilities_of_all_words_sum_to_one() -> None:
    torch.manual_seed(0)
    log_p = Softmax(7, 4)(torch.randn(2, 3, 4))
    assert log_p.shape == (2, 3, 7)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(2, 3))


def test_bias_alone_decides_at_a_zero_state() -> None:
    softmax = Softmax(3, 4)
    softmax.bias.data = torch.tensor([1.0, 2.0, 3.0])
    expected = torch.tensor([1.0, 2.0, 3.0]).log_softmax(0)
    torch.testing.assert_close(softmax(torch.zeros(4)), expected)
