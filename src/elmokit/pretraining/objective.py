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
from ..engine import gradient
from ..engine.native import can_train
from ..engine.native_softmax import Sampled, sampled_softmax_losses
from ..nn import BiLm, BiLmState, Softmax, TokenIds, sampled_softmax_loss, softmax_loss
from .config import TrainEngine


class Losses(NamedTuple):
    """-log p of all targets, forward and backward, and the LSTM states after the batch."""

    sums: Tensor
    state: BiLmState


class Objective(nn.Module):
    """-Σ log p of a batch: what training makes small, and what evaluation reports.

    In training, the input of each layer and of the softmax has `dropout`. The engine `plain`
    computes with `nn` as it is written, `auto` the same numbers, fast.
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
        samples: Sampled | None = None,
        generator: torch.Generator | None = None,
    ) -> Losses:
        """The losses of a batch.

        Args:
            words: The distinct words of the batch.
            inputs: (2, T, B) rows of `words`, each direction in its own order of time.
            targets: (2, T, B) rows of the softmax.
            state: Where the LSTMs start; None for zeros.
            samples: Words of the sampled softmax; None for the full sum.
            generator: Draws the dropout.
        """
        x = self.encode(words)
        _, num_steps, num_rows = inputs.shape
        if state is None:
            state = BiLmState.zeros(self.bilm.config.lstm, num_rows, like=x)
        drop = partial(self._drop, generator=generator)
        streams = [drop(embedding(rows, x)) for rows in inputs]
        if self.engine == "plain":
            tops, after = self._read_plain(streams, state, drop)
        else:
            flat, counts = [stream.flatten(0, 1) for stream in streams], [num_rows] * num_steps
            outputs, after = gradient.run_layers(self.bilm, flat, counts, state, drop)
            tops = outputs[-1]
        return Losses(
            self._losses(tops, targets, samples), BiLmState(*(part.detach() for part in after))
        )

    def _read_plain(
        self, streams: list[Tensor], state: BiLmState, drop: Callable[[Tensor], Tensor]
    ) -> tuple[list[Tensor], BiLmState]:
        """The top layer of each direction, step by step, by `nn.DirectionalLm` itself."""
        tops, ends = [], []
        for d, stack in enumerate((self.bilm.forward_lm, self.bilm.backward_lm)):
            x = streams[d].transpose(0, 1)
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
            outputs, after = stack(x, mask, state.layers(d), drop)
            tops.append(outputs[-1].transpose(0, 1).flatten(0, 1))
            ends.append(after)
        return tops, BiLmState.of(ends)

    def encode(self, words: TokenIds) -> Tensor:
        """x_k of each word."""
        encoder = self.bilm.encoder
        x: Tensor
        x = encoder(words) if self.engine == "plain" else gradient.encode(encoder, words)
        return x

    def _losses(self, streams: list[Tensor], targets: Tensor, samples: Sampled | None) -> Tensor:
        """The sums of -log p(targets) of each direction."""
        weight, bias = self.softmax.weight, self.softmax.bias
        is_native = self.engine != "plain" and can_train(streams[0])
        if samples is not None and torch.is_grad_enabled() and is_native:
            return sampled_softmax_losses(streams, targets.flatten(1), weight, bias, samples)
        return torch.stack(
            [
                softmax_loss(h, words, weight, bias)
                if samples is None
                else sampled_softmax_loss(h, words, weight, bias, *samples)
                for h, words in zip(streams, targets.flatten(1), strict=True)
            ]
        )

    def _drop(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        """Dropout whose noise comes from our own generator, so that a run can be repeated."""
        if not self.training or self.dropout == 0:
            return x
        kept = 1 - self.dropout
        mask = torch.empty_like(x).bernoulli_(kept, generator=generator)
        return x * mask.div_(kept)


class Samples(NamedTuple):
    """Sampled words, and log of the expected count of every word of the vocabulary."""

    words: NDArray[np.int64]
    log_expected: NDArray[np.float32]


class LogUniformSampler:
    """Draws word k with P(k) = log((k+2) / (k+1)) / log(V+1) until enough are different.

    It fits a vocabulary sorted by frequency, in which a word's rank tells how common it is.
    """

    def __init__(self, num_words: int, num_samples: int) -> None:
        self.num_words = num_words
        self.num_samples = min(num_samples, num_words)
        ranks = np.arange(num_words, dtype=np.float64)
        self.probabilities = np.log1p(1 / (ranks + 1)) / np.log(num_words + 1)

    def __call__(self, generator: np.random.Generator) -> Samples:
        """Draw once."""
        words, tries = self._distinct(generator)
        # The probability that a word is among the distinct ones after that many tries.
        expected = -np.expm1(tries * np.log1p(-self.probabilities))
        return Samples(words, np.log(expected).astype(np.float32))

    def _distinct(self, generator: np.random.Generator) -> tuple[NDArray[np.int64], int]:
        """The words in the order in which they were first drawn, and the number of draws."""
        if self.num_samples == self.num_words:
            return np.arange(self.num_words), 1 << 62  # every word is expected
        drawn = np.zeros(0, dtype=np.int64)
        while True:
            uniform = generator.random(2 * self.num_samples)
            new = np.expm1(uniform * np.log1p(self.num_words)).astype(np.int64)
            drawn = np.concatenate([drawn, new.clip(max=self.num_words - 1)])
            words, first = np.unique(drawn, return_index=True)
            if len(words) >= self.num_samples:
                last = np.partition(first, self.num_samples - 1)[self.num_samples - 1]
                return words[first <= last], int(last) + 1


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

    def samples(self, samples: Samples) -> Sampled:
        """Sampled words on the device."""
        log_expected = torch.from_numpy(samples.log_expected).to(self.device)
        return Sampled(self._tensor(samples.words), log_expected)

    def _tensor(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.device)
