"""The biLM that a task reads: loaded, known again by its weights, its layers computed once.

A frozen biLM gives a sentence the same layers in every epoch. They are kept in float16, in memory
up to a bound, beyond it in a file on disk that the system maps into memory.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

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
MAX_COMPUTED_TOKENS = 1 << 15
"""Tokens whose layers are in memory while the rest goes to disk."""


def load_bilm(
    source: str | Path | Elmo, *, tokenizer: str | None = None, device: str | None = None
) -> Elmo:
    """The model at `source`, frozen, or a loaded model itself.

    It is an error if a task run cannot use the model, or not record it.
    """
    elmo = source
    if not isinstance(elmo, Elmo):
        elmo = Elmo.from_pretrained(elmo, tokenizer=tokenizer, device=device)
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
    if chosen_layers(elmo.layers, layers.elmo.num_layers) != layers.chosen:
        raise ConfigError(f"layers: made for {layers.chosen!r}, not for elmo.layers={elmo.layers}")


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


class LayerSource:
    """Where a task model gets the layers of the biLM from.

    Args:
        elmo: The biLM.
        layers: `mix` gives all layers; `top`, `average` or a number only that one.
    """

    def __init__(self, elmo: Elmo, layers: str = "mix") -> None:
        self.elmo = elmo
        self.chosen = chosen_layers(layers, elmo.num_layers)
        self.num_layers = elmo.num_layers if self.chosen == "all" else 1
        self.dim = elmo.dim

    def prepare(self, sentences: Iterable[Tokens]) -> None:
        """Compute what can be computed in advance; by default nothing."""

    def layers(self, sentences: Sequence[Tokens]) -> Tensor:
        """The layers of a batch, (L, B, T, D), zero where the shorter sentences end."""
        raise NotImplementedError


class FrozenLayers(LayerSource):
    """The layers of a frozen biLM, each sentence computed once. Several runs can share them.

    Args:
        elmo: The biLM; its weights must not change any more.
        layers: As for `LayerSource`.
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
        super().__init__(elmo, layers)
        self.is_cached = is_cached
        self.max_bytes, self.folder = max_bytes, folder
        self._blocks: list[Half] = []
        self._layers_of: dict[tuple[str, ...], Half] = {}  # views of the blocks
        self._used = 0

    @property
    def num_sentences(self) -> int:
        """Distinct sentences whose layers are kept."""
        return len(self._layers_of)

    @property
    def is_on_disk(self) -> bool:
        """Whether some of the layers did not fit into memory."""
        return any(isinstance(block, np.memmap) for block in self._blocks)

    def prepare(self, sentences: Iterable[Tokens]) -> None:
        """Compute the layers of all sentences that are not there yet, if they are kept."""
        if not self.is_cached:
            return
        distinct = dict.fromkeys(map(tuple, sentences))
        missing = [s for s in distinct if s not in self._layers_of]
        if not missing:
            return
        self._blocks.append(self._new_block(sum(map(len, missing))))
        block = np.asarray(self._blocks[-1])  # slices of a memmap are large objects
        start = 0
        for sentence, vectors in zip(missing, self._computed(missing), strict=True):
            self._layers_of[sentence] = block[start : start + len(sentence)]
            self._layers_of[sentence][:] = vectors
            start += len(sentence)

    def layers(self, sentences: Sequence[Tokens]) -> Tensor:
        """The layers of a batch, (L, B, T, D), zero where the shorter sentences end."""
        keys = list(map(tuple, sentences))
        self.prepare(keys)
        distinct = list(dict.fromkeys(keys))
        layers_of = self._layers_of
        if not self.is_cached:
            layers_of = dict(zip(distinct, self._computed(distinct), strict=True))
        longest = max(map(len, keys), default=0)
        batch = np.zeros((len(keys), longest, self.num_layers, self.dim), np.float32)
        for row, key in zip(batch, keys, strict=True):
            row[: len(key)] = layers_of[key]
        return torch.from_numpy(batch).permute(2, 0, 1, 3).to(self.elmo.device)

    def _computed(self, sentences: Sequence[tuple[str, ...]]) -> Iterator[Half]:
        """The layers of each sentence, (T, L, D), in float16."""
        for window in grouped(sentences, len, max_items=1 << 14, max_size=MAX_COMPUTED_TOKENS):
            vectors = self.elmo.embed(
                [list(s) for s in window], layers=self.chosen, show_progress_bar=False
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


class TunedLayers(LayerSource):
    """The layers of a biLM that is trained with the task, with their gradients."""

    def layers(self, sentences: Sequence[Tokens]) -> Tensor:
        """The layers of a batch, (L, B, T, D), zero where the shorter sentences end."""
        layers = self.elmo([list(s) for s in sentences]).layers
        weights = layer_weights(self.chosen, self.elmo.num_layers).to(layers)
        weighted: Tensor = torch.tensordot(weights, layers, dims=1)
        return weighted


def chosen_layers(layers: str, num_layers: int) -> Layers:
    """What `Elmo.embed` calls the layers that a task asks for."""
    if layers == "mix":
        return "all"
    layer_weights(layers, num_layers)  # an error for a layer that there is not
    is_number = layers.removeprefix("-").isdigit()
    return int(layers) % num_layers if is_number else layers
