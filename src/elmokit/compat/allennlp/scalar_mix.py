"""AllenNLP's `ScalarMix`: its signature, its layer norm, and its names in state dicts."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ...nn import ScalarMix as Mix


class ScalarMix(Mix):
    """γ Σ_j softmax(s)_j h_j, as AllenNLP computes and saves it.

    State dicts have AllenNLP's names (`gamma`, `scalar_parameters.0` …) in both directions, while
    the module itself keeps one vector, which unlike a list of scalars survives `DataParallel`.

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
        super().__init__(mixture_size, trainable=trainable)
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        if initial_scalar_parameters is not None:
            if len(initial_scalar_parameters) != mixture_size:
                raise ConfigError(
                    f"scalar mix parameters {list(initial_scalar_parameters)}: "
                    f"expected {mixture_size}, one a layer"
                )
            self.scalars.data.copy_(torch.tensor(initial_scalar_parameters))

    @property
    def scalar_parameters(self) -> list[Tensor]:
        """The weights before the softmax, one by one."""
        return [self.scalars[j : j + 1] for j in range(self.mixture_size)]

    def __call__(self, tensors: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        mixed: Tensor = nn.Module.__call__(self, tensors, mask)
        return mixed

    def forward(self, tensors: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"{len(tensors)} layers given to a mix of {self.mixture_size}")
        layers = tensors if isinstance(tensors, Tensor) else torch.stack(list(tensors))
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("do_layer_norm=True needs the mask of real tokens")
            layers = torch.stack([_normalise(layer, mask) for layer in layers])
        return super().forward(layers)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        gamma, scalars = (p if keep_vars else p.detach() for p in (self.gamma, self.scalars))
        destination[f"{prefix}gamma"] = gamma.reshape(1)
        for j in range(self.mixture_size):
            destination[f"{prefix}scalar_parameters.{j}"] = scalars[j : j + 1]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        names = [f"{prefix}scalar_parameters.{j}" for j in range(self.mixture_size)]
        if all(name in state_dict for name in names):
            parts = [state_dict.pop(name).reshape(1) for name in names]
            state_dict[f"{prefix}scalars"] = torch.cat(parts)
        if f"{prefix}gamma" in state_dict:
            state_dict[f"{prefix}gamma"] = state_dict[f"{prefix}gamma"].reshape(())
        super()._load_from_state_dict(state_dict, prefix, *args)


def _normalise(layer: Tensor, mask: Tensor) -> Tensor:
    """One mean and variance over all real tokens; padding is shifted too, as in AllenNLP."""
    variance, mean = torch.var_mean(layer[mask], correction=0)
    # float16 has nothing as small as 1e-13.
    tiny = 1e-4 if layer.dtype == torch.float16 else 1e-13
    return (layer - mean) / torch.sqrt(variance + tiny)
