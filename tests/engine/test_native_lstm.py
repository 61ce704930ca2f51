"""The native LSTM layer has the values and gradients of the plain module in double precision."""

import copy

import pytest
import torch
from strategies import KERNELS
from torch import Tensor

from elmokit.config import LstmConfig
from elmokit.engine import gradient, torch_lstm
from elmokit.engine.native import can_train
from elmokit.engine.native_lstm import lstm_cell
from elmokit.engine.native_lstm import recur as recur_cells
from elmokit.nn import LstmState, ProjectedLstm

pytestmark = [
    pytest.mark.skipif(not KERNELS, reason="the native kernel is not built"),
    pytest.mark.usefixtures("num_threads"),
]

CONFIGS = [
    LstmConfig(dim=512, projection_dim=64),
    LstmConfig(dim=17, projection_dim=5, cell_clip=0.3, proj_clip=0.2),
    LstmConfig(dim=33, projection_dim=16, cell_clip=0.2, proj_clip=None, forget_bias=0.0),
    LstmConfig(dim=16, projection_dim=15, cell_clip=None, proj_clip=0.05),
    LstmConfig(dim=5, projection_dim=5, cell_clip=0.3, proj_clip=0.01),
    LstmConfig(dim=32, projection_dim=32, cell_clip=None, proj_clip=None),
    LstmConfig(dim=600, projection_dim=33, cell_clip=0.4, proj_clip=0.3),
]
SHAPES = [(1, 1), (4, 3), (3, 13), (9, 1), (2, 30)]


def random_case(
    config: LstmConfig, steps: int, rows: int, directions: int = 2
) -> tuple[list[ProjectedLstm], list[Tensor], list[LstmState]]:
    torch.manual_seed(steps * rows)
    layers = [ProjectedLstm(config) for _ in range(directions)]
    for layer in layers:
        torch.nn.init.normal_(layer.bias)
    width = config.projection_dim
    inputs = [torch.randn(steps, rows, width, requires_grad=True) for _ in layers]
    # Cells beyond the clip: they are given, and only what the layer makes is clipped.
    states = [LstmState(torch.randn(rows, width), torch.randn(rows, config.dim)) for _ in layers]
    return layers, inputs, states


def recur(
    layers: list[ProjectedLstm],
    inputs: list[Tensor],
    states: list[LstmState],
    isa: str | None = None,
) -> tuple[list[Tensor], list[LstmState]]:
    """The kernel over rows of one length, (T, B, P)."""
    steps, rows, width = inputs[0].shape
    packed = [x.flatten(0, 1) for x in inputs]
    cells = [lstm_cell(layer) for layer in layers]
    outputs, ends = recur_cells(cells, packed, [rows] * steps, states, isa)
    return [y.view(steps, rows, width) for y in outputs], ends


def plain(layer: ProjectedLstm, x: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
    """`nn.ProjectedLstm` on (T, B, P)."""
    mask = torch.ones(x.shape[1], x.shape[0], dtype=torch.bool)
    y, state = layer(x.transpose(0, 1), mask, state)
    return y.transpose(0, 1), state


def assert_near(got: Tensor | None, want: Tensor | None, name: str, relative: float = 1e-5) -> None:
    if want is None or got is None:
        assert got is want, name
        return
    assert got.shape == want.shape, name
    got, want = got.detach().double(), want.detach()
    worst = float((got - want).abs().max())
    assert worst <= relative * float(want.abs().max()) + 1e-9, f"{name} off by {worst}"


def assert_equals_plain(
    layers: list[ProjectedLstm], inputs: list[Tensor], states: list[LstmState], isa: str
) -> None:
    """Outputs, states and all gradients against automatic differentiation in double precision."""
    outputs, ends = recur(layers, inputs, states, isa)
    weights = [torch.randn_like(y) for y in outputs]
    loss = torch.stack([(y * w).sum() for y, w in zip(outputs, weights)]).sum()
    (loss + sum(end.h.square().sum() + end.c.square().sum() for end in ends)).backward()
    for layer, x, state, y, end, weight in zip(
        layers, inputs, states, outputs, ends, weights, strict=True
    ):
        exact, x2 = copy.deepcopy(layer).double(), x.detach().double().requires_grad_()
        exact.zero_grad()
        y2, end2 = plain(exact, x2, LstmState(state.h.double(), state.c.double()))
        loss2 = (y2 * weight.double()).sum()
        (loss2 + end2.h.square().sum() + end2.c.square().sum()).backward()
        assert_near(y, y2, "outputs")
        assert_near(end.h, end2.h, "h")
        assert_near(end.c, end2.c, "c")
        assert_near(x.grad, x2.grad, "gradient of x", 1e-4)
        for (name, got), want in zip(layer.named_parameters(), exact.parameters(), strict=True):
            assert_near(got.grad, want.grad, f"gradient of {name}", 1e-4)


@pytest.mark.parametrize("isa", KERNELS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.dim}-{c.projection_dim}")
def test_values_and_gradients_are_those_of_the_plain_module(
    config: LstmConfig, threads: int, isa: str
) -> None:
    torch.set_num_threads(threads)
    for steps, rows in SHAPES:
        assert_equals_plain(*random_case(config, steps, rows), isa)


@pytest.mark.parametrize("directions", [1, 2, 3])
def test_threads_share_the_rows_of_any_number_of_directions(directions: int) -> None:
    torch.set_num_threads(4)
    assert_equals_plain(*random_case(CONFIGS[1], 3, 13, directions), KERNELS[-1])


@pytest.mark.parametrize(("steps", "rows"), [(0, 3), (3, 0)])
def test_nothing_to_read_changes_nothing(steps: int, rows: int) -> None:
    layers, inputs, states = random_case(CONFIGS[1], steps, rows, directions=1)
    outputs, ends = recur(layers, inputs, states)
    assert outputs[0].shape == (steps, rows, 5)
    outputs[0].sum().backward()
    assert layers[0].bias.grad.abs().max() == 0
    assert ends[0].h.equal(states[0].h)


def test_the_cases_are_clipped_in_part() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 4, 3)
    with torch.no_grad():
        y, end = plain(layers[0], inputs[0], states[0])
    for values, clip in ((y, 0.2), (end.c, 0.3)):
        share = float((values.abs() >= clip).float().mean())
        assert 0.05 < share < 0.95


@pytest.mark.parametrize("isa", KERNELS)
def test_a_value_at_the_clip_itself_passes_its_gradient(isa: str) -> None:
    # All weights 0, so that m = 0.5 · tanh(c) and c = 0.5 · c0, without rounding at the bound.
    layer = ProjectedLstm(LstmConfig(dim=2, projection_dim=1, cell_clip=0.25, forget_bias=0.0))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.projection.fill_(1)
    x = torch.zeros(1, 1, 1)
    state = LstmState(torch.zeros(1, 1), torch.tensor([[0.5, 0.6]]))  # at the clip, beyond it
    recur([layer], [x], [state], isa)[0][0].sum().backward()
    grad_of_candidate = layer.bias.grad[4:6]
    assert float(grad_of_candidate[0]) > 0.2 and float(grad_of_candidate[1]) == 0


def test_runs_repeat_to_the_last_bit() -> None:
    torch.set_num_threads(2)

    def run() -> list[Tensor]:
        layers, inputs, states = random_case(CONFIGS[0], 5, 20)
        outputs, ends = recur(layers, inputs, states)
        torch.stack([y.square().sum() for y in outputs]).sum().backward()
        parameters = [p for layer in layers for p in layer.parameters()]
        return [*outputs, *(c for _, c in ends), *(t.grad for t in (*inputs, *parameters))]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


def test_a_direction_without_gradient_gets_zeros() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 3, 2)
    outputs, _ = recur(layers, inputs, states)
    outputs[0].sum().backward()
    assert inputs[0].grad.abs().max() > 0
    assert inputs[1].grad.abs().max() == 0


def test_inputs_that_need_no_gradient_get_none() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 3, 2, directions=1)
    outputs, _ = recur(layers, [inputs[0].detach()], states)
    outputs[0].sum().backward()
    assert inputs[0].grad is None and layers[0].bias.grad is not None


def test_nothing_is_kept_where_no_gradient_is_wanted() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 3, 2)
    with torch.no_grad():
        outputs, _ = recur(layers, inputs, states)
    assert not outputs[0].requires_grad


def test_a_second_backward_pass_is_refused() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 3, 2)
    loss = recur(layers, inputs, states)[0][0].sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()


def test_outputs_changed_in_place_are_refused() -> None:
    layers, inputs, states = random_case(CONFIGS[0], 3, 2)
    output = recur(layers, inputs, states)[0][0]
    with pytest.raises(RuntimeError):
        output.mul_(2).sum().backward()


def test_inputs_changed_in_place_are_refused() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 3, 2)
    changed = inputs[0] * 1
    loss = recur(layers, [changed, inputs[1]], states)[0][0].sum()
    changed.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


def test_what_is_not_a_number_stays_visible() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 3, 2)
    with torch.no_grad():
        layers[0].recurrent_weight[0, 0] = torch.nan
        outputs, _ = recur(layers, inputs, states)
    assert outputs[0].isnan().any() and not outputs[1].isnan().any()


def test_other_dtypes_are_left_to_torch() -> None:
    assert can_train(torch.zeros(1))
    assert not can_train(torch.zeros(1).double())
    assert not can_train(torch.zeros(1, device="meta"))


@pytest.mark.parametrize("isa", [*KERNELS, "torch"])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("config", CONFIGS[1:], ids=lambda c: f"{c.dim}-{c.projection_dim}")
def test_sentences_of_different_lengths_are_the_plain_module_too(
    config: LstmConfig, threads: int, isa: str
) -> None:
    torch.set_num_threads(threads)
    counts = [7, 7, 4, 1, 1]
    layers, inputs, states = random_case(config, len(counts), counts[0])
    mask = torch.arange(counts[0]) < torch.tensor(counts)[:, None]  # (T, B)
    packed = [x[mask] for x in inputs]
    if isa == "torch":
        outputs, ends = torch_lstm.recur(layers, packed, counts, states)
    else:
        outputs, ends = recur_cells(list(map(lstm_cell, layers)), packed, counts, states, isa)
    weights = [torch.randn_like(y) for y in outputs]
    loss = torch.stack([(y * w).sum() for y, w in zip(outputs, weights)]).sum()
    (loss + sum(end.h.square().sum() + end.c.square().sum() for end in ends)).backward()
    for layer, x, state, y, end, weight in zip(
        layers, inputs, states, outputs, ends, weights, strict=True
    ):
        exact, x2 = copy.deepcopy(layer).double(), x.detach().double().requires_grad_()
        exact.zero_grad()
        start = LstmState(state.h.double(), state.c.double())
        y2, end2 = exact(x2.transpose(0, 1), mask.t(), start)
        loss2 = (y2.transpose(0, 1)[mask] * weight.double()).sum()
        (loss2 + end2.h.square().sum() + end2.c.square().sum()).backward()
        assert_near(y, y2.transpose(0, 1)[mask], "outputs")
        assert_near(end.h, end2.h, "h")
        assert_near(end.c, end2.c, "c")
        assert_near(x.grad, x2.grad, "gradient of x", 1e-4)
        for (name, got), want in zip(layer.named_parameters(), exact.parameters(), strict=True):
            assert_near(got.grad, want.grad, f"gradient of {name}", 1e-4)


def test_sentences_without_a_step_keep_their_state() -> None:
    layers, inputs, states = random_case(CONFIGS[1], 1, 3, directions=1)
    for run in (gradient.recur, torch_lstm.recur):
        _, ends = run(layers, [inputs[0][0, :2]], [2], states)
        assert ends[0].h[2].equal(states[0].h[2]) and ends[0].c[2].equal(states[0].c[2])
