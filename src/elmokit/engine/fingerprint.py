"""Whether weights have changed, also where torch keeps no record of it.

torch counts changes in key (`_version`), but fused optimisers and whatever goes through `p.data`
or NumPy escape that count. So the values are compared as well: small tensors whole, large ones at a
few hundred elements that are spread over all rows and columns. An optimiser may move only some rows
of an embedding, those of the words of its batch, so an embedding that is being trained is read
whole. What can still escape is a change of single elements by hand.
"""

import zlib
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

WHOLE = 8192
"""Elements of the largest tensor that is always compared whole."""

SAMPLED = 256
"""Elements of a larger one that are compared, about."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Bits: TypeAlias = NDArray[np.integer]


class Fingerprint:
    """Something of a module's parameters that changes when they do.

    Views of the elements to compare are kept from call to call: making one takes twenty times as
    long as reading it. Each keeps its tensor alive, so an address never means another tensor.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._views: dict[tuple[object, ...], Bits] = {}

    def __call__(self) -> tuple[object, ...]:
        """The fingerprint of the weights as they are now."""
        marks: list[object] = []
        known, views = self._views, dict[tuple[object, ...], Bits]()
        for module in self.module.modules():
            is_table = isinstance(module, nn.Embedding)
            for p in module._parameters.values():  # faster than parameters()
                if p is None:
                    continue
                is_partial = is_table and p.requires_grad  # how a step may change it
                key = (p.data_ptr(), p.stride(), p.dtype, is_partial)
                view = known.get(key)
                if view is None:
                    view = _sample(p, is_partial)
                if p.is_cpu:
                    views[key] = view
                marks += (key, 0 if p.is_inference() else p._version, _read(view))
        self._views = views
        return tuple(marks)


def _sample(p: Tensor, is_whole: bool) -> Bits:
    """The bits of some elements, or of all; on the CPU a view of them."""
    bits = p.detach().view(_BITS[p.element_size()])
    # As it lies in memory: a view of a transposed matrix, too, is one row without holes.
    bits = bits.permute(sorted(range(bits.ndim), key=bits.stride().__getitem__, reverse=True))
    if bits.is_contiguous() and bits.numel() > WHOLE and not is_whole:
        # An odd step meets every column of a matrix whose width is a power of two.
        bits = bits.view(-1)[:: bits.numel() // SAMPLED | 1]
    return bits.cpu().numpy()


def _read(view: Bits) -> object:
    """The elements themselves, or a checksum of many."""
    return view.tobytes() if view.size <= WHOLE else zlib.crc32(np.ascontiguousarray(view).data)
