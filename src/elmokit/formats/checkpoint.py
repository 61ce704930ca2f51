"""A model on its way between a file and memory: what every format is read into and written from.

Tensors carry the names of `Elmo.state_dict()`; each format knows only how its own names and
layouts relate to these (see `names.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..config import ElmoConfig
from ..errors import FormatError, quoted
from ..nn import BiLm, BiLmState, ScalarMix, Softmax
from ..text.vocab import Vocab

OPTIONAL = ("warm_h", "warm_c")
"""Tensors that a model may have: the warm state."""


@dataclass(kw_only=True, slots=True)
class Checkpoint:
    """Everything that a model folder can hold.

    Attributes:
        config: The architecture and how text is read.
        tensors: Weights by the names of `Elmo.state_dict()`.
        vocab: The words of the softmax.
        characters: Code points and their ids, where the model has its own.
        words: Words and their rows, where the model reads word vectors.
        format: What was found, in words for people.
        notes: What a user should know about it.
    """

    config: ElmoConfig
    tensors: dict[str, Tensor]
    vocab: Vocab | None = None
    characters: dict[str, int] | None = None
    words: dict[str, int] | None = None
    format: str = ""
    notes: list[str] = field(default_factory=list)


def expected_tensors(config: ElmoConfig) -> dict[str, Tensor]:
    """The tensors that a model of this architecture has, with shapes but without memory."""
    with torch.device("meta"):
        tensors = {f"bilm.{name}": t for name, t in BiLm(config).state_dict().items()}
        if config.num_softmax_words:
            softmax = Softmax(config.num_softmax_words, config.lstm.projection_dim)
            tensors |= {f"softmax.{name}": t for name, t in softmax.state_dict().items()}
        for mix in config.mixes:
            state = ScalarMix(config.num_layers).state_dict()
            tensors |= {f"mixes.{mix}.{name}": t for name, t in state.items()}
        warm = BiLmState.zeros(config.lstm, num_rows=1, like=torch.empty(()))
    return tensors | dict(zip(OPTIONAL, warm, strict=True))


def check_shape(where: str, name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse a tensor whose shape is not the one that the architecture asks for."""
    if tuple(shape) != tuple(expected):
        raise FormatError(
            f"{where}: {name} has shape {tuple(shape)}, but the options ask for {tuple(expected)}; "
            "the weights and the options belong to different models"
        )


def check_complete(
    where: str, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> None:
    """Refuse weights that lack a tensor or have one of a wrong shape."""
    for name, want in expected.items():
        if name in tensors:
            check_shape(where, name, tuple(tensors[name].shape), tuple(want.shape))
            if not tensors[name].is_floating_point():
                raise FormatError(f"{where}: {name} holds {tensors[name].dtype}, no real numbers")
        elif name not in OPTIONAL:
            raise FormatError(f"{where}: the tensor {name} is missing; get a complete copy")
    if len(set(OPTIONAL) & tensors.keys()) == 1:
        raise FormatError(f"{where}: of {' and '.join(OPTIONAL)}, one is missing")
    for name in tensors:
        if name not in expected:
            raise FormatError(f"{where}: the tensor {quoted(name)} belongs to no part of the model")
