"""Every gradient that is written by hand, against automatic ones, in double precision."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from elmokit.config import CharCnnConfig, LstmConfig
from elmokit.engine.torch_encoder import filter_banks, pooled_filters
from elmokit.engine.torch_lstm import recur
from elmokit.nn import (
    CharCnn,
    LstmState,
    ProjectedLstm,
    Softmax,
    sampled_softmax_loss,
    softmax_loss,
)

CLIPPED = LstmConfig(dim=7, projection_dim=3, cell_clip=0.6, proj_clip=0.25)
CONFIGS = {
    "clipped": CLIPPED,
    "without clips": replace(CLIPPED, cell_clip=None, proj_clip=None),
    "without projection": replace(CLIPPED, projection_dim=7),
}


def gradients(outputs: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """Gradients of a weighted sum of `outputs`, the weights all different."""
    weights = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view_as(outputs)
    return list(torch.autograd.grad((outputs * weights).sum(), parameters))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (6, 4)])
def test_recurrence_is_the_layer_with_its_gradients(name: str, steps: int, rows: int) -> None:
    torch.manual_seed(1)
    config = CONFIGS[name]
    layer = ProjectedLstm(config).double()
    with torch.no_grad():
        layer.bias.uniform_(-1, 1)
    x = (3 * torch.randn(steps, rows, config.projection_dim, dtype=torch.double)).requires_grad_()
    h, c = torch.randn(rows, config.projection_dim).double(), torch.randn(rows, config.dim).double()
    parameters = [x, *layer.parameters()]
    expected, end = layer(
        x.transpose(0, 1), torch.ones(rows, steps, dtype=torch.bool), LstmState(h, c)
    )
    (found,), (after,) = recur([layer], [x.flatten(0, 1)], [rows] * steps, [LstmState(h, c)])
    found = found.view_as(x)
    torch.testing.assert_close(found, expected.transpose(0, 1))
    torch.testing.assert_close(after, LstmState(end.h, end.c))
    wanted = gradients(expected.transpose(0, 1), parameters)
    for one, other in zip(gradients(found, parameters), wanted, strict=True):
        torch.testing.assert_close(one, other)
    if name == "clipped" and steps > 1:  # both clips were at work
        assert (found.abs() == config.proj_clip).any() and (after.c.abs() == config.cell_clip).any()


def test_filters_are_the_convolutions_with_their_gradients() -> None:
    torch.manual_seed(1)
    config = CharCnnConfig(dim=4, max_characters=12, filters=((1, 3), (2, 5), (4, 6)))
    cnn = CharCnn(config).double()
    characters = torch.full((70, 12), 261)
    for row, length in zip(characters, torch.randint(2, 13, (70,)), strict=True):
        row[:length] = torch.randint(1, 261, (int(length),))
    spelled = cnn.embedding(characters).transpose(1, 2)
    expected = torch.cat([conv(spelled).amax(dim=-1) for conv in cnn.convolutions], dim=-1)
    found = pooled_filters(list(filter_banks(cnn)), characters)
    torch.testing.assert_close(found, expected)
    parameters = [cnn.embedding.weight, *cnn.convolutions.parameters()]
    for one, other in zip(
        gradients(found, parameters), gradients(expected, parameters), strict=True
    ):
        torch.testing.assert_close(one, other)


def example(num_words: int = 40, rows: int = 33) -> tuple[Softmax, Tensor, Tensor]:
    torch.manual_seed(1)
    softmax = Softmax(num_words, 6).double()
    with torch.no_grad():
        softmax.bias.normal_()
    h = torch.randn(rows, 6, dtype=torch.double, requires_grad=True)
    return softmax, h, torch.randint(0, num_words, (rows,))


@pytest.mark.parametrize("chunk", [1 << 20, 80])
def test_full_loss_is_the_softmax_with_its_gradients(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmokit.nn.softmax.CHUNK_VALUES", chunk)
    monkeypatch.setattr("elmokit.nn.softmax.MIN_ROWS", 1)
    softmax, h, targets = example()
    loss = softmax_loss(h, targets, softmax.weight, softmax.bias)
    expected = -softmax(h).gather(1, targets[:, None]).sum()
    torch.testing.assert_close(loss, expected)
    parameters = [h, *softmax.parameters()]
    found = torch.autograd.grad(3 * loss, parameters)
    for one, other in zip(found, torch.autograd.grad(3 * expected, parameters), strict=True):
        torch.testing.assert_close(one, other)


def plain_sampled_loss(
    softmax: Softmax, h: Tensor, targets: Tensor, samples: Tensor, log_expected: Tensor
) -> Tensor:
    """The definition, row by row."""
    losses = []
    for row, target in zip(h, targets, strict=True):
        others = samples[samples != target]
        words = torch.cat([target[None], others])
        logits = softmax.weight[words] @ row + softmax.bias[words] - log_expected[words]
        losses.append(-torch.log_softmax(logits, dim=0)[0])
    return torch.stack(losses).sum()


@pytest.mark.parametrize("chunk", [1 << 20, 40])
def test_sampled_loss_is_its_definition_with_its_gradients(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmokit.nn.softmax.CHUNK_VALUES", chunk)
    monkeypatch.setattr("elmokit.nn.softmax.MIN_ROWS", 1)
    softmax, h, targets = example()
    samples = torch.randperm(40)[:15]
    log_expected = torch.rand(40, dtype=torch.double).log()
    assert torch.isin(targets, samples).any() and not torch.isin(targets, samples).all()
    loss = sampled_softmax_loss(h, targets, softmax.weight, softmax.bias, samples, log_expected)
    expected = plain_sampled_loss(softmax, h, targets, samples, log_expected)
    torch.testing.assert_close(loss, expected)
    parameters = [h, *softmax.parameters()]
    found = torch.autograd.grad(loss, parameters)
    for one, other in zip(found, torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(one, other)
