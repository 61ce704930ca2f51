"""Which layers a user wants of each token, as weights of the layers."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from .errors import ConfigError, quoted

Layers: TypeAlias = Literal["average", "top", "all", "mix"] | int | str
"""`average`, `top`, `all`, a number 0..L, `mix`, or `mix:NAME` for a mix by its name."""

Direction: TypeAlias = Literal["both", "forward", "backward"]


def layer_weights(layers: Layers, num_layers: int) -> Tensor:
    """The weights of the layers in each output, (outputs, layers); not for mixes.

    >>> layer_weights("average", 2)
    tensor([[0.5000, 0.5000]])
    """
    if layers == "average":
        return torch.full((1, num_layers), 1 / num_layers)
    if layers == "all":
        return torch.eye(num_layers)
    number = num_layers - 1 if layers == "top" else layers
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < num_layers:
        return torch.eye(num_layers)[number, None]
    raise ConfigError(
        f"layers={quoted(layers)}: expected 'average', 'top', 'all', 'mix' or 0..{num_layers - 1}"
    )


def halves(direction: Direction) -> tuple[int, ...]:
    """The directions to compute, as the engine numbers them."""
    choices: dict[str, tuple[int, ...]] = {"both": (0, 1), "forward": (0,), "backward": (1,)}
    if direction not in choices:
        raise ConfigError(
            f"direction={quoted(direction)}: expected one of {', '.join(map(repr, choices))}"
        )
    return choices[direction]
