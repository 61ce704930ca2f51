"""A batch through `nn.BiLm` itself: padded, slow, obvious, and the measure of the other engines."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..nn import BiLm, BiLmState
from .packed import Request

TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 3e-2,
    torch.bfloat16: 2e-1,
}
"""How far an engine may be from `nn`, relative to the largest value, per type of the weights."""

GRADIENT_TOLERANCE = {
    torch.float64: 1e-8,
    torch.float32: 1e-3,
    torch.float16: 1e-1,
    torch.bfloat16: 5e-1,
}
"""The same for gradients, which add up more terms."""

INT8_TOLERANCE = 0.3
"""The same for vectors by 8-bit products, which are inexact by design."""


def run_plain(
    bilm: BiLm,
    x: Tensor,
    index: NDArray[np.int64],
    lengths: NDArray[np.int64],
    request: Request,
    state: BiLmState | None,
) -> tuple[Tensor, BiLmState]:
    """The requested vectors and the state after each sentence; arguments as `Engine.run`'s."""
    sizes = torch.from_numpy(lengths).to(x.device)
    is_token = torch.arange(int(lengths.max()), device=x.device) < sizes[:, None]
    padded = x.new_zeros(*is_token.shape, x.shape[1])
    tokens = x[torch.from_numpy(index).to(x.device)]
    padded = padded.masked_scatter(is_token[..., None], tokens)
    output = bilm(padded, sizes, state)
    layers, mask = output.layers, output.mask
    if not request.boundaries:  # the first token of a sentence, and its last one
        layers, mask = layers[:, :, 1:-1], mask[:, 2:]
    halves = layers[:, mask].chunk(2, dim=-1)
    vectors = torch.cat([halves[direction] for direction in request.directions], dim=-1)
    results = []
    for weights in request.weights.tolist():
        result = torch.zeros_like(vectors[0])
        for layer, weight in zip(vectors, weights, strict=True):
            if weight:  # a layer that is not wanted may hold anything, NaN included
                result = result + weight * layer
        results.append(result)
    return torch.stack(results), output.state


def agree(got: Tensor, want: Tensor, tolerance: float) -> bool:
    """Whether two results are the same but for rounding, NaN and infinity included."""
    scale = want[want.isfinite()].abs().amax() if want.isfinite().any() else want.new_zeros(())
    is_near = (got - want).abs() <= tolerance * scale.clamp_min(1e-3)
    return bool((is_near | (got == want) | (got.isnan() & want.isnan())).all())
