"""The sequence-to-sequence model: probabilities, padding, copying, and its search."""

import itertools

import pytest
import torch
from torch import Tensor

from elmokit.tasks.parts.beam_search import beam_search, greedy_search
from elmokit.tasks.parts.seq2seq import Seq2Seq, drop_units, smoothed_loss

BOS, EOS, V, X = 2, 3, 11, 5
MODELS = pytest.mark.parametrize(
    ("has_pointer", "num_layers"), list(itertools.product((False, True), (1, 2)))
)


def make(*, has_pointer: bool = False, num_layers: int = 1, dtype: torch.dtype = torch.float64,
         **more: float) -> Seq2Seq:  # fmt: skip
    """A model of a few units whose random weights are large enough to make every input matter."""
    model = Seq2Seq(
        X, V, embed_dim=6, dim=8, num_layers=num_layers, never=(0, 1, 2),
        has_pointer=has_pointer, **more,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model.to(dtype).eval()


def sources(
    lengths: list[int], dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Random inputs, the mask, and units from 4 on."""
    longest = max(lengths)
    x = torch.randn(len(lengths), longest, X, dtype=dtype)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    units = torch.randint(4, V, mask.shape)
    return x * mask[..., None], mask, units * mask


def search(model: Seq2Seq, batch: tuple[Tensor, Tensor, Tensor], limits: list[int], beam: int):
    with torch.inference_mode():
        state = model.encode(*batch)
        return beam_search(model.step, state, limits, bos=BOS, eos=EOS, beam=beam)


@MODELS
def test_probabilities_sum_to_one_and_special_units_have_none(
    has_pointer: bool, num_layers: int
) -> None:
    model = make(has_pointer=has_pointer, num_layers=num_layers)
    p = model(*sources([7, 1, 4]), torch.randint(2, V, (3, 5))).exp()
    assert p.shape == (3, 5, V)
    torch.testing.assert_close(p.sum(dim=-1), torch.ones(3, 5, dtype=p.dtype))
    assert p[..., :3].max() == 0


def test_a_pointer_that_only_copies_gives_the_attention_of_the_units() -> None:
    model = make(has_pointer=True)
    assert model.pointer is not None
    with torch.no_grad():
        model.pointer.weight.zero_()
        model.pointer.bias.fill_(-100.0)
    x, mask, units = sources([6])
    units[0] = torch.tensor([4, 5, 4, 6, 5, 4])
    previous = torch.tensor([[BOS, 4, 5]])
    state = model.encode(x, mask, units)
    attention = model.decode(state, previous).attention[0]
    p = model(x, mask, units, previous).exp()[0]
    for unit, places in ((4, [0, 2, 5]), (5, [1, 4]), (6, [3])):
        torch.testing.assert_close(p[:, unit], attention[:, places].sum(dim=1))
    assert p[:, [3, *range(7, V)]].max() < 1e-30


@MODELS
def test_the_step_of_a_search_is_the_model(has_pointer: bool, num_layers: int) -> None:
    model = make(has_pointer=has_pointer, num_layers=num_layers)
    batch, previous = sources([5, 3]), torch.tensor([[BOS, 4, 9, 4], [BOS, 7, 7, 5]])
    whole = model(*batch, previous)
    state = model.encode(*batch)
    for t in range(4):
        log_p, state = model.step(previous[:, t], state)
        torch.testing.assert_close(log_p, whole[:, t])


@MODELS
def test_padding_and_the_rest_of_a_batch_change_nothing(has_pointer: bool, num_layers: int) -> None:
    model = make(has_pointer=has_pointer, num_layers=num_layers)
    x, mask, units = sources([9, 2, 5])
    previous = torch.randint(3, V, (3, 4))
    whole = model(x, mask, units, previous)
    for i, length in enumerate((9, 2, 5)):
        row = slice(i, i + 1)
        alone = model(x[row, :length], mask[row, :length], units[row, :length], previous[row])
        torch.testing.assert_close(alone, whole[row])
    x[~mask] = 1e3  # what is behind the end is not read
    torch.testing.assert_close(model(x, mask, units, previous), whole)


@MODELS
@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_decodes_to_the_same_units_as_each_source_alone(
    has_pointer: bool, num_layers: int, beam: int
) -> None:
    model = make(has_pointer=has_pointer, num_layers=num_layers)
    lengths = [1, 9, 4, 4, 7, 2]
    x, mask, units = sources(lengths)
    together = search(model, (x, mask, units), [12] * 6, beam)
    for i, length in enumerate(lengths):
        row = slice(i, i + 1)
        batch = x[row, :length], mask[row, :length], units[row, :length]
        (alone,) = search(model, batch, [12], beam)
        assert [h.units for h in alone] == [h.units for h in together[i]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[i]])


@MODELS
def test_a_beam_of_one_is_greedy_search_in_float32(has_pointer: bool, num_layers: int) -> None:
    model = make(has_pointer=has_pointer, num_layers=num_layers, dtype=torch.float32)
    batch = sources([3, 8, 1, 5], torch.float32)
    with torch.inference_mode():
        greedy = greedy_search(model.step, model.encode(*batch), [10] * 4, bos=BOS, eos=EOS)
    assert [found for (found,) in search(model, batch, [10] * 4, 1)] == greedy


@MODELS
def test_every_weight_learns(has_pointer: bool, num_layers: int) -> None:
    model = make(has_pointer=has_pointer, num_layers=num_layers, dropout=0.1, word_dropout=0.1)
    x, mask, units = sources([5, 3])
    x.requires_grad_()
    targets = torch.tensor([[4, 9, EOS], [5, EOS, 0]])
    log_p = model.train()(x, mask, units, torch.tensor([[BOS, 4, 9], [BOS, 5, 0]]))
    smoothed_loss(log_p, targets, targets != 0, 0.1).backward()
    assert (
        x.grad is not None and x.grad.isfinite().all() and x.grad[mask].abs().sum(dim=1).min() > 0
    )
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_the_smoothed_loss_by_hand() -> None:
    p = torch.tensor([[[0.0, 0.5, 0.25, 0.25], [0.0, 0.1, 0.1, 0.8]]])
    targets, mask = torch.tensor([[1, 0]]), torch.tensor([[True, False]])
    plain = smoothed_loss(p.log(), targets, mask, 0.0)
    torch.testing.assert_close(plain, -torch.tensor(0.5).log())
    uniform = -torch.tensor([0.5, 0.25, 0.25]).log().mean()
    smoothed = smoothed_loss(p.log(), targets, mask, 0.2)
    torch.testing.assert_close(smoothed, 0.8 * plain + 0.2 * uniform)


def test_word_dropout_drops_whole_embeddings_in_training_only() -> None:
    x = torch.ones(50, 40, 3)
    dropped = drop_units(x, 0.3, True)
    is_gone = (dropped == 0).all(dim=-1)
    assert (dropped[~is_gone] == 1 / 0.7).all() and 0.2 < is_gone.float().mean() < 0.4
    assert drop_units(x, 0.3, False) is x
