"""The softmax over the word vocabulary."""

import torch

from elmokit.nn import Softmax, softmax_loss
from elmokit.nn.softmax import BLOCK_ROWS, BLOCK_WORDS


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


def test_the_loss_is_the_same_without_gradients() -> None:
    torch.manual_seed(0)
    softmax = Softmax(2 * BLOCK_WORDS + 3, 4)
    h = torch.randn(BLOCK_ROWS + 5, 4, dtype=torch.float64)
    targets = torch.randint(0, len(softmax.bias), (len(h),))
    weight, bias = softmax.weight.double(), torch.randn(len(softmax.bias)).double()
    expected = -torch.log_softmax(h @ weight.t() + bias, dim=1).gather(1, targets[:, None]).sum()
    torch.testing.assert_close(softmax_loss(h, targets, weight, bias), expected)
    with torch.no_grad():
        torch.testing.assert_close(softmax_loss(h, targets, weight, bias), expected)
