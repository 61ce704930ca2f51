"""The learned mix of layers, equation 1 of the paper."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import scalar_mix
from strategies import assert_close

from elmokit import ScalarMix

SCALARS = st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=5)


@given(SCALARS, st.floats(-2, 2, width=32), st.booleans(), st.integers(0, 100))
@settings(max_examples=60)
def test_mix_equals_its_equation(
    scalars: list[float], gamma: float, layer_norm: bool, seed: int
) -> None:
    layers = torch.randn(len(scalars), 4, 6, generator=torch.Generator().manual_seed(seed))
    mix = ScalarMix(len(scalars), layer_norm=layer_norm)
    with torch.no_grad():
        mix.scalars.copy_(torch.tensor(scalars))
        mix.gamma.fill_(gamma)
        got = mix(layers)
    expected = scalar_mix(layers.double().numpy(), np.array(scalars), gamma, layer_norm=layer_norm)
    assert_close(got, expected)


def test_new_mix_is_the_average() -> None:
    layers = torch.randn(3, 2, 5, 8)
    torch.testing.assert_close(ScalarMix(3)(layers), layers.mean(dim=0))


def test_weights_sum_to_one() -> None:
    mix = ScalarMix(4)
    mix.scalars.data = torch.tensor([3.0, -1.0, 0.0, 7.0])
    assert mix.weights().sum().item() == pytest.approx(1)


def test_layer_norm_leaves_padding_out_and_at_zero() -> None:
    layers = torch.randn(3, 2, 4, 8)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    mix = ScalarMix(3, layer_norm=True)
    expected = mix(layers, mask)
    for dtype in (torch.int64, torch.uint8, torch.float32):
        torch.testing.assert_close(mix(layers, mask.to(dtype)), expected)
    layers[:, ~mask] = 1e4
    torch.testing.assert_close(mix(layers, mask), expected)
    assert not expected[~mask].any()
    for layer in layers:
        normal = ScalarMix(1, layer_norm=True)(layer[None], mask)[mask]
        assert normal.mean().item() == pytest.approx(0, abs=1e-5)
        assert normal.var(correction=0).item() == pytest.approx(1, abs=1e-3)


def test_penalty_is_the_squared_norm_of_the_raw_scalars() -> None:
    mix = ScalarMix(3)
    assert mix.penalty(1.0).item() == 0
    mix.scalars.data = torch.tensor([1.0, -2.0, 0.5])
    assert mix.penalty(0.1).item() == pytest.approx(0.1 * (1 + 4 + 0.25))
    mix.penalty(0.1).backward()
    torch.testing.assert_close(mix.scalars.grad, 0.2 * mix.scalars.detach())


def test_dropout_acts_in_training_alone() -> None:
    layers = torch.ones(3, 5, 40)
    mix = ScalarMix(3, dropout=0.5)
    assert (mix(layers) == 0).any()
    torch.testing.assert_close(mix.eval()(layers), torch.ones(5, 40))


def test_frozen_mix_has_nothing_to_train() -> None:
    assert not any(p.requires_grad for p in ScalarMix(3, trainable=False).parameters())
    assert all(p.requires_grad for p in ScalarMix(3).parameters())
