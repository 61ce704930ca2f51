"""Two-way tables between a format's tensors and ours.

A `Rule` says which tensors of ours are made of which of theirs, and back. Both ways only copy,
transpose, split and negate, so a round trip is bit-equal.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import FormatError
from .checkpoint import check_shape

Tensors = tuple[Tensor, ...]


class ArrayLike(Protocol):
    """An array that may still be on disk: NumPy's, h5py's."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """How some tensors of ours correspond to some of theirs."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    to_ours: Callable[..., Tensors]
    to_theirs: Callable[..., Tensors]


def same(ours: str, theirs: str) -> Rule:
    """The same tensor under two names."""
    return Rule((ours,), (theirs,), lambda t: (t,), lambda t: (t,))


def transposed(ours: str, theirs: str) -> Rule:
    """A matrix that the format keeps as [input, output]."""
    return Rule((ours,), (theirs,), lambda t: (t.t(),), lambda t: (t.t(),))


def joined(*parts: Tensor, dim: int = 0) -> Tensor:
    """The parts one after the other, like `torch.cat`.

    That, on the meta device where shapes are checked, makes torch import its compiler: seconds.
    """
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    whole, start = parts[0].new_empty(shape), 0
    for part in parts:
        whole.narrow(dim, start, part.shape[dim]).copy_(part)
        start += part.shape[dim]
    return whole


def to_ours(
    rules: Sequence[Rule],
    source: Mapping[str, ArrayLike | Tensor],
    expected: Mapping[str, Tensor],
    where: str,
) -> dict[str, Tensor]:
    """Our tensors from theirs; every shape is checked before anything is read.

    Args:
        rules: The format's table.
        source: Their tensors by name.
        expected: Our tensors as the architecture wants them (only their shapes matter).
        where: The file, for errors.
    """
    for rule in rules:
        shapes = rule.to_theirs(*(expected[name] for name in rule.ours))
        for name, want in zip(rule.theirs, shapes, strict=True):
            if name not in source:
                raise FormatError(
                    f"{where}: the tensor {name} is missing; get a complete copy of the weights"
                )
            check_shape(where, name, tuple(source[name].shape), tuple(want.shape))
    tensors: dict[str, Tensor] = {}
    for rule in rules:
        theirs = (_materialise(source[name], f"{where}: {name}") for name in rule.theirs)
        converted = (t.contiguous() for t in rule.to_ours(*theirs))
        tensors.update(zip(rule.ours, converted, strict=True))
    return tensors


def to_theirs(rules: Sequence[Rule], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors from ours."""
    return {
        name: tensor.contiguous()
        for rule in rules
        for name, tensor in zip(
            rule.theirs, rule.to_theirs(*(tensors[ours] for ours in rule.ours)), strict=True
        )
    }


def _materialise(array: ArrayLike | Tensor, what: str) -> Tensor:
    """`array` as a float32 tensor."""
    if isinstance(array, Tensor):
        tensor = array
    elif np.dtype(array.dtype).kind != "f":
        raise FormatError(f"{what}: expected floating-point numbers, found {array.dtype}")
    else:
        try:
            tensor = torch.from_numpy(np.asarray(array, dtype=np.float32))
        except (OSError, ValueError, RuntimeError, TypeError, MemoryError) as e:
            raise FormatError(f"{what} cannot be read ({e}); the file is damaged") from e
    if not tensor.is_floating_point():
        raise FormatError(f"{what}: expected floating-point numbers, found {tensor.dtype}")
    return tensor.float()
