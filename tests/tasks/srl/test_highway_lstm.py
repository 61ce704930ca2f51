"""The highway LSTM equals its equations, token by token, and drops as it says."""

import pytest
import torch
from torch import Tensor

from elmokit.tasks.parts.encoders import AlternatingLstm, HighwayLstm

LENGTHS = (3, 5, 1, 5, 2)


def batch(width: int) -> tuple[Tensor, Tensor]:
    """Sentences of several lengths, with something in their padding."""
    torch.manual_seed(1)
    x = torch.randn(len(LENGTHS), max(LENGTHS), width, dtype=torch.double)
    return x, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def make(width: int, num_layers: int, dropout: float = 0.0) -> AlternatingLstm:
    torch.manual_seed(2)
    lstm = AlternatingLstm(width, 4, num_layers, dropout).double()
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return lstm


def one_sentence(layer: HighwayLstm, x: Tensor, z: Tensor | None = None) -> Tensor:
    """The states of one sentence, by the equations of He et al."""
    gates = [m.chunk(5) for m in (layer.input.weight, layer.input.bias, layer.recurrent.weight)]

    def gate(k: int, x_t: Tensor, h: Tensor) -> Tensor:
        of_input, bias, recurrent = (matrix[k] for matrix in gates)
        return of_input @ x_t + bias + recurrent @ h

    h = c = torch.zeros(layer.dim, dtype=x.dtype)
    states: dict[int, Tensor] = {}
    for t in reversed(range(len(x))) if layer.is_backward else range(len(x)):
        i, f, o, r = (torch.sigmoid(gate(k, x[t], h)) for k in range(4))
        c = i * torch.tanh(gate(4, x[t], h)) + f * c
        h = r * (o * torch.tanh(c)) + (1 - r) * (layer.carry.weight @ x[t])
        h = h if z is None else z * h
        states[t] = h
    return torch.stack([states[t] for t in range(len(x))])


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_states_and_gradients_equal_the_equations(num_layers: int) -> None:
    lstm = make(6, num_layers).eval()
    x, mask = batch(6)
    x.requires_grad_()
    h = lstm(x, mask)
    assert h[~mask].abs().max() == 0
    weights = torch.randn_like(h)
    parameters = [x, *lstm.parameters()]
    gradients = torch.autograd.grad((h * weights).sum(), parameters)
    total = torch.zeros((), dtype=torch.double)
    for row, length in enumerate(LENGTHS):
        states = x[row, :length]
        for layer in lstm.layers:
            states = one_sentence(layer, states)
        torch.testing.assert_close(h[row, :length], states)
        total = total + (states * weights[row, :length]).sum()
    for found, expected in zip(gradients, torch.autograd.grad(total, parameters), strict=True):
        torch.testing.assert_close(found, expected)


def test_directions_alternate() -> None:
    lstm = make(6, 4).eval()
    assert [layer.is_backward for layer in lstm.layers] == [False, True, False, True]
    x, mask = batch(6)
    changed = x.clone()
    changed[1, 2] += 1
    for layers, differs in ((1, range(2, 5)), (2, range(5))):
        part = AlternatingLstm(6, 4, layers).double().eval()
        part.load_state_dict({n: t for n, t in lstm.state_dict().items() if n[7] < str(layers)})
        moved = (part(x, mask) - part(changed, mask)).abs().sum(dim=2) > 0
        assert moved.nonzero().tolist() == [[1, t] for t in differs]


@pytest.mark.parametrize("is_backward", [False, True])
def test_dropout_is_the_same_for_all_tokens_and_recurrent(is_backward: bool) -> None:
    torch.manual_seed(3)
    layer = HighwayLstm(6, 30, 0.4, is_backward=is_backward).double()
    x = torch.randn(4, 6, dtype=torch.double)
    # Packed: two sentences of two tokens each.
    h = layer(x, [2, 2])
    kept = h != 0
    assert torch.equal(kept[:2], kept[2:]) and not torch.equal(kept[0], kept[1])
    for row in range(2):
        z = kept[row].double() / 0.6
        torch.testing.assert_close(h[row::2], one_sentence(layer, x[row::2], z))
    assert (layer.eval()(x, [2, 2]) != 0).all()


def test_forget_gates_start_open_and_matrices_orthogonal() -> None:
    layer = HighwayLstm(7, 5, 0.0, is_backward=False)
    assert layer.input.bias.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 15
    for linear in (layer.input, layer.carry, layer.recurrent):
        for gate in linear.weight.split(5):
            torch.testing.assert_close(gate @ gate.T, torch.eye(5))
