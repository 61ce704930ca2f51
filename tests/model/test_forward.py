"""The call for task models: layers, masks, gradients."""

import numpy as np
import pytest
import torch
from strategies import make_tiny, tiny_config

from elmokit import Elmo
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig

SENTENCES = [["The", "cat", "sat"], [], ["b"], ["x", "y", "z", "w", "x"], ["<S>", "</S>"]]


def trainable() -> Elmo:
    elmo = make_tiny()
    elmo.bilm.requires_grad_(True)
    return elmo


@pytest.mark.parametrize("requires_grad", [False, True])
def test_output_is_embed_padded_with_zeros_and_a_mask(requires_grad: bool) -> None:
    elmo = trainable() if requires_grad else make_tiny()
    output = elmo(SENTENCES)
    assert output.layers.shape == (3, 5, 5, 32)
    assert output.mask.dtype == torch.bool
    for i, expected in enumerate(elmo.embed(SENTENCES, layers="all")):
        length = expected.shape[1]
        got = output.layers[:, i].detach()
        np.testing.assert_allclose(got[:, :length], expected, rtol=0, atol=1e-5)
        assert not got[:, length:].any()
        assert output.mask[i].tolist() == [True] * length + [False] * (5 - length)


def test_state_after_is_the_same_with_and_without_gradient() -> None:
    frozen, trained = make_tiny()(SENTENCES).state, trainable()(SENTENCES).state
    torch.testing.assert_close(frozen.h, trained.h.detach(), atol=1e-5, rtol=0)
    torch.testing.assert_close(frozen.c, trained.c.detach(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("inputs", "shape"), [([], (0, 0)), ([[]], (1, 0)), (["", []], (2, 0))])
def test_nothing_gives_an_empty_batch(
    requires_grad: bool, inputs: list, shape: tuple[int, int]
) -> None:
    output = (trainable() if requires_grad else make_tiny())(inputs)
    assert output.layers.shape == (3, *shape, 32)
    assert output.mask.shape == shape
    assert output.state.h.shape == (2, 2, shape[0], 16)


def test_text_is_a_batch_of_one(tiny: Elmo) -> None:
    assert tiny("He didn't.").layers.shape == (3, 1, 4, 32)


def test_gradient_reaches_the_mix_and_not_the_frozen_model(tiny: Elmo) -> None:
    tiny.train()
    output = tiny(SENTENCES)
    assert not output.layers.requires_grad
    tiny.mixes["default"](output.layers, output.mask).square().sum().backward()
    assert tiny.mixes["default"].scalars.grad.any()
    assert tiny.mixes["default"].gamma.grad.any()
    assert all(p.grad is None for p in tiny.bilm.parameters())
    assert [n for n, p in tiny.named_parameters() if p.requires_grad] == [
        "mixes.default.scalars", "mixes.default.gamma",
    ]  # fmt: skip


def test_gradient_reaches_every_weight_of_a_trainable_model() -> None:
    elmo = trainable()
    output = elmo(SENTENCES)
    elmo.mixes["default"](output.layers, output.mask).square().sum().backward()
    for name, parameter in elmo.bilm.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
        assert parameter.grad.isfinite().all(), name


def test_no_grad_is_respected() -> None:
    elmo = trainable()
    with torch.no_grad():
        assert not elmo(SENTENCES).layers.requires_grad
    assert elmo(SENTENCES).layers.requires_grad


def test_gradients_of_a_whole_model_are_those_of_finite_differences() -> None:
    cnn = CharCnnConfig(dim=2, filters=((1, 2), (2, 2)), max_characters=5)
    config = tiny_config(
        encoder=EncoderConfig(char_cnn=cnn), lstm=LstmConfig(dim=3, projection_dim=2)
    )
    elmo = make_tiny(config).double()
    elmo.bilm.requires_grad_(True)
    coefficients = torch.randn(3, 2, 3, 4, dtype=torch.double)

    def loss() -> torch.Tensor:
        output = elmo([["ab", "c", "ab"], ["d"]])
        return (coefficients * output.layers).sum() + output.state.c.square().sum()

    loss().backward()
    generator = torch.Generator().manual_seed(0)
    for name, parameter in elmo.bilm.named_parameters():
        for _ in range(3):
            place = int(torch.randint(parameter.numel(), (1,), generator=generator))
            flat = parameter.data.view(-1)
            value = flat[place].item()
            results = []
            for step in (1e-6, -1e-6):
                flat[place] = value + step
                results.append(loss().item())
            flat[place] = value
            expected = (results[0] - results[1]) / 2e-6
            got = parameter.grad.view(-1)[place].item()
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-6), (name, place)


def test_forward_leaves_the_mode_as_it_was() -> None:
    for elmo in (make_tiny(), trainable()):
        for training in (True, False):
            elmo.train(training)
            elmo(SENTENCES)
            assert elmo.training == training and elmo.bilm.training == training
            assert torch.is_grad_enabled()


def test_a_task_model_trains_with_a_frozen_elmo(tiny: Elmo) -> None:
    torch.manual_seed(0)
    head = torch.nn.Linear(32, 2)
    parameters = [*head.parameters(), *tiny.mixes.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.05)
    sentences, labels = [["good"], ["bad", "."], ["good", "."], ["bad"]], torch.tensor([1, 0, 1, 0])
    losses = []
    for _ in range(40):
        output = tiny(sentences)
        vectors = tiny.mixes["default"](output.layers, output.mask)
        loss = torch.nn.functional.cross_entropy(head(vectors[:, 0]), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
