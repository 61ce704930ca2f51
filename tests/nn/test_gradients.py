"""Every part is differentiable, and its gradients are those of finite differences."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from elmokit.config import CharCnnConfig, LstmConfig
from elmokit.nn import CharCnn, Highway, LstmState, ProjectedLstm, ScalarMix, Softmax


def gradcheck(module: nn.Module, function: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Check the gradients of `function` by its inputs and by all parameters of `module`."""
    doubles = [x.double().requires_grad_() for x in inputs]
    # It moves the parameters in place, so that `function` need not take them.
    assert torch.autograd.gradcheck(
        lambda *values: function(*values[: len(inputs)]), (*doubles, *module.parameters())
    )


def lstm_outputs(lstm: ProjectedLstm, mask: Tensor) -> Callable[..., Tensor]:
    def call(x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        y, state = lstm(x, mask, LstmState(h, c))
        return torch.cat([y.flatten(), state.h.flatten(), state.c.flatten()])

    return call


def test_projected_lstm_has_the_gradients_of_finite_differences() -> None:
    torch.manual_seed(0)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    for config in (
        LstmConfig(dim=4, projection_dim=3, cell_clip=None, proj_clip=None),
        LstmConfig(dim=4, projection_dim=3, cell_clip=0.3, proj_clip=0.2),
        LstmConfig(dim=3, projection_dim=3, forget_bias=0.0),
    ):
        lstm = ProjectedLstm(config).double()
        x = torch.randn(2, 3, 3)
        h, c = torch.randn(2, 3), torch.randn(2, config.dim)
        gradcheck(lstm, lstm_outputs(lstm, mask), x, h, c)


def test_highway_has_the_gradients_of_finite_differences() -> None:
    torch.manual_seed(0)
    highway = Highway(4).double()
    gradcheck(highway, highway, torch.randn(3, 4))


def test_char_cnn_has_the_gradients_of_finite_differences() -> None:
    torch.manual_seed(0)
    ids = torch.tensor([[1, 2, 3, 4, 5], [5, 4, 0, 2, 2]])
    for activation in ("relu", "tanh"):
        config = CharCnnConfig(
            characters="unicode", num_characters=6, dim=2, max_characters=5,
            filters=((1, 2), (3, 3)), activation=activation, num_highway=1,
        )  # fmt: skip
        cnn = CharCnn(config).double()
        gradcheck(cnn, lambda cnn=cnn: cnn(ids))


def test_scalar_mix_has_the_gradients_of_finite_differences() -> None:
    torch.manual_seed(0)
    mask = torch.tensor([[True, True], [True, False]])
    for layer_norm in (False, True):
        mix = ScalarMix(3, layer_norm=layer_norm).double()
        with torch.no_grad():
            mix.scalars.copy_(torch.randn(3))
            mix.gamma.fill_(0.7)
        gradcheck(mix, lambda layers, mix=mix: mix(layers, mask), torch.randn(3, 2, 2, 4))
        gradcheck(mix, lambda mix=mix: mix.penalty(0.5))


def test_softmax_has_the_gradients_of_finite_differences() -> None:
    torch.manual_seed(0)
    softmax = Softmax(5, 3).double()
    gradcheck(softmax, softmax, torch.randn(2, 3))
