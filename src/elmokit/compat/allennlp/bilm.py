"""The biLM over tensors of character ids: AllenNLP's `_ElmoBiLm` and its two halves.

Scripts reach for the halves, too: the token embedder (`_ElmoCharacterEncoder`) and the LSTMs.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from ...engine import Embedder, Engine, Request, padded
from ...errors import ConfigError, FileError
from ...files.read import read_json
from ...formats.catalogue.install import local_copy
from ...formats.checkpoint import Rule
from ...formats.official import read_official
from ...model import Elmo as Model
from ...model import Execution
from ...nn import BiLm, BiLmState, TokenEncoder, TokenIds
from ...nn.bilm import DirectionalLm
from .ids import CharacterBatch, SpelledIndexer, batch_to_ids
from .names import Renamed, encoder_rules, lstm_rules

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
    can be loaded. `named_parameters()` alone shows the two matrices of a highway layer separately.

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
        """Take `word_inputs` as positions in `tokens`; the first one is padding."""
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
        gradient = _wants_gradient(bilm)
        # The carried state outlives the call, also one that is made under inference_mode.
        with torch.inference_mode(False), torch.set_grad_enabled(gradient):
            embedder, lstm = self._embedder, self._elmo_lstm
            if gradient:
                ids = embedder.ids(batch.words)
                state = lstm.start(len(batch.mask), like=lstm.forward_lm.layers[0].bias)
                vectors, after = embedder.engine.run_with_gradients(
                    ids, batch.index, batch.lengths, state
                )
            else:
                x = embedder.token_vectors(batch.words)
                state = lstm.start(len(batch.mask), like=x)
                request = Request(torch.eye(self.num_layers), with_state=True, boundaries=True)
                vectors, after = embedder.engine.run(x, batch.index, batch.lengths, request, state)
            mask = torch.from_numpy(batch.mask).to(vectors.device)
            layers = padded(vectors, mask)
            lstm.finish(after)
        return {"activations": list(layers), "mask": mask}

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
    # The first position goes, and the last of each sentence becomes padding.
    mask = mask[:, 2:].bool()
    return tensor[..., 1:-1, :] * mask[..., None], mask


class TokenOutput(TypedDict):
    """Token vectors (B, T + 2, P) with the boundaries, and the mask (B, T + 2)."""

    token_embedding: Tensor
    mask: Tensor


class ElmoCharacterEncoder(Renamed):
    """AllenNLP's `_ElmoCharacterEncoder`: character ids → context-free token vectors.

    Args:
        options_file: The `options.json`.
        weight_file: The HDF5 weights.
        requires_grad: Whether it is trained.
        bilm: The biLM of these files, where it has been loaded already.
    """

    encoder: TokenEncoder

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        requires_grad: bool = False,
        *,
        bilm: BiLm | None = None,
    ) -> None:
        super().__init__()
        bilm = bilm or load_bilm(options_file, weight_file, requires_grad)
        self._options: Any = read_json(_local_file(options_file, "options_file"))
        self._weight_file = weight_file
        self.config = bilm.config
        self.output_dim = bilm.config.lstm.projection_dim
        self._indexer = SpelledIndexer(bilm.config.encoder)
        self.hold(encoder=bilm.encoder)

    def rules(self) -> Iterator[Rule]:
        return encoder_rules(self.config)

    def get_output_dim(self) -> int:
        """Width of a token vector: half of a layer's."""
        return self.output_dim

    def forward(self, inputs: Tensor) -> TokenOutput:
        """The token vectors of character ids (B, T, 50); padding is spelled by zeros."""
        batch = CharacterBatch.of(inputs)
        ids = torch.from_numpy(self._indexer(batch.words)[0])
        ids = torch.cat([ids, ids.new_zeros(1, ids.shape[1])])
        assert self.encoder.char_cnn is not None
        device = self.encoder.char_cnn.embedding.weight.device
        x: Tensor = self.encoder(TokenIds(ids.to(device), None))
        rows = torch.full(batch.mask.shape, len(batch.words))
        mask = torch.from_numpy(batch.mask)
        rows[mask] = torch.from_numpy(batch.index)
        return {"token_embedding": x[rows.to(x.device)], "mask": mask.to(x.device)}


class ElmoLstm(Renamed):
    """AllenNLP's `ElmoLstm`: the layers of both directions, and the state that they carry.

    Attributes:
        stateful: Whether a batch starts where the one before has stopped, row by row.
        _states: Where the last batch stopped: the outputs (layers, rows, 2P) and the cells
            (layers, rows, 2H), forward then backward; None before the first. May be replaced.
        input_size: Width of a token vector.
        hidden_size: Width of an output of one direction.
        cell_size: Width of a cell of one direction.
        num_layers: LSTM layers, without the context-free one.
    """

    forward_lm: DirectionalLm
    backward_lm: DirectionalLm

    def __init__(self, bilm: BiLm) -> None:
        super().__init__()
        lstm = bilm.config.lstm
        self.config = bilm.config
        self.input_size = self.hidden_size = lstm.projection_dim
        self.cell_size = lstm.dim
        self.num_layers = lstm.num_layers
        self.stateful = True
        self._states: tuple[Tensor, ...] | list[Tensor] | None = None
        self.hold(forward_lm=bilm.forward_lm, backward_lm=bilm.backward_lm)

    def rules(self) -> Iterator[Rule]:
        return lstm_rules(self.config)

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Start the next batch from zeros: all rows, or those that the mask (rows,) names."""
        if mask is None or self._states is None:
            self._states = None
            return
        kept = ~mask.bool()
        self._states = tuple(
            torch.cat([s[:, : len(kept)] * kept[None, :, None].to(s), s[:, len(kept) :]], dim=1)
            for s in self._states
        )

    def start(self, num_rows: int, like: Tensor) -> BiLmState:
        """The state that each row of the next batch starts from."""
        state = BiLmState.zeros(self.config.lstm, num_rows, like=like.detach())
        if self._states is not None:
            self._check_states(self._states)
            if self.stateful:
                for part, carried in zip(state, self._states):
                    rows = carried[:, :num_rows].detach().to(like)
                    part[:, :, : rows.shape[1]] = torch.stack(rows.chunk(2, dim=2))
        return state

    def finish(self, after: BiLmState) -> None:
        """Carry the state of a batch, and keep that of rows which the batch did not have."""
        parts = [part.detach().permute(1, 2, 0, 3).flatten(2) for part in after]
        if self._states is not None:
            kept = (carried[:, part.shape[1] :] for part, carried in zip(parts, self._states))
            parts = [torch.cat([p, k.detach().to(p)], dim=1) for p, k in zip(parts, kept)]
        self._states = tuple(parts)

    def _check_states(self, states: tuple[Tensor, ...] | list[Tensor]) -> None:
        widths = (2 * self.hidden_size, 2 * self.cell_size)
        shapes = [tuple(state.shape) for state in states]
        rows = shapes[0][1] if shapes and len(shapes[0]) == 3 else 0
        if shapes != [(self.num_layers, rows, width) for width in widths]:
            h, c = (f"({self.num_layers}, rows, {width})" for width in widths)
            raise ConfigError(f"_states of shapes {shapes}: expected {h} and {c}, or None")


def _wants_gradient(*modules: nn.Module) -> bool:
    """Whether a gradient has to reach some parameter of the modules."""
    parameters = (
        p
        for module in modules
        for m in module.modules()
        # Replicas of nn.DataParallel keep theirs elsewhere.
        for p in (*m._parameters.values(), *getattr(m, "_former_parameters", {}).values())
    )
    return torch.is_grad_enabled() and any(p is not None and p.requires_grad for p in parameters)


def load_bilm(
    options_file: str | Path | None, weight_file: str | Path | None, requires_grad: bool = False
) -> BiLm:
    """The biLM of two local files, with the forget bias inside its biases, as AllenNLP has it."""
    checkpoint = read_official(
        _local_file(options_file, "options_file"), _local_file(weight_file, "weight_file")
    )
    lstm = checkpoint.config.lstm
    for name in list(checkpoint.tensors):
        if re.fullmatch(r"bilm\.(?:for|back)ward_lm\.layers\.\d+\.bias", name):
            bias = checkpoint.tensors[name].clone()
            bias[lstm.dim : 2 * lstm.dim] += lstm.forget_bias
            checkpoint.tensors[name] = bias
    # It reads ids and keeps its states itself, so that no tokenizer has to be installed.
    checkpoint.config = replace(
        checkpoint.config, lstm=replace(lstm, forget_bias=0.0), tokenizer=None, state="zero"
    )
    return Model.from_checkpoint(
        checkpoint, Execution(device="cpu", requires_grad=requires_grad)
    ).bilm


def _local_file(file: str | Path | None, name: str) -> Path:
    """The path; the file at an address is downloaded once, as AllenNLP does."""
    if file is None:
        raise FileError(f"{name}=None: expected a file or its address")
    return local_copy(file)
