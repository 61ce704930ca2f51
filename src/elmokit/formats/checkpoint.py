"""A model on its way between a file and memory, and what every format says about itself.

A `Checkpoint` is what every format is read into and written from; its tensors carry the names of
`Elmo.state_dict()`. A `Format` knows how its own files, names and layouts relate to these. Most
do it by a table of `Rule`s, which say which tensors of ours are made of which of theirs, and back.
Both ways only copy, transpose, split and negate, so a round trip is bit-equal.
"""

import fnmatch
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import ElmoConfig
from ..errors import FormatError, quoted
from ..files.read import is_there, json_field
from ..nn import BiLm, BiLmState, ScalarMix, Softmax
from ..text.ids import Vocab

if TYPE_CHECKING:
    import h5py

Part: TypeAlias = Literal["mixes", "softmax", "float16"]

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A checkpoint format. `load.FORMATS` lists all of them.

    Patterns are those of `fnmatch`; one without a slash is a file of the model's own folder.

    Attributes:
        name: What the command line calls it.
        label: What people call it.
        layout: Its files, in short.
        weights: Names of the files that may hold the weights. One of them stands for the model.
        settings: Name of the file without which weights are not of this format.
        marks: Names that only this format has: a folder with one holds a model, or parts of one.
        anchor: The file by which a model is found in an archive.
        files: Names of all files that a model may need.
        holds: What of a model it can hold beside the biLM and the way it reads text: the softmax,
            the mixes with the warm state, and weights in float16.
        read: The model of a folder, or of one of the files in `weights`.
        write: Write a model into an empty folder; None if the format is only read.
        new_weights: Name of the file of weights in a new folder, where a user may choose it.
        aliases: Former names.
    """

    name: str
    label: str
    layout: str
    weights: tuple[str, ...]
    settings: str | None = None
    marks: tuple[str, ...]
    anchor: str
    files: tuple[str, ...]
    holds: frozenset[Part] = frozenset()
    read: Callable[[Path], Checkpoint]
    write: Callable[[Checkpoint, Path], None] | None = None
    new_weights: str | None = None
    aliases: tuple[str, ...] = ()

    def is_in(self, folder: Path, names: Collection[str]) -> bool:
        """Whether a folder, in which there are the files `names`, holds a model of this format."""

        def has(pattern: str) -> bool:
            if "/" in pattern:
                return is_there(folder / pattern)
            return bool(fnmatch.filter(names, pattern))

        return any(map(has, self.weights)) and (self.settings is None or has(self.settings))

    def is_named_by(self, file: Path) -> bool:
        """Whether a file stands for the model that it belongs to."""
        return any(fnmatch.fnmatchcase(file.name, pattern) for pattern in self.weights)

    def lost(self, checkpoint: Checkpoint) -> list[str]:
        """What of a model this format cannot hold, in words for people."""
        lost = []
        if "mixes" not in self.holds:
            if checkpoint.config.mixes:
                lost.append(f"the mixes ({', '.join(checkpoint.config.mixes)})")
            if "warm_h" in checkpoint.tensors:
                lost.append("the warm state")
        if "softmax" not in self.holds and checkpoint.vocab is not None:
            lost.append("the softmax")
        return lost


def text_settings(config: ElmoConfig) -> dict[str, Any]:
    """How a model reads text, for the settings of a format that has no place for it.

    It is one extra key, which the programs that the format comes from ignore.
    """
    return {
        "elmokit": {
            "tokenizer": config.tokenizer,
            "normalization": config.normalization,
            "state": config.state,
        }
    }


def read_text_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of an `ElmoConfig` that `text_settings` described, or those of other programs."""
    value = partial(json_field, settings, where=where)
    none = type(None)
    return {
        "tokenizer": value("elmokit.tokenizer", str, none, default=None),
        "normalization": value("elmokit.normalization", str, none, default="NFC"),
        "state": value("elmokit.state", str, default="zero"),
    }


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
            check_shape(where, name, tensors[name].shape, want.shape)
            if not tensors[name].is_floating_point():
                raise FormatError(f"{where}: {name} holds {tensors[name].dtype}, no real numbers")
        elif name not in OPTIONAL:
            raise FormatError(f"{where}: the tensor {name} is missing; get a complete copy")
    if len(set(OPTIONAL) & tensors.keys()) == 1:
        raise FormatError(f"{where}: of {' and '.join(OPTIONAL)}, one is missing")
    for name in tensors:
        if name not in expected:
            raise FormatError(f"{where}: the tensor {quoted(name)} belongs to no part of the model")


Tensors = tuple[Tensor, ...]


Array: TypeAlias = "Tensor | NDArray[Any] | h5py.Dataset"
"""A tensor of theirs, which may still be on disk."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How some tensors of ours correspond to some of theirs."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    to_ours: Callable[..., Tensors]
    to_theirs: Callable[..., Tensors]


def renamed(ours: str, theirs: str) -> Rule:
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
    source: Mapping[str, Array],
    expected: Mapping[str, Tensor],
    where: str,
) -> dict[str, Tensor]:
    """Our tensors from those of `source`; every shape is checked before anything is read.

    Of the `expected` tensors only the shapes matter; `where` is the file, for errors.
    """
    for rule in rules:
        shapes = rule.to_theirs(*(expected[name] for name in rule.ours))
        for name, want in zip(rule.theirs, shapes, strict=True):
            if name not in source:
                raise FormatError(
                    f"{where}: the tensor {name} is missing; get a complete copy of the weights"
                )
            check_shape(where, name, source[name].shape, want.shape)
    tensors: dict[str, Tensor] = {}
    for rule in rules:
        theirs = (_float_tensor(source[name], f"{where}: {name}") for name in rule.theirs)
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


def _float_tensor(array: Array, what: str) -> Tensor:
    """`array` as a float32 tensor."""
    if isinstance(array, Tensor):
        is_float = array.is_floating_point()
    else:
        is_float = np.dtype(array.dtype).kind == "f"
    if not is_float:
        raise FormatError(f"{what}: expected floating-point numbers, found {array.dtype}")
    if isinstance(array, Tensor):
        return array.float()
    try:
        return torch.from_numpy(np.asarray(array, dtype=np.float32))
    except (OSError, ValueError, RuntimeError, TypeError, MemoryError) as e:
        raise FormatError(f"{what} cannot be read ({e}); the file is damaged") from e
