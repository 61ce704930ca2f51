"""The biLM over tensors of character ids: AllenNLP's `_ElmoBiLm`."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from ...engine import Embedder, Engine, Request, padded
from ...nn import BiLm, BiLmState
from .ids import CharacterBatch, SpelledIndexer, batch_to_ids
from .load import load_bilm
from .parts import ElmoCharacterEncoder, ElmoLstm, wants_gradient

log = logging.getLogger(__name__)

CACHE_WORDS = 50_000
"""Words whose token vectors are remembered while the biLM does not change."""


class Activations(TypedDict):
    """What AllenNLP's biLM returns: all layers (B, T + 2, D) with the boundaries, and the mask."""

    activations: list[Tensor]
    mask: Tensor


class ElmoBiLm(nn.Module):
    """A biLM that reads character ids and carries its LSTM state from call to call.

    Parameters and state dicts have AllenNLP's names, so a model that was trained with AllenNLP
    can be loaded. `named_parameters()` alone shows the two matrices of a highway layer apart.

    Args:
        options_file: The `options.json`.
        weight_file: The HDF5 weights.
        requires_grad: Whether the biLM is trained.
        vocab_to_cache: The words behind the ids of `word_inputs`, where a script passes these.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        bilm = load_bilm(options_file, weight_file, requires_grad)
        self._token_embedder = ElmoCharacterEncoder(options_file, weight_file, bilm=bilm)
        self._elmo_lstm = ElmoLstm(bilm)
        self._requires_grad = requires_grad
        self._embedder = _embedder(bilm)
        self.num_layers = bilm.config.num_layers
        self._spelling: Tensor | None
        self.register_buffer("_spelling", None, persistent=False)
        if vocab_to_cache is not None:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Take `word_inputs` as places in `tokens`; the first one is padding."""
        spelling = batch_to_ids([list(tokens)])[0].to(torch.int16)
        spelling[:1] = 0
        self._spelling = spelling.to(self._elmo_lstm.forward_lm.layers[0].bias.device)

    def get_output_dim(self) -> int:
        """Width of each vector, both directions together."""
        return 2 * self._elmo_lstm.hidden_size

    def reset_states(self) -> None:
        """Start the next batch from zeros."""
        self._elmo_lstm.reset_states()

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Activations:
        """All layers of a batch, with gradients where the biLM is trained."""
        bilm, batch = self._bilm(), self._batch(inputs, word_inputs)
        gradient = wants_gradient(bilm)
        # The carried state outlives the call, also one that is made under inference_mode.
        with torch.inference_mode(False), torch.set_grad_enabled(gradient):
            run = self._run_with_gradients if gradient else self._run
            layers, mask, after = run(batch)
            self._elmo_lstm.finish(after)
        return {"activations": list(layers), "mask": mask}

    def _run_with_gradients(self, batch: CharacterBatch) -> tuple[Tensor, Tensor, BiLmState]:
        ids = self._embedder.ids(batch.words)
        state = self._elmo_lstm.start(len(batch.mask), like=self._parameter())
        engine = self._embedder.engine
        vectors, after = engine.run_with_gradients(ids, batch.index, batch.lengths, state)
        return self._padded(vectors, batch, after)

    def _run(self, batch: CharacterBatch) -> tuple[Tensor, Tensor, BiLmState]:
        x = self._embedder.token_vectors(batch.words)
        request = Request(torch.eye(self.num_layers), with_state=True, boundaries=True)
        state = self._elmo_lstm.start(len(batch.mask), like=x)
        engine = self._embedder.engine
        vectors, after = engine.run(x, batch.index, batch.lengths, request, state)
        return self._padded(vectors, batch, after)

    def _padded(
        self, vectors: Tensor, batch: CharacterBatch, after: BiLmState
    ) -> tuple[Tensor, Tensor, BiLmState]:
        mask = torch.from_numpy(batch.mask).to(vectors.device)
        return padded(vectors, mask), mask, after

    def _parameter(self) -> Tensor:
        return self._elmo_lstm.forward_lm.layers[0].bias.detach()

    def _bilm(self) -> BiLm:
        """Both halves as the model that computes."""
        bilm, lstm = self._embedder.engine.bilm, self._elmo_lstm
        if bilm.forward_lm is not lstm.forward_lm:  # a replica of nn.DataParallel
            bilm = bilm._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
            bilm.encoder = self._token_embedder.encoder
            bilm.forward_lm, bilm.backward_lm = lstm.forward_lm, lstm.backward_lm
            self._embedder = _embedder(bilm)
        return bilm

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A cached table is a copy of what the character CNN gives.
        state_dict.pop(f"{prefix}_word_embedding.weight", None)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _batch(self, inputs: Tensor, word_inputs: Tensor | None) -> CharacterBatch:
        if word_inputs is not None and self._spelling is None:
            log.warning("word ids were given to an Elmo without vocab_to_cache and are not used")
        elif word_inputs is not None and self._spelling is not None:
            known = (word_inputs >= 0) & (word_inputs < len(self._spelling))
            # With an id outside the vocabulary the characters count, as in AllenNLP.
            inputs = self._spelling[word_inputs] if bool(known.all()) else inputs
        return CharacterBatch.of(inputs)


def _embedder(bilm: BiLm) -> Embedder:
    return Embedder(Engine(bilm), SpelledIndexer(bilm.config.encoder), CACHE_WORDS)


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (…, B, T, D) of (…, B, T + 2, D), zero after each sentence, and their mask (B, T)."""
    # The first place goes, and the last of each sentence becomes padding.
    mask = mask[:, 2:].bool()
    return tensor[..., 1:-1, :] * mask[..., None], mask
