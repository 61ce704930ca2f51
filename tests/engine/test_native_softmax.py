"""The native sampled softmax and linear layers have the values and gradients of torch's."""

from collections.abc import Sequence

import pytest
import torch
from strategies import KERNELS
from torch import Tensor
from torch.nn.functional import linear as torch_linear

from elmokit.engine.native import Kernel
from elmokit.engine.native_product import Product, linear, multiply
from elmokit.engine.native_softmax import Sampled, sampled_softmax_losses
from elmokit.nn import sampled_softmax_loss

pytestmark = [
    pytest.mark.skipif(not KERNELS, reason="the native kernel is not built"),
    pytest.mark.usefixtures("num_threads"),
]


def assert_near(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    for got, want in zip(found, wanted, strict=True):
        scale = float(want.detach().abs().max())
        torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("isa", KERNELS)
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("num_rows", "dim", "num_words", "num_samples"),
    [(1, 1, 2, 1), (7, 5, 40, 15), (300, 33, 90, 64), (600, 64, 700, 513)],
)
def test_losses_and_gradients_are_those_of_torch_in_double_precision(
    isa: str, threads: int, num_rows: int, dim: int, num_words: int, num_samples: int
) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(num_rows)
    targets = torch.randint(0, num_words, (2, num_rows))
    sampled = Sampled(torch.randperm(num_words)[:num_samples], torch.rand(num_words).log())
    tensors = [
        torch.randn(num_words, dim, requires_grad=True),
        torch.randn(num_words, requires_grad=True),
        *(torch.randn(num_rows, dim, requires_grad=True) for _ in range(2)),
    ]
    factors = torch.tensor([0.5, 2.0])
    weight, bias, *hs = tensors
    losses = sampled_softmax_losses(hs, targets, weight, bias, sampled, isa)
    found = torch.autograd.grad((losses * factors).sum(), tensors)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    weight, bias, *hs = exact
    wanted_losses = torch.stack([
        sampled_softmax_loss(h, t, weight, bias, sampled.samples, sampled.log_expected.double())
        for h, t in zip(hs, targets, strict=True)
    ])  # fmt: skip
    wanted = torch.autograd.grad((wanted_losses * factors).sum(), exact)
    assert_near([losses, *found], [wanted_losses, *wanted])


def test_a_logit_that_is_not_a_number_shows_in_the_loss() -> None:
    h = torch.zeros(3, 4)
    h[1, 2] = torch.nan
    sampled = Sampled(torch.arange(5), torch.zeros(9))
    targets = torch.zeros(2, 3, dtype=torch.long)
    losses = sampled_softmax_losses(
        [h, torch.zeros(3, 4)], targets, torch.randn(9, 4), torch.zeros(9), sampled
    )
    assert losses.isnan().tolist() == [True, False]


@pytest.mark.parametrize("isa", KERNELS)
@pytest.mark.parametrize("threads", [1, 3, 8])
def test_products_of_any_form_are_those_of_torch(isa: str, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(threads)
    products = []
    for rows, columns, depth in [(1, 1, 1), (200, 70, 600), (13, 300, 5)]:
        for a in (torch.randn(rows, depth), torch.randn(depth, rows).t()):
            for b in (torch.randn(depth, columns), torch.randn(columns, depth).t()):
                products += [Product(a, b, torch.empty(rows, columns))]
                products += [Product(a, b, torch.empty(rows, columns), torch.randn(columns))]
    multiply(Kernel(isa), products)
    for a, b, out, bias in products:
        wanted = a.double() @ b.double() + (0 if bias is None else bias)
        torch.testing.assert_close(out.double(), wanted, rtol=0, atol=2e-5 * len(a.t()) ** 0.5)


def test_a_product_over_nothing_is_the_bias() -> None:
    out, bias = torch.full((3, 4), torch.nan), torch.randn(4)
    multiply(Kernel(), [Product(torch.empty(3, 0), torch.empty(0, 4), out, bias)])
    torch.testing.assert_close(out, bias.expand(3, 4), rtol=0, atol=0)


def test_a_linear_layer_has_the_gradients_of_torch() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(shape, requires_grad=True) for shape in ((50, 30), (70, 30), (70,))]
    weights = torch.randn(50, 70)
    y = linear(*tensors)
    found = torch.autograd.grad((y * weights).sum(), tensors)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    z = torch_linear(*exact)
    assert_near([y, *found], [z, *torch.autograd.grad((z * weights).sum(), exact)])
