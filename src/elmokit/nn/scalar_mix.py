"""The task's learned combination of the layers (paper, equation 1)."""

import torch
from torch import Tensor, nn

from .shapes import Float, Shaped


class ScalarMix(nn.Module):
    """ELMo_k = γ Σ_j softmax(s)_j h_kj, the vector that a task model reads.

    The weights start equal and γ at 1, so an untrained mix is the average of the layers.

    Args:
        num_layers: Layers to mix; for an `Elmo`, its `num_layers`.
        layer_norm: Normalise each layer first, by one mean and variance over all real tokens
            of the batch (as the published code does; vectors then depend on the batch).
        dropout: Applied to the result while training.
        trainable: False freezes the weights and γ.
    """

    def __init__(
        self,
        num_layers: int,
        *,
        layer_norm: bool = False,
        dropout: float = 0.0,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.layer_norm = layer_norm
        self.trainable = trainable
        # One vector, not a list of scalars: such a list is lost by nn.DataParallel.
        self.scalars = nn.Parameter(torch.zeros(num_layers), requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(()), requires_grad=trainable)
        self.dropout = nn.Dropout(dropout)

    def __call__(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        mixed: Tensor = super().__call__(layers, mask)
        return mixed

    def forward(
        self, layers: Float[Tensor, "L *rest D"], mask: Shaped[Tensor, "*rest"] | None = None
    ) -> Float[Tensor, "*rest D"]:
        return self.dropout(self.combine(layers, mask))  # type: ignore[no-any-return]

    def combine(
        self, layers: Float[Tensor, "L *rest D"], mask: Shaped[Tensor, "*rest"] | None = None
    ) -> Float[Tensor, "*rest D"]:
        """The mix without dropout, whatever the mode."""
        if self.layer_norm:
            layers = torch.stack([_normalise(layer, mask) for layer in layers])
        mixed: Tensor = torch.tensordot(self.gamma * self.weights(), layers, dims=1)
        return mixed

    def weights(self) -> Float[Tensor, " L"]:
        """The normalised layer weights softmax(s), which sum to one."""
        return torch.softmax(self.scalars, dim=0)

    def penalty(self, strength: float) -> Float[Tensor, ""]:
        """λ‖s‖², to add to the loss: λ=1 keeps the mix near the average, 0.001 frees it."""
        return strength * self.scalars.square().sum()


def _normalise(layer: Tensor, mask: Tensor | None) -> Tensor:
    mask = None if mask is None else mask.bool()  # an integer mask would index
    real = layer if mask is None else layer[mask]
    variance, mean = torch.var_mean(real, correction=0)
    normal = (layer - mean) * torch.rsqrt(variance + 1e-12)
    return normal if mask is None else normal * mask[..., None]
