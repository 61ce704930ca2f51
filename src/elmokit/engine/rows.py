"""Rows of a matrix by their numbers, without waking torch's threads for it.

Those wait actively after each of torch's own operations and then are in the way of the kernel's
threads; a sixth of the time of a batch went there. So NumPy does it for tensors that it can read.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_NUMPY_TYPES = (torch.float16, torch.float32, torch.float64)


def take(x: Tensor, rows: NDArray[np.int64]) -> Tensor:
    """The rows of `x` that are numbered."""
    if _is_numpys(x):
        return torch.from_numpy(x.numpy().take(rows, axis=0))
    return x[torch.from_numpy(rows).to(x.device)]


def add(out: Tensor, rows: NDArray[np.int64], values: Tensor, weight: float) -> None:
    """Add weighted `values` to rows of `out` that are all different."""
    if _is_numpys(out):
        # A weight of 1 leaves a value as it is, so a single layer is exact.
        out.numpy()[rows] += values.numpy() if weight == 1 else values.numpy() * weight
    else:
        out.index_add_(0, torch.from_numpy(rows).to(out.device), values, alpha=weight)


def _is_numpys(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in _NUMPY_TYPES and not x.requires_grad
