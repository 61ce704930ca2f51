"""The biLM over tensors of character ids: AllenNLP's `_ElmoBiLm`."""

import logging
from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from ...engine import CarriedStates, Embedder, Engine, Request, StartStates, ZeroStates
from ...errors import InputError
from ...io.names import to_theirs
from ...nn import BiLm, BiLmState
from .ids import CharacterBatch, SpelledIndexer, batch_to_ids
from .names import rules

log = logging.getLogger(__name__)

CACHE_WORDS = 50_000
"""Words whose token vectors are remembered while the biLM does not change."""


class Activations(TypedDict):
    """What AllenNLP's biLM returns: all layers (B, T + 2, D) with the boundaries, and the mask."""

    activations: list[Tensor]
    mask: Tensor


class ElmoBiLm(nn.Module):
    """An `nn.BiLm` that reads character ids and carries its LSTM state from call to call.

    State dicts have AllenNLP's names, so a model that was trained with AllenNLP can be loaded.

    Args:
        bilm: The language models.
        vocab_to_cache: The words behind the ids of `word_inputs`, where a script passes these.
    """

    def __init__(self, bilm: BiLm, vocab_to_cache: Sequence[str] | None = None) -> None:
        super().__init__()
        self.bilm = bilm
        self.stateful = True
        self._embedder = _embedder(bilm)
        self._carried: CarriedStates | None = None
        spelling = None
        if vocab_to_cache is not None:
            spelling = batch_to_ids([list(vocab_to_cache)])[0].to(torch.int16)
            spelling[:1] = 0  # word 0 is padding
        self.register_buffer("_spelling", spelling, persistent=False)
        self._spelling: Tensor | None

    @property
    def num_layers(self) -> int:
        """Layers of a token, the context-free one included."""
        return self.bilm.config.num_layers

    @property
    def _elmo_lstm(self) -> "ElmoBiLm":
        # Scripts reach for elmo._elmo_lstm._elmo_lstm to call reset_states or unset stateful.
        return self

    def get_output_dim(self) -> int:
        """Width of each vector, both directions together."""
        return self.bilm.config.dim

    def reset_states(self) -> None:
        """Start the next batch from zeros."""
        self._carried = None

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Activations:
        """All layers of a batch: by the plain `nn.BiLm` where it is trained, else by the engine."""
        batch, gradient = self._batch(inputs, word_inputs), self._wants_gradient()
        rows = range(len(batch.lengths))
        # The carried state outlives the call, also one that is made under inference_mode.
        with torch.inference_mode(False), torch.set_grad_enabled(gradient):
            x = self._encode(batch.words)
            mask = torch.from_numpy(batch.mask).to(x.device)
            states = self._states(x)
            run = self._run_plain if gradient or not rows else self._run_packed
            layers, after = run(x, batch, mask, states.start(rows))
            states.finish(rows, after)
        return {"activations": list(layers), "mask": mask}

    def _run_plain(
        self, x: Tensor, batch: CharacterBatch, mask: Tensor, state: BiLmState | None
    ) -> tuple[Tensor, BiLmState]:
        tokens = x[torch.from_numpy(batch.index).to(x.device)]
        padded = x.new_zeros(*mask.shape, x.shape[1]).masked_scatter(mask[..., None], tokens)
        output = self.bilm(padded, torch.from_numpy(batch.lengths).to(x.device), state)
        return output.layers, output.state

    def _run_packed(
        self, x: Tensor, batch: CharacterBatch, mask: Tensor, state: BiLmState | None
    ) -> tuple[Tensor, BiLmState]:
        request = Request(torch.eye(self.num_layers), with_state=True, boundaries=True)
        engine = self._embedder.engine
        vectors, after = engine.run(x, batch.index, batch.lengths, request, state)
        layers = x.new_zeros(self.num_layers, *mask.shape, self.get_output_dim())
        layers[:, mask] = vectors
        return layers, after

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        state = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        names = list(nn.Module.state_dict(self.bilm))
        ours = {name: state.pop(f"{prefix}bilm.{name}") for name in names}
        for name, tensor in to_theirs(rules(self.bilm.config), ours).items():
            state[prefix + name] = tensor
        return state

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A cached table is a copy of what the character CNN gives.
        state_dict.pop(f"{prefix}_word_embedding.weight", None)
        for rule in rules(self.bilm.config):
            theirs = [prefix + name for name in rule.theirs]
            if all(name in state_dict for name in theirs):
                ours = rule.to_ours(*(state_dict.pop(name) for name in theirs))
                state_dict.update((f"{prefix}bilm.{n}", t) for n, t in zip(rule.ours, ours))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _wants_gradient(self) -> bool:
        return torch.is_grad_enabled() and any(p.requires_grad for p in self.bilm.parameters())

    def _batch(self, inputs: Tensor, word_inputs: Tensor | None) -> CharacterBatch:
        if word_inputs is not None and self._spelling is None:
            log.warning("word ids were given to an Elmo without vocab_to_cache and are not used")
        elif word_inputs is not None and self._spelling is not None:
            known = (word_inputs >= 0) & (word_inputs < len(self._spelling))
            # With an id outside the vocabulary the characters count, as in AllenNLP.
            inputs = self._spelling[word_inputs] if bool(known.all()) else inputs
        if inputs.ndim != 3:
            raise InputError(
                f"inputs of shape {tuple(inputs.shape)}: expected character ids of shape "
                "(sentences, tokens, 50), as batch_to_ids makes them"
            )
        return CharacterBatch.of(inputs)

    def _encode(self, words: Sequence[str]) -> Tensor:
        """x_k of the distinct words."""
        if self._embedder.engine.bilm is not self.bilm:  # a replica of nn.DataParallel
            self._embedder = _embedder(self.bilm)
        if self._wants_gradient():
            x: Tensor = self.bilm.encoder(self._embedder.ids(words))
            return x
        return self._embedder.token_vectors(words)

    def _states(self, like: Tensor) -> StartStates:
        if not self.stateful:
            return ZeroStates()
        if self._carried is None:
            empty = BiLmState.zeros(self.bilm.config.lstm, 0, like=like.detach())
            self._carried = CarriedStates(empty)
        self._carried.state = BiLmState(*(part.to(like) for part in self._carried.state))
        return self._carried


def _embedder(bilm: BiLm) -> Embedder:
    return Embedder(Engine(bilm), SpelledIndexer(bilm.config.encoder), CACHE_WORDS)


def without_boundaries(vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (…, B, T, D) of (…, B, T + 2, D), zero after each sentence, and their mask (B, T)."""
    # The first place goes, and the last of each sentence becomes padding.
    mask = mask[:, 2:]
    return vectors[..., 1:-1, :] * mask[..., None], mask
