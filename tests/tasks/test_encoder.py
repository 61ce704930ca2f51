"""The recurrent layers of the task models."""

import pytest
import torch

from elmokit.tasks.parts.encoders import Bidirectional, BiGru, BiLstm, VariationalDropout

LENGTHS = torch.tensor([6, 1, 4])


@torch.no_grad()
@pytest.mark.parametrize("kind", [BiLstm, BiGru])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_layers_equal_torchs_on_each_text_alone(kind: type[Bidirectional], num_layers: int) -> None:
    torch.manual_seed(0)
    ours = kind(4, 5, num_layers).eval()
    for bias in (p for name, p in ours.named_parameters() if "bias" in name):
        bias.normal_()
    whole = kind.kind(4, 5, num_layers, bidirectional=True)
    for j in range(num_layers):
        for name, weight in ours.forward_layers[j].named_parameters():
            name = name.replace("l0", f"l{j}")
            whole.get_parameter(name).copy_(weight)
        for name, weight in ours.backward_layers[j].named_parameters():
            name = name.replace("l0", f"l{j}")
            whole.get_parameter(f"{name}_reverse").copy_(weight)
    x, mask = torch.randn(3, 6, 4), torch.arange(6) < LENGTHS[:, None]
    h = ours(x, mask)
    assert h.shape[-1] == ours.dim == 10 and (h[~mask] == 0).all()
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(h[row, :length], whole(x[row, :length])[0])


def test_forget_gates_are_open_at_first() -> None:
    layer = BiLstm(4, 5).forward_layers[0]
    assert layer.bias_ih_l0.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10
    assert not layer.bias_hh_l0.any()


def test_dropout_is_between_layers_only() -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    one, two = BiLstm(4, 5, 1, dropout=0.5), BiLstm(4, 5, 2, dropout=0.5)
    assert torch.equal(one(x, mask), one(x, mask))
    assert not torch.equal(two(x, mask), two(x, mask))


def test_variational_dropout_is_the_same_at_all_tokens_and_off_in_prediction() -> None:
    torch.manual_seed(0)
    dropout, x = VariationalDropout(0.5), torch.ones(4, 7, 50)
    dropped = dropout.train()(x)
    assert (dropped == dropped[:, :1]).all() and set(dropped.unique().tolist()) == {0, 2}
    assert (dropped[0] != dropped[1]).any()
    assert torch.equal(dropout.eval()(x), x)
