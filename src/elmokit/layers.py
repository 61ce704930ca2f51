"""What a user wants of the vectors: which layers of each token, and one vector per sentence."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import index
from typing import Literal, SupportsIndex, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .config import one_of
from .errors import ConfigError, quoted

Layers: TypeAlias = Literal["average", "top", "all", "mix"] | int | str
"""`average`, `top`, `all`, a layer by its number, `mix`, or `mix:NAME` for a mix by its name.

Layers count from 0, or from -1 backwards; the number may be a string, as on the command line.
"""

SENTENCE_LAYERS: Layers = 0
"""The layers that compare sentences best; measured by benchmarks/encode_defaults.py."""

Direction: TypeAlias = Literal["both", "forward", "backward"]
Pooling: TypeAlias = Literal["mean", "max", "first", "last"]
Empty: TypeAlias = Literal["raise", "zero", "nan"]
"""What a sentence without tokens is when it is to be one vector."""
EMPTY = ("raise", "zero", "nan")
Vectors: TypeAlias = NDArray[np.float32]

_POOL: dict[str, Callable[[Vectors], Vectors]] = {
    "mean": lambda v: v.mean(axis=-2),
    "max": lambda v: v.max(axis=-2),
    "first": lambda v: v[..., 0, :],
    "last": lambda v: v[..., -1, :],
}


def layer_weights(layers: Layers, num_layers: int) -> Tensor:
    """The weights of the layers in each output, (outputs, layers); not for mixes.

    >>> layer_weights("average", 2)
    tensor([[0.5000, 0.5000]])
    """
    if layers == "average":
        return torch.full((1, num_layers), 1 / num_layers)
    if layers == "all":
        return torch.eye(num_layers)
    number = -1 if layers == "top" else _as_number(layers)
    if number is not None and -num_layers <= number < num_layers:
        return torch.eye(num_layers)[number, None]
    shown = quoted(layers if number is None else number)
    raise ConfigError(
        f"layers={shown}: expected 'average', 'top', 'all', 'mix', 'mix:NAME', or a layer "
        f"0..{num_layers - 1}, counted from the top as -1..-{num_layers}"
    )


def _as_number(layers: object) -> int | None:
    """The number of one layer, as Python or the command line give it; None for anything else."""
    if isinstance(layers, str):
        return int(layers) if re.fullmatch(r"-?[0-9]{1,9}", layers) else None
    is_number = isinstance(layers, SupportsIndex) and not isinstance(layers, (bool, np.bool_))
    try:
        return index(layers) if is_number else None  # type: ignore[arg-type]
    except TypeError:  # arrays have the method, but not all of them are numbers
        return None


def halves(direction: Direction) -> tuple[int, ...]:
    """The directions to compute, as the engine numbers them."""
    choices: dict[str, tuple[int, ...]] = {"both": (0, 1), "forward": (0,), "backward": (1,)}
    one_of("direction", direction, tuple(choices))
    return choices[direction]


def poolers(pooling: Pooling | Sequence[Pooling]) -> list[Callable[[Vectors], Vectors]]:
    """The functions that pool the tokens of a sentence; their results are concatenated."""
    names = [pooling] if isinstance(pooling, str) else list(pooling)
    for name in names:
        one_of("pooling", name, tuple(_POOL))
    if not names:
        raise ConfigError("pooling=(): expected at least one")
    return [_POOL[name] for name in names]


def joined(vectors: Iterable[Vectors], counts: Iterable[int]) -> Iterator[Vectors]:
    """The vectors of texts, from those of the sentences that each of them has."""
    rest = iter(vectors)
    for count in counts:
        parts = list(islice(rest, count))
        yield parts[0] if count == 1 else np.concatenate(parts, axis=-2)


def normalise(vectors: Vectors) -> Vectors:
    """Each row at length one; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(norms == 0, 1, norms)).astype(np.float32)
