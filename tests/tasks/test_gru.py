"""Gated recurrent units by the native kernel have torch's values and gradients."""

import copy

import pytest
import torch
from torch import Tensor, nn

from elmokit.engine import native
from elmokit.tasks.parts.encoders import run_grus

pytestmark = pytest.mark.usefixtures("num_threads")


def random_layers(input_dim: int, dim: int) -> list[nn.GRU]:
    torch.manual_seed(dim)
    layers = [nn.GRU(input_dim, dim) for _ in range(2)]
    for layer in layers:
        for bias in (layer.bias_ih_l0, layer.bias_hh_l0):
            nn.init.normal_(bias)
    return layers


def assert_near(got: Tensor, want: Tensor) -> None:
    scale = 1e-5 * float(want.detach().abs().max())
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=scale)


@pytest.mark.skipif(not native.chosen(), reason="torch does the work")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("input_dim", "dim", "steps", "rows"),
    [(1, 1, 1, 1), (5, 3, 4, 2), (7, 90, 9, 20), (40, 33, 3, 13), (3, 16, 60, 1)],
)
def test_values_and_gradients_are_torchs(
    input_dim: int, dim: int, steps: int, rows: int, threads: int
) -> None:
    torch.set_num_threads(threads)
    layers = random_layers(input_dim, dim)
    inputs = [torch.randn(steps, rows, input_dim, requires_grad=True) for _ in layers]
    assert native.can_train(inputs[0])
    weights = [torch.randn(steps, rows, dim) for _ in layers]
    outputs = run_grus(layers, inputs)
    sum((y * w).sum() for y, w in zip(outputs, weights)).backward()
    for layer, x, weight, output in zip(layers, inputs, weights, outputs, strict=True):
        exact, exact_x = copy.deepcopy(layer).double(), x.detach().double().requires_grad_()
        exact.zero_grad()
        want, _ = exact(exact_x)
        (want * weight.double()).sum().backward()
        assert_near(output, want)
        assert_near(x.grad, exact_x.grad)
        for name, parameter in layer.named_parameters():
            assert_near(parameter.grad, exact.get_parameter(name).grad)


def test_without_the_kernel_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, inputs = random_layers(5, 6), [torch.randn(4, 3, 5) for _ in range(2)]
    with torch.no_grad():
        want = run_grus(layers, inputs)
        monkeypatch.setattr("elmokit.tasks.parts.encoders.can_train", lambda tensor: False)
        got = run_grus(layers, inputs)
    for a, b, layer, x in zip(got, want, layers, inputs, strict=True):
        assert torch.equal(a, layer(x)[0])
        torch.testing.assert_close(a, b)


def test_no_texts_and_no_tokens_have_no_states() -> None:
    layers = random_layers(5, 6)
    for steps, rows in ((0, 2), (3, 0)):
        for output in run_grus(layers, [torch.zeros(steps, rows, 5)] * 2):
            assert output.shape == (steps, rows, 6)
