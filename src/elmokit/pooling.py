"""Vectors of tokens → one vector of their sentence."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError, quoted

Pooling: TypeAlias = Literal["mean", "max", "first", "last"]
Vectors: TypeAlias = NDArray[np.float32]

_POOL: dict[str, Callable[[Vectors], Vectors]] = {
    "mean": lambda v: v.mean(axis=-2),
    "max": lambda v: v.max(axis=-2),
    "first": lambda v: v[..., 0, :],
    "last": lambda v: v[..., -1, :],
}


def poolers(pooling: Pooling | Sequence[Pooling]) -> list[Callable[[Vectors], Vectors]]:
    """The functions of a pooling, whose results are concatenated."""
    names = [pooling] if isinstance(pooling, str) else list(pooling)
    for name in names:
        if name not in _POOL:
            known = ", ".join(map(repr, _POOL))
            raise ConfigError(f"pooling={quoted(name)}: expected one of {known}")
    if not names:
        raise ConfigError("pooling=(): expected at least one")
    return [_POOL[name] for name in names]


def normalise(vectors: Vectors) -> Vectors:
    """Each row at length one; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(norms == 0, 1, norms)).astype(np.float32)
