"""One layer of one direction with its products in 8 bits: weights per output, inputs per call."""

import warnings
from functools import cache

import torch
from torch import Tensor

from ..nn import ProjectedLstm
from .recurrence import TorchLayer


def is_available() -> bool:
    """Whether this torch has 8-bit products."""
    has_functions = hasattr(torch, "quantize_per_channel") and hasattr(torch, "qint8")
    return has_functions and hasattr(torch.ops.quantized, "linear_dynamic")


class Int8Layer(TorchLayer):
    """A `TorchLayer` whose three matrices are int8, by torch's own quantised products."""

    def __init__(self, layer: ProjectedLstm) -> None:
        super().__init__(layer)
        self._input = _pack(self.input.t(), self.bias)
        self._recurrent = _pack(self.recurrent.t(), None)
        self._projection = None if self.projection is None else _pack(self.projection.t(), None)
        self.input = self.recurrent = self.bias[:0]
        self.projection = None if self.projection is None else self.bias[:0]

    def gates(self, x: Tensor) -> Tensor:
        return _multiply(x, self._input)

    def add_recurrent(self, gates: Tensor, h: Tensor) -> None:
        gates.add_(_multiply(h, self._recurrent))

    def project(self, hidden: Tensor, out: Tensor) -> None:
        out.copy_(_multiply(hidden, self._projection))


def _pack(weight: Tensor, bias: Tensor | None) -> object:
    """The weights as int8 with a scale for each output, in the layout of the product."""
    scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12).double()
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():
        # torch means to drop these functions some day; `is_available` will notice.
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*deprecated.*")
        quantised = torch.quantize_per_channel(weight.contiguous(), scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(quantised, bias)


def _multiply(x: Tensor, packed: object) -> Tensor:
    # Without VNNI, sums of two products are kept in 16 bits and overflow: 7 bits for the inputs.
    product: Tensor = torch.ops.quantized.linear_dynamic(x.contiguous(), packed, not _has_vnni())
    return product


@cache
def _has_vnni() -> bool:
    check = getattr(torch.cpu, "_is_vnni_supported", None)
    return bool(check and check())
