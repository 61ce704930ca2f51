"""The paper's objective: the log-likelihood of a text in both directions, θx and θs shared."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from ..corpus.batches import Batch
from ..nn import (
    BiLm,
    BiLmState,
    Highway,
    LstmState,
    Softmax,
    TokenIds,
    sampled_softmax_loss,
    softmax_loss,
)
from . import native_softmax
from .config import TrainEngine
from .native_linear import linear
from .recurrence import recur
from .sampler import Samples
from .spelling import pooled_filters


class Losses(NamedTuple):
    """-log p of all targets, forward and backward, and the LSTM states after the batch."""

    sums: Tensor
    state: BiLmState


class Objective(nn.Module):
    """-Σ log p of a batch: what training makes small, and what evaluation reports.

    Args:
        bilm: The language models.
        softmax: Their softmax.
        dropout: Of each layer's input and of the softmax's, in training.
        engine: `plain` to compute with `nn` as it is written, `auto` for the same numbers, fast.
    """

    def __init__(
        self,
        bilm: BiLm,
        softmax: Softmax,
        dropout: float = 0.0,
        engine: TrainEngine = "auto",
    ) -> None:
        super().__init__()
        self.bilm, self.softmax, self.dropout, self.engine = bilm, softmax, dropout, engine

    def forward(
        self,
        words: TokenIds,
        inputs: Tensor,
        targets: Tensor,
        state: BiLmState | None = None,
        samples: tuple[Tensor, Tensor] | None = None,
        generator: torch.Generator | None = None,
    ) -> Losses:
        """The losses of a batch.

        Args:
            words: The distinct words of the batch.
            inputs: (2, T, B) rows of `words`, each direction in its own order of time.
            targets: (2, T, B) rows of the softmax.
            state: Where the LSTMs start; None for zeros.
            samples: Words of the sampled softmax and the log of all expected counts; None for
                the full sum.
            generator: Source of the dropout.
        """
        x = self.encode(words)
        if state is None:
            state = BiLmState.zeros(self.bilm.config.lstm, inputs.shape[2], like=x)
        streams = [self._drop(embedding(rows, x), generator) for rows in inputs]
        starts = [
            [LstmState(h, c) for h, c in zip(state.h[d], state.c[d], strict=True)] for d in range(2)
        ]
        drop = partial(self._drop, generator=generator)
        read = self._read_plain if self.engine == "plain" else self._read
        tops, ends = read(streams, starts, drop)
        sums = self._losses(tops, targets, samples)
        h = torch.stack([torch.stack([layer.h for layer in layers]) for layers in ends])
        c = torch.stack([torch.stack([layer.c for layer in layers]) for layers in ends])
        return Losses(sums, BiLmState(h, c))

    def _read(
        self, streams: list[Tensor], starts: list[list[LstmState]], drop: Callable[[Tensor], Tensor]
    ) -> tuple[list[Tensor], list[list[LstmState]]]:
        """The top layer of each direction, (T, B, P), and the states of its layers at the end."""
        ends: list[list[LstmState]] = [[] for _ in streams]
        stacks = (self.bilm.forward_lm, self.bilm.backward_lm)
        for j in range(self.bilm.config.lstm.num_layers):
            layers = [stack.layers[j] for stack in stacks]
            outputs, after = recur(layers, streams, [states[j] for states in starts])
            for states, new in zip(ends, after, strict=True):
                states.append(new)
            if j > 0 and self.bilm.config.lstm.skip_connections:
                outputs = [y + x for y, x in zip(outputs, streams, strict=True)]
            streams = [drop(y) for y in outputs]
        return streams, ends

    def _read_plain(
        self, streams: list[Tensor], starts: list[list[LstmState]], drop: Callable[[Tensor], Tensor]
    ) -> tuple[list[Tensor], list[list[LstmState]]]:
        """`_read` by `nn.DirectionalLm` itself."""
        tops, ends = [], []
        stacks = (self.bilm.forward_lm, self.bilm.backward_lm)
        for stack, stream, states in zip(stacks, streams, starts, strict=True):
            x = stream.transpose(0, 1)
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
            outputs, after = stack(x, mask, states, drop)
            tops.append(outputs[-1].transpose(0, 1))
            ends.append([LstmState(h.detach(), c.detach()) for h, c in after])
        return tops, ends

    def encode(self, words: TokenIds) -> Tensor:
        """x_k of each word: `TokenEncoder.forward` with the filters by tables."""
        encoder = self.bilm.encoder
        if self.engine == "plain":
            x: Tensor = encoder(words)
            return x
        parts = []
        if encoder.words is not None:
            parts.append(encoder.words(words.words))
        if (cnn := encoder.char_cnn) is not None:
            assert words.characters is not None
            x = cnn.activation(pooled_filters(cnn, words.characters))
            for highway in cnn.highways:
                assert isinstance(highway, Highway)
                x = _highway(highway, x)
            parts.append(x)
        x = torch.cat(parts, dim=-1)
        if encoder.projection is None:
            return x
        return linear(x, encoder.projection.weight, encoder.projection.bias)

    def _losses(
        self, streams: list[Tensor], targets: Tensor, samples: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        weight, bias = self.softmax.weight, self.softmax.bias
        streams = [h.flatten(0, 1) for h in streams]
        is_native = self.engine != "plain" and native_softmax.available(streams[0])
        if samples is not None and torch.is_grad_enabled() and is_native:
            return native_softmax.sampled_softmax_losses(
                streams, targets.flatten(1), weight, bias, native_softmax.Sampled(*samples)
            )
        sums = []
        for h, words in zip(streams, targets.flatten(1), strict=True):
            if samples is None:
                sums.append(softmax_loss(h, words, weight, bias))
            else:
                sums.append(sampled_softmax_loss(h, words, weight, bias, *samples))
        return torch.stack(sums)

    def _drop(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        """Dropout whose noise comes from our own generator, so that a run can be repeated."""
        if not self.training or self.dropout == 0:
            return x
        kept = 1 - self.dropout
        mask = torch.empty_like(x).bernoulli_(kept, generator=generator)
        return x * mask.div_(kept)


def _highway(highway: Highway, x: Tensor) -> Tensor:
    """`Highway.forward` with both its products in one."""
    transform, carry = highway.transform, highway.carry
    weight = torch.cat([transform.weight, carry.weight])
    products = linear(x, weight, torch.cat([transform.bias, carry.bias]))
    y, gate = products.chunk(2, dim=1)
    gate = torch.sigmoid(gate)
    return gate * torch.relu(y) + (1 - gate) * x


class TensorBatch(NamedTuple):
    """A batch as the objective takes it."""

    words: TokenIds
    inputs: Tensor
    targets: Tensor


class BatchReader:
    """Word ids of a corpus → tensors on the device: each distinct word once.

    Args:
        characters: Character ids of every word of the corpus; None for a model without them.
        words: Its row in the word table; None for a model without one.
        rows: Its row of the softmax.
        device: Where the model is.
    """

    def __init__(
        self,
        characters: NDArray[np.integer] | None,
        words: NDArray[np.integer] | None,
        rows: NDArray[np.int64],
        device: torch.device,
    ) -> None:
        self.characters, self.words, self.rows, self.device = characters, words, rows, device

    def __call__(self, batch: Batch) -> TensorBatch:
        """The tensors of a batch."""
        distinct, index = np.unique(batch.inputs, return_inverse=True)
        return TensorBatch(
            self.token_ids(distinct),
            self._tensor(index.reshape(batch.inputs.shape)),
            self._tensor(self.rows[batch.targets]),
        )

    def token_ids(self, words: NDArray[np.integer]) -> TokenIds:
        """What the token encoder reads of some words of the corpus."""
        return TokenIds(
            None if self.characters is None else self._tensor(self.characters[words]),
            None if self.words is None else self._tensor(self.words[words]),
        )

    def samples(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Sampled words on the device."""
        return self._tensor(samples.words), torch.from_numpy(samples.log_expected).to(self.device)

    def _tensor(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.device)
