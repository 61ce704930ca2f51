"""The native filters have the values and gradients of the plain module in double precision."""

import copy

import pytest
import torch
from strategies import KERNELS
from torch import Tensor

from elmokit.config import CharCnnConfig
from elmokit.engine.native_encoder import pooled_filters
from elmokit.nn import CharCnn

pytestmark = [
    pytest.mark.skipif(not KERNELS, reason="the native kernel is not built"),
    pytest.mark.usefixtures("num_threads"),
]

BYTES = CharCnnConfig(dim=4, filters=((1, 32), (2, 33), (3, 5), (7, 64)))
CONFIGS = [
    BYTES,
    CharCnnConfig(
        characters="unicode", num_characters=9, dim=3, max_characters=6,
        filters=((6, 17), (1, 1), (2, 16)),
    ),
]  # fmt: skip
PADDING = 5


def random_words(config: CharCnnConfig, number: int) -> Tensor:
    """Words of all lengths, from none to all characters."""
    torch.manual_seed(number)
    shape = (number, config.max_characters)
    ids = torch.randint(1, config.num_characters, shape)
    lengths = torch.randint(0, config.max_characters + 1, (number, 1))
    ids = torch.where(torch.arange(config.max_characters) < lengths, ids, PADDING)
    if number > 1:
        ids[0] = 0  # as the padding of whole words
    return ids


def make_cnn(config: CharCnnConfig) -> CharCnn:
    torch.manual_seed(1)
    return CharCnn(config)


def plain(cnn: CharCnn, ids: Tensor) -> Tensor:
    """The filters of `nn.CharCnn` before the activation."""
    spelled = cnn.embedding(ids).transpose(1, 2)
    return torch.cat([conv(spelled).amax(dim=-1) for conv in cnn.convolutions], dim=1)


def assert_near(got: Tensor, want: Tensor, relative: float) -> None:
    assert got.shape == want.shape
    got, want = got.detach().double(), want.detach()
    assert float((got - want).abs().max()) <= relative * float(want.abs().max())


def assert_equals_plain(config: CharCnnConfig, ids: Tensor, isa: str) -> None:
    cnn = make_cnn(config)
    exact = copy.deepcopy(cnn).double()
    got, want = pooled_filters(cnn, ids, isa), plain(exact, ids)
    assert_near(got, want, 1e-6)
    weight = torch.randn(want.shape, dtype=torch.double)
    (want * weight).sum().backward()
    (got * weight.float()).sum().backward()
    assert_near(cnn.embedding.weight.grad, exact.embedding.weight.grad, 1e-4)
    for conv, exact_conv in zip(cnn.convolutions, exact.convolutions, strict=True):
        assert_near(conv.weight.grad, exact_conv.weight.grad, 1e-4)
        assert_near(conv.bias.grad, exact_conv.bias.grad, 1e-4)


@pytest.mark.parametrize("isa", KERNELS)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.characters)
def test_values_and_gradients_are_those_of_the_plain_module(
    config: CharCnnConfig, threads: int, isa: str
) -> None:
    torch.set_num_threads(threads)
    for number in (1, 2, 40):
        assert_equals_plain(config, random_words(config, number), isa)


def test_the_zero_row_of_bytes_learns_nothing() -> None:
    cnn = make_cnn(BYTES)
    pooled_filters(cnn, random_words(BYTES, 9)).sum().backward()
    assert cnn.embedding.weight.grad[0].abs().max() == 0
    assert cnn.embedding.weight.grad[PADDING].abs().max() > 0


def test_the_zero_character_of_unicode_learns() -> None:
    cnn = make_cnn(CONFIGS[1])
    pooled_filters(cnn, torch.zeros(2, 6, dtype=torch.int64)).sum().backward()
    assert cnn.embedding.weight.grad[0].abs().max() > 0


def test_runs_repeat_to_the_last_bit() -> None:
    torch.set_num_threads(2)

    def run() -> list[Tensor]:
        cnn = make_cnn(BYTES)
        pooled = pooled_filters(cnn, random_words(BYTES, 100))
        pooled.square().sum().backward()
        return [pooled, *(p.grad for p in cnn.parameters() if p.grad is not None)]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


@pytest.mark.parametrize("wrong", [-1, 262])
def test_characters_outside_of_the_table_are_refused(wrong: int) -> None:
    ids = random_words(BYTES, 3)
    ids[1, 2] = wrong
    with pytest.raises(IndexError, match=str(wrong)):
        pooled_filters(make_cnn(BYTES), ids)


def test_any_layout_of_the_words_reads_the_same() -> None:
    cnn, ids = make_cnn(BYTES), random_words(BYTES, 8)
    for view in (torch.cat([ids, ids], dim=1)[:, :50], ids.t().contiguous().t()):
        assert torch.equal(pooled_filters(cnn, view), pooled_filters(cnn, ids))


def test_no_words_give_no_rows() -> None:
    assert pooled_filters(make_cnn(BYTES), random_words(BYTES, 0)).shape == (0, 134)


@pytest.mark.parametrize("isa", KERNELS)
def test_what_is_not_a_number_stays_visible(isa: str) -> None:
    cnn, ids = make_cnn(BYTES), random_words(BYTES, 8)
    with torch.no_grad():
        cnn.embedding.weight[int(ids[3, 1])] = torch.nan
    assert pooled_filters(cnn, ids, isa)[3].isnan().all()
