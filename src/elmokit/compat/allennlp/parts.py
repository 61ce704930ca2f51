"""The two halves of AllenNLP's biLM, which scripts reach for: token embedder and LSTMs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ...files.read import read_json
from ...formats.checkpoint import Rule
from ...nn import BiLm, BiLmState, TokenEncoder, TokenIds
from ...nn.bilm import DirectionalLm
from .ids import CharacterBatch, SpelledIndexer
from .load import load_bilm, local_file
from .names import Renamed, encoder_rules, lstm_rules


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
        self._options: Any = read_json(local_file(options_file, "options_file"))
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
        place = torch.full(batch.mask.shape, len(batch.words))
        mask = torch.from_numpy(batch.mask)
        place[mask] = torch.from_numpy(batch.index)
        return {"token_embedding": x[place.to(x.device)], "mask": mask.to(x.device)}


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


def wants_gradient(*modules: nn.Module) -> bool:
    """Whether a gradient has to reach some parameter of the modules."""
    parameters = (
        p
        for module in modules
        for m in module.modules()
        # Replicas of nn.DataParallel keep theirs elsewhere.
        for p in (*m._parameters.values(), *getattr(m, "_former_parameters", {}).values())
    )
    return torch.is_grad_enabled() and any(p is not None and p.requires_grad for p in parameters)
