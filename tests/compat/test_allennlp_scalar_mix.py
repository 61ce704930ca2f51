"""`compat.allennlp.ScalarMix` has AllenNLP's parameters, and masks as AllenNLP does."""

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from strategies import assert_close
from torch import Tensor, nn

from elmokit.compat.allennlp import ScalarMix
from elmokit.errors import ConfigError
from elmokit.nn import ScalarMix as OwnMix

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
]
MASK = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]])


def layers(*shape: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator) * (j + 1) + j for j in range(3)]


def filled(**arguments: bool) -> ScalarMix:
    mix = ScalarMix(3, **arguments)
    for j, parameter in enumerate(mix.scalar_parameters):
        parameter.data[0] = 0.3 * j
    mix.gamma.data[0] = 0.5
    return mix


def expected(tensors: list[Tensor], mask: Tensor | None = None) -> np.ndarray:
    weights = np.exp([0.0, 0.3, 0.6]) / np.exp([0.0, 0.3, 0.6]).sum()
    arrays = [tensor.double().numpy() for tensor in tensors]
    if mask is not None:
        real = [array[mask.bool().numpy()] for array in arrays]
        arrays = [
            (a - r.mean()) / np.sqrt(r.var() + 1e-13) for a, r in zip(arrays, real, strict=True)
        ]
    return 0.5 * sum(w * array for w, array in zip(weights, arrays, strict=True))


def test_weights_are_set_through_data() -> None:
    tensors = layers(3, 3, 5)
    assert_close(filled()(tensors).detach().numpy(), expected(tensors))
    assert_close(filled()(torch.stack(tensors)).detach().numpy(), expected(tensors))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_layers_of_other_types_are_promoted(dtype: torch.dtype, do_layer_norm: bool) -> None:
    tensors = [tensor.to(dtype) for tensor in layers(3, 3, 5)]
    got = filled(do_layer_norm=do_layer_norm)(tensors, MASK)
    assert got.dtype == torch.promote_types(torch.float32, dtype)
    tolerance = 1e-5 if dtype == torch.float64 else 0.02
    assert_close(
        got.detach().numpy(), expected(tensors, MASK if do_layer_norm else None), tolerance
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layer_norm_masks_whatever_the_type_of_the_mask(dtype: torch.dtype) -> None:
    tensors = layers(3, 3, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = filled(do_layer_norm=True)(tensors, MASK.to(dtype))
    assert_close(got.detach().numpy(), expected(tensors, MASK))


@pytest.mark.parametrize("shape", [(7, 4), (2, 3, 2, 4)], ids=str)
def test_layer_norm_of_any_number_of_dimensions(shape: tuple[int, ...]) -> None:
    tensors = layers(*shape)
    mask = torch.arange(tensors[0][..., 0].numel()).reshape(shape[:-1]) % 3
    got = filled(do_layer_norm=True)(tensors, mask)
    assert_close(got.detach().numpy(), expected(tensors, mask))


def test_mask_has_to_fit() -> None:
    mix = filled(do_layer_norm=True)
    with pytest.raises(ConfigError, match=r"\(3, 4\).*\(3, 3\)"):
        mix(layers(3, 3, 5), torch.ones(3, 4))
    with pytest.raises(ConfigError, match=r"\(3, 3\).*\(3, 3, 2\)"):
        mix(layers(3, 3, 2, 5), MASK)
    with pytest.raises(ConfigError, match="needs the mask"):
        mix(layers(3, 3, 5))
    with pytest.raises(ConfigError, match="2 layers given to a mix of 3"):
        mix(layers(3, 3, 5)[:2], MASK)


def test_parameters_have_the_names_and_shapes_of_allennlp() -> None:
    names = {name: tuple(p.shape) for name, p in ScalarMix(3).named_parameters()}
    assert names == {"gamma": (1,), **{f"scalar_parameters.{j}": (1,) for j in range(3)}}
    assert isinstance(ScalarMix(3).scalar_parameters, nn.ParameterList)


def test_regularisers_find_the_scalars_by_name() -> None:
    mix = ScalarMix(3, initial_scalar_parameters=[1.0, -2.0, 0.5])
    found = [p for name, p in mix.named_parameters() if re.search("scalar_parameters", name)]
    penalty = 0.001 * sum(p.pow(2).sum() for p in found)
    penalty.backward()
    assert penalty.item() == pytest.approx(0.001 * 5.25)
    assert [p.grad.item() for p in mix.scalar_parameters] == pytest.approx([0.002, -0.004, 0.001])


def test_optimiser_takes_the_scalars_alone() -> None:
    mix = ScalarMix(3)
    optimiser = torch.optim.SGD(mix.scalar_parameters, lr=1.0)
    mix(layers(2, 2, 4)).square().sum().backward()
    optimiser.step()
    assert all(p.item() != 0 for p in mix.scalar_parameters)
    assert mix.gamma.item() == 1.0


def test_scalars_freeze_and_thaw() -> None:
    mix = ScalarMix(3)
    mix.scalar_parameters.requires_grad_(False)
    assert [p.requires_grad for p in mix.parameters()] == [True, False, False, False]
    for parameter in mix.scalar_parameters[:-1]:
        parameter.requires_grad_()
    assert [p.requires_grad for p in mix.scalar_parameters] == [True, True, False]
    assert not any(p.requires_grad for p in ScalarMix(3, trainable=False).parameters())


def test_own_state_dicts_load() -> None:
    own = OwnMix(3)
    own.scalars.data.copy_(torch.tensor([0.0, 0.3, 0.6]))
    own.gamma.data.fill_(0.5)
    mix = ScalarMix(3)
    mix.load_state_dict(own.state_dict())
    for name, tensor in filled().state_dict().items():
        assert mix.state_dict()[name].equal(tensor)
    with pytest.raises(RuntimeError, match="scalars"):
        mix.load_state_dict(OwnMix(4).state_dict())


def test_replicas_of_data_parallel_mix_alike(
    replicate: Callable[[nn.Module], nn.Module],
) -> None:
    mix, tensors = filled(do_layer_norm=True), layers(3, 3, 5)
    result = replicate(mix)(tensors, MASK)
    assert result.equal(mix(tensors, MASK))
    result.square().sum().backward()
    assert all(p.grad.item() != 0 for p in mix.scalar_parameters)
