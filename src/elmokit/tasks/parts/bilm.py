"""The biLM that a task reads: loaded, known again by its weights, its layers computed once.

A frozen biLM gives a sentence the same layers in every epoch. They are kept in float16, in memory
up to a bound, beyond it in a file on disk that the system maps into memory.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import ConfigError
from ...layers import Layers, layer_weights
from ...model import Elmo
from ...text.batch import grouped
from ...text.reader import Reader
from ...text.tokenize import FunctionTokenizer
from ..config import ElmoPlacement

Tokens: TypeAlias = Sequence[str]
Half: TypeAlias = NDArray[np.float16]
AT_ONCE = 1 << 15
"""Tokens whose layers are in memory while the rest goes to disk."""


def load_bilm(
    source: str | Path, *, tokenizer: str | None = None, device: str | None = None
) -> Elmo:
    """The model at `source`, frozen."""
    return check_bilm(Elmo.from_pretrained(source, tokenizer=tokenizer, device=device), tokenizer)


def check_bilm(elmo: Elmo, tokenizer: str | None = None) -> Elmo:
    """The model itself; an error for one that a task run cannot use, or not write down."""
    if elmo.config.state == "carry":
        raise ConfigError(
            f"{elmo.source or 'the biLM'} carries its state from sentence to sentence, so that a "
            "sentence has no layers of its own; save it with state 'zero' or 'warm'"
        )
    if tokenizer is None and isinstance(elmo.reader.tokenizer, FunctionTokenizer):
        raise ConfigError(
            "the biLM's tokenizer is a function, which a run cannot record; name one in the "
            "setting tokenizer"
        )
    return elmo


def check_layers(layers: "FrozenLayers", elmo: ElmoPlacement, model: object = None) -> None:
    """Refuse computed layers that are not those that a run asks for."""
    if elmo.finetune:
        raise ConfigError("layers: a biLM that is trained, too, has none in advance")
    if model is not None and model is not layers.elmo:
        raise ConfigError("model and layers: expected the Elmo that computes the layers, or None")
    if chosen_layers(elmo.layers, layers.elmo.num_layers) != layers.wanted:
        raise ConfigError(f"layers: made for {layers.wanted!r}, not for elmo.layers={elmo.layers}")


def bilm_reader(elmo: Elmo | None, tokenizer: str | None) -> Reader:
    """How the texts of a run become tokens: by its tokenizer, or else as the biLM reads them."""
    if elmo is None:
        return Reader(tokenizer or "regex")
    if tokenizer in (None, elmo.config.tokenizer):
        return elmo.reader
    return Reader(tokenizer, elmo.config.normalization)


def fingerprint(elmo: Elmo) -> str:
    """A few letters that change with the weights of the biLM."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(elmo.bilm.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


class LayerSource(Protocol):
    """Where a task model gets the layers of the biLM from."""

    dim: int
    num_layers: int

    def prepare(self, sentences: Iterable[Tokens]) -> None:
        """Compute what can be computed in advance."""
        ...

    def layers(self, sentences: Sequence[Tokens]) -> Tensor:
        """The layers of a batch, (L, B, T, D), zero where the shorter sentences end."""
        ...


class _Rows(NamedTuple):
    """Where the layers of a sentence are: rows of a block."""

    block: int
    start: int


class FrozenLayers:
    """The layers of a frozen biLM, each sentence computed once. Several runs can share them.

    Args:
        elmo: The model; its weights must not change any more.
        layers: `mix` keeps all layers; `top`, `average` or a number only that one.
        max_bytes: Memory for layers; what does not fit goes to disk.
        folder: Where the file for the rest goes; by default the system's temporary folder.
        is_cached: False computes the layers anew each time, rounded alike.
    """

    def __init__(
        self,
        elmo: Elmo,
        layers: str = "mix",
        *,
        max_bytes: int = 1 << 30,
        folder: Path | None = None,
        is_cached: bool = True,
    ) -> None:
        self.elmo = elmo
        self.wanted = chosen_layers(layers, elmo.num_layers)
        self.num_layers = elmo.num_layers if self.wanted == "all" else 1
        self.dim = elmo.dim
        self.is_cached = is_cached
        self.max_bytes, self.folder = max_bytes, folder
        self._blocks: list[Half] = []
        self._rows_of: dict[tuple[str, ...], _Rows] = {}
        self._used = 0

    @property
    def num_sentences(self) -> int:
        """Distinct sentences whose layers are kept."""
        return len(self._rows_of)

    @property
    def is_on_disk(self) -> bool:
        """Whether some of the layers did not fit into memory."""
        return any(isinstance(block, np.memmap) for block in self._blocks)

    def prepare(self, sentences: Iterable[Tokens]) -> None:
        """Compute the layers of all sentences that are not there yet."""
        if not self.is_cached:
            return
        distinct = dict.fromkeys(map(tuple, sentences))
        missing = [s for s in distinct if s not in self._rows_of]
        if not missing:
            return
        block = self._new_block(sum(map(len, missing)))
        start = 0
        for sentence, vectors in zip(missing, self._computed(missing), strict=True):
            block[start : start + len(sentence)] = vectors
            self._rows_of[sentence] = _Rows(len(self._blocks), start)
            start += len(sentence)
        self._blocks.append(block)

    def layers(self, sentences: Sequence[Tokens]) -> Tensor:
        """The layers of a batch, (L, B, T, D), zero where the shorter sentences end."""
        keys = list(map(tuple, sentences))
        self.prepare(keys)
        distinct = list(dict.fromkeys(keys))
        found = map(self._kept, distinct) if self.is_cached else self._computed(distinct)
        layers_of = dict(zip(distinct, found, strict=True))
        longest = max(map(len, keys), default=0)
        batch = np.zeros((len(keys), longest, self.num_layers, self.dim), np.float32)
        for row, key in zip(batch, keys, strict=True):
            row[: len(key)] = layers_of[key]
        return torch.from_numpy(batch).permute(2, 0, 1, 3).to(self.elmo.device)

    def _kept(self, sentence: tuple[str, ...]) -> Half:
        block, start = self._rows_of[sentence]
        return self._blocks[block][start : start + len(sentence)]

    def _computed(self, sentences: Sequence[tuple[str, ...]]) -> Iterator[Half]:
        """The layers of each sentence, (T, L, D), in float16."""
        for window in grouped(sentences, len, max_items=1 << 14, max_size=AT_ONCE):
            vectors = self.elmo.embed(
                [list(s) for s in window], layers=self.wanted, show_progress_bar=False
            )
            for v in vectors:
                yield np.moveaxis(v.reshape(self.num_layers, -1, self.dim), 0, 1).astype(np.float16)

    def _new_block(self, num_tokens: int) -> Half:
        shape = (num_tokens, self.num_layers, self.dim)
        num_bytes = 2 * num_tokens * self.num_layers * self.dim
        if self._used + num_bytes <= self.max_bytes or not num_bytes:
            self._used += num_bytes
            return np.empty(shape, np.float16)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        # Without a name from the start: it goes with the last array that reads it.
        with tempfile.TemporaryFile(prefix="elmokit-", dir=self.folder) as file:
            return np.memmap(file, np.float16, "w+", shape=shape)


class TunedLayers:
    """The layers of a biLM that is trained with the task, with their gradients."""

    def __init__(self, elmo: Elmo, layers: str = "mix") -> None:
        self.elmo = elmo
        self.wanted = chosen_layers(layers, elmo.num_layers)
        self.num_layers = elmo.num_layers if self.wanted == "all" else 1
        self.dim = elmo.dim

    def prepare(self, sentences: Iterable[Tokens]) -> None:
        """Nothing can be computed in advance."""

    def layers(self, sentences: Sequence[Tokens]) -> Tensor:
        """The layers of a batch, (L, B, T, D), zero where the shorter sentences end."""
        layers = self.elmo([list(s) for s in sentences]).layers
        weights = layer_weights(self.wanted, self.elmo.num_layers).to(layers)
        chosen: Tensor = torch.tensordot(weights, layers, dims=1)
        return chosen


def chosen_layers(layers: str, num_layers: int) -> Layers:
    """What `Elmo.embed` calls the layers that a task asks for."""
    if layers == "mix":
        return "all"
    wanted: Layers = int(layers) if layers.isdigit() else layers
    layer_weights(wanted, num_layers)  # an error for a layer that there is not
    return wanted
