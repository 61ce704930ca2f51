"""AllenNLP's `ScalarMix`: its signature, its parameters and its layer norm."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError


class ScalarMix(nn.Module):
    """γ Σ_j softmax(s)_j h_j, with the parameters `scalar_parameters.0` … and `gamma`.

    Regularisers, optimiser groups and state dicts find these names, as they do in AllenNLP. The
    state dict of an `elmokit.nn.ScalarMix` (`scalars`, `gamma`) loads, too.

    Args:
        mixture_size: Layers to mix.
        do_layer_norm: Normalise each layer first, by one mean and variance over the whole batch
            (sentence boundaries included), so that results depend on the batch.
        initial_scalar_parameters: The weights before the softmax; zeros by default.
        trainable: False freezes the weights and γ.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        initial = [0.0] * mixture_size
        if initial_scalar_parameters is not None:
            initial = list(initial_scalar_parameters)
            if len(initial) != mixture_size:
                raise ConfigError(
                    f"scalar mix parameters {initial}: expected {mixture_size}, one per layer"
                )
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(value)]), requires_grad=trainable) for value in initial
        )
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def __call__(self, tensors: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        mixed: Tensor = super().__call__(tensors, mask)
        return mixed

    def forward(self, tensors: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """The mix of the layers.

        Args:
            tensors: One tensor per layer, all of one shape (…, D).
            mask: Real tokens, (…), of any type: what is not zero is real. Layer norm needs it.
        """
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"{len(tensors)} layers given to a mix of {self.mixture_size}")
        layers = tensors if isinstance(tensors, Tensor) else torch.stack(list(tensors))
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("do_layer_norm=True needs the mask of real tokens")
            if mask.shape != layers.shape[1:-1]:
                raise ConfigError(
                    f"mask of shape {tuple(mask.shape)}: expected {tuple(layers.shape[1:-1])}, "
                    "the shape of the layers without their last axis"
                )
            # An integer mask would index.
            real = mask.bool()
            layers = torch.stack([_normalise(layer, real) for layer in layers])
        weights = self.gamma * torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)
        dtype = torch.promote_types(weights.dtype, layers.dtype)
        mixed: Tensor = torch.tensordot(weights.to(dtype), layers.to(dtype), dims=1)
        return mixed

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        scalars = state_dict.get(f"{prefix}scalars")
        if isinstance(scalars, Tensor) and len(scalars) == self.mixture_size:
            del state_dict[f"{prefix}scalars"]
            for j, value in enumerate(scalars):
                state_dict[f"{prefix}scalar_parameters.{j}"] = value.reshape(1)
        gamma = state_dict.get(f"{prefix}gamma")
        if isinstance(gamma, Tensor) and gamma.ndim == 0:
            state_dict[f"{prefix}gamma"] = gamma.reshape(1)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _normalise(layer: Tensor, real: Tensor) -> Tensor:
    """One mean and variance over all real tokens; padding is shifted too, as in AllenNLP."""
    variance, mean = torch.var_mean(layer[real], correction=0)
    # float16 has nothing as small as 1e-13.
    tiny = 1e-4 if layer.dtype == torch.float16 else 1e-13
    return (layer - mean) / torch.sqrt(variance + tiny)
