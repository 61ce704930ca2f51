"""A sequence-to-sequence model: a biLSTM reads, an LSTM with attention writes, and may copy.

    h = biLSTM(x)                                          the encoder
    s_t = LSTM([E y_{t-1}; ã_{t-1}], s_{t-1})              the decoder, with input feeding
    a_t = softmax_k(s_tᵀ W_a h_k),  c_t = Σ_k a_{tk} h_k   attention (Luong et al. 2015, "general")
    ã_t = tanh(W_c [c_t; s_t])
    P_vocabulary(y_t) = softmax(E ã_t + b)                 tied embeddings

With a pointer (See et al. 2017, eq. 8 and 9), which copies units of the source:

    p_t = σ(w·[c_t; s_t; E y_{t-1}] + b')
    P(y_t) = p_t P_vocabulary(y_t) + (1 - p_t) Σ_{k: x_k = y_t} a_{tk}

Shapes: B sources, S source units, T target units, N hypotheses, V units, X width of the input,
E of an embedding, H of a state, L layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from ...nn.shapes import Bool, Float, Int
from .encoders import BiLstm


@dataclass(frozen=True, slots=True)
class Memory:
    """What the decoder attends to.

    Attributes:
        h: The states of the encoder.
        keys: W_a h.
        mask: True for real units.
        units: The units of the source, which a pointer can copy.
    """

    h: Float[Tensor, "N S H"]
    keys: Float[Tensor, "N S H"]
    mask: Bool[Tensor, "N S"]
    units: Int[Tensor, "N S"]


@dataclass(frozen=True, slots=True)
class DecoderState:
    """What the decoder remembers after a unit: s and c of each layer, and ã."""

    memory: Memory
    s: Float[Tensor, "L N H"]
    c: Float[Tensor, "L N H"]
    fed: Float[Tensor, "N E"]

    def select(self, rows: Int[Tensor, " M"]) -> Self:
        """The state of these hypotheses, in this order."""
        memory = self.memory
        chosen = Memory(memory.h[rows], memory.keys[rows], memory.mask[rows], memory.units[rows])
        return replace(
            self, memory=chosen, s=self.s[:, rows], c=self.c[:, rows], fed=self.fed[rows]
        )


@dataclass(frozen=True, slots=True)
class DecoderOutput:
    """What the decoder says at a position: ã, the attention, and how far it is from copying."""

    attentional: Float[Tensor, "*N E"]
    attention: Float[Tensor, "*N S"]
    gate: Float[Tensor, "*N"] | None


class Seq2Seq(nn.Module):
    """Encoder, attention decoder and, if wanted, a pointer.

    Args:
        input_dim: X.
        num_units: V.
        embed_dim: E.
        dim: H; each direction of the encoder has half of it.
        num_layers: Of the encoder, and of the decoder.
        dropout: Of what each layer reads and of ã.
        word_dropout: Share of the previous units that the decoder does not see, in training.
        never: Units that are not predicted.
        has_pointer: Whether it copies; then source and target have the same units.
    """

    never: Tensor

    def __init__(
        self,
        input_dim: int,
        num_units: int,
        *,
        embed_dim: int,
        dim: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        never: Sequence[int] = (),
        has_pointer: bool = False,
    ) -> None:
        super().__init__()
        self.word_dropout = word_dropout
        self.embedding = nn.Embedding(num_units, embed_dim)
        nn.init.normal_(self.embedding.weight, std=embed_dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.encoder = BiLstm(input_dim, dim // 2, num_layers, dropout)
        self.start_s = nn.Linear(dim, num_layers * dim)
        widths = [2 * embed_dim, *[dim] * (num_layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(width, dim) for width in widths)
        for cell in self.cells:
            _start(cell)
        self.keys = nn.Linear(dim, dim, bias=False)
        self.combine = nn.Linear(2 * dim, embed_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(num_units))
        self.pointer = nn.Linear(2 * dim + embed_dim, 1) if has_pointer else None
        self.register_buffer("never", torch.zeros(num_units, dtype=torch.bool), persistent=False)
        self.never[list(never)] = True

    __call__: Callable[..., Tensor]

    def forward(
        self,
        x: Float[Tensor, "B S X"],
        mask: Bool[Tensor, "B S"],
        units: Int[Tensor, "B S"],
        previous: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B T V"]:
        """The log probabilities of each unit of the targets, given those before it.

        Args:
            x: What the encoder reads.
            mask: True for real source units.
            units: The source units.
            previous: BOS and the target units but the last.
        """
        state = self.encode(x, mask, units)
        return self.log_probabilities(self.decode(state, previous), state.memory)

    def encode(
        self, x: Float[Tensor, "B S X"], mask: Bool[Tensor, "B S"], units: Int[Tensor, "B S"]
    ) -> DecoderState:
        """The state before the first unit: s is made of the mean of h, and ã is zero."""
        h = self.dropout(self.encoder(self.dropout(x), mask))
        mean = h.sum(dim=1) / mask.sum(dim=1, keepdim=True)
        s = torch.stack(torch.tanh(self.start_s(mean)).chunk(len(self.cells), dim=-1))
        fed = h.new_zeros(len(h), self.embedding.embedding_dim)
        return DecoderState(Memory(h, self.keys(h), mask, units), s, torch.zeros_like(s), fed)

    def decode(self, state: DecoderState, previous: Int[Tensor, "B T"]) -> DecoderOutput:
        """What the decoder says at every position of given targets."""
        y = self._embedded(previous)
        outputs = []
        for t in range(previous.shape[1]):
            output, state = self._advance(y[:, t], state)
            outputs.append(output)
        gates = [output.gate for output in outputs if output.gate is not None]
        return DecoderOutput(
            torch.stack([output.attentional for output in outputs], dim=1),
            torch.stack([output.attention for output in outputs], dim=1),
            torch.stack(gates, dim=1) if gates else None,
        )

    def step(
        self, last: Int[Tensor, " N"], state: DecoderState
    ) -> tuple[Float[Tensor, "N V"], DecoderState]:
        """The log probabilities of the next unit: what a search asks for."""
        output, state = self._advance(self._embedded(last[:, None])[:, 0], state)
        at_once = DecoderOutput(
            output.attentional[:, None],
            output.attention[:, None],
            None if output.gate is None else output.gate[:, None],
        )
        return self.log_probabilities(at_once, state.memory)[:, 0], state

    def log_probabilities(self, output: DecoderOutput, memory: Memory) -> Float[Tensor, "B T V"]:
        """log P(y_t) of all units."""
        logits = output.attentional @ self.embedding.weight.t() + self.bias
        log_p = logits.masked_fill(self.never, -torch.inf).log_softmax(dim=-1)
        if output.gate is None:
            return log_p
        positions = memory.units[:, None, :].expand_as(output.attention)
        copied = torch.zeros_like(log_p).scatter_add(2, positions, output.attention)
        # log 0 has no gradient; what cannot be copied has a probability that changes nothing.
        log_copied = copied.clamp_min(torch.finfo(copied.dtype).tiny).log()
        gate = output.gate[..., None]
        log_sigmoid = nn.functional.logsigmoid
        # The units that are never predicted have a place in neither half.
        mixed = torch.logaddexp(
            log_p.masked_fill(self.never, torch.finfo(log_p.dtype).min / 2) + log_sigmoid(gate),
            log_copied + log_sigmoid(-gate),
        )
        return mixed.masked_fill(self.never, -torch.inf)

    def _embedded(self, units: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
        y: Tensor = self.dropout(
            drop_units(self.embedding(units), self.word_dropout, self.training)
        )
        return y

    def _advance(
        self, y: Float[Tensor, "N E"], state: DecoderState
    ) -> tuple[DecoderOutput, DecoderState]:
        """One step of the decoder, from the embedding of the unit before."""
        memory = state.memory
        x = torch.cat([y, state.fed], dim=-1)
        s, c = [], []
        for i, cell in enumerate(self.cells):
            states = cell(self.dropout(x) if i else x, (state.s[i], state.c[i]))
            x = states[0]
            s.append(states[0])
            c.append(states[1])
        scores = torch.einsum("nsh,nh->ns", memory.keys, x).masked_fill(~memory.mask, -torch.inf)
        attention = scores.softmax(dim=-1)
        context = torch.einsum("ns,nsh->nh", attention, memory.h)
        attentional = self.dropout(torch.tanh(self.combine(torch.cat([context, x], dim=-1))))
        gate = None
        if self.pointer is not None:
            gate = self.pointer(torch.cat([context, x, y], dim=-1)).squeeze(-1)
        following = replace(state, s=torch.stack(s), c=torch.stack(c), fed=attentional)
        return DecoderOutput(attentional, attention, gate), following


def smoothed_loss(
    log_p: Float[Tensor, "B T V"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The mean cross-entropy of the real target units, a part of it against all possible units."""
    picked = log_p.gather(2, targets[..., None]).squeeze(-1)
    loss = -picked[mask].mean()
    if not smoothing:
        return loss
    is_possible = log_p > -torch.inf
    # Zeros in place of -inf, whose product with a gradient of 0 would be NaN.
    uniform = torch.where(is_possible, log_p, 0.0).sum(dim=-1) / is_possible.sum(dim=-1)
    return (1 - smoothing) * loss - smoothing * uniform[mask].mean()


def drop_units(
    x: Float[Tensor, "B T E"], probability: float, is_training: bool
) -> Float[Tensor, "B T E"]:
    """Whole embeddings set to zero at random, while training (word dropout)."""
    if not is_training or not probability:
        return x
    return x * nn.functional.dropout(torch.ones_like(x[..., :1]), probability)


def _start(cell: nn.Module) -> None:
    """Orthogonal recurrences, scaled inputs, no biases but an open forget gate."""
    assert isinstance(cell, nn.LSTMCell)
    for gate in cell.weight_hh.data.chunk(4):
        nn.init.orthogonal_(gate)
    nn.init.xavier_uniform_(cell.weight_ih.data)
    nn.init.zeros_(cell.bias_hh.data)
    nn.init.zeros_(cell.bias_ih.data)
    nn.init.ones_(cell.bias_ih.data.chunk(4)[1])
