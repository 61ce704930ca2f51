"""The peer of `train_speed.py`: the biLM trained by a straightforward PyTorch loop.

What one would write after reading AllenNLP: the character CNN over every token of the batch, each
LSTM a loop over time with autograd through every step, dense gradients, `torch.optim.Adagrad`. It
is the same model as `elmokit.nn.BiLm` with `Softmax` and takes the same sentences, with bilm-tf's
settings. It skips what costs a reader nothing to skip (padding, the step whose output predicts
nothing), and nothing else: it is a fair peer, not a slow one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmokit import ElmoConfig
from elmokit.config import LstmConfig
from elmokit.nn import Softmax, TokenEncoder, TokenIds

UNKNOWN = 2
LOSS_SCALE = 20.0
"""bilm-tf multiplies the loss by its 20 time steps; Adagrad's first accumulator makes it matter."""


class Cell(nn.Module):
    """One layer of one direction, a step at a time: clipped cell, clipped projection."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.gates = nn.Linear(2 * config.projection_dim, 4 * config.dim)
        nn.init.xavier_uniform_(self.gates.weight)
        nn.init.zeros_(self.gates.bias)
        self.projection = None
        if config.projected:
            self.projection = nn.Linear(config.dim, config.projection_dim, bias=False)
            nn.init.xavier_uniform_(self.projection.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (B, T, P) of the inputs (B, T, P), from the zero state."""
        h = x.new_zeros(len(x), self.config.projection_dim)
        c = x.new_zeros(len(x), self.config.dim)
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = self.gates(torch.cat([x[:, t], h], dim=1)).chunk(4, dim=1)
            c = torch.sigmoid(f + self.config.forget_bias) * c + torch.sigmoid(i) * torch.tanh(g)
            c = _clip(c, self.config.cell_clip)
            h = torch.sigmoid(o) * torch.tanh(c)
            if self.projection is not None:
                h = _clip(self.projection(h), self.config.proj_clip)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class NaiveTrainer:
    """A biLM with its optimiser.

    Args:
        config: The architecture; its words are read by their characters.
        vocab_size: Words of the softmax, by frequency; any other word is `<UNK>` as a target.
        num_samples: Negatives of each direction in a step; None for the full softmax.
        seed: Of the weights, the dropout and the negatives.
    """

    def __init__(
        self,
        config: ElmoConfig,
        vocab_size: int,
        num_samples: int | None,
        seed: int,
        *,
        dropout: float = 0.1,
        learning_rate: float = 0.2,
        max_norm: float = 10.0,
    ) -> None:
        torch.manual_seed(seed)
        self.random = np.random.default_rng(seed)
        self.config, self.num_samples = config, num_samples
        self.dropout, self.max_norm = dropout, max_norm
        self.encoder = TokenEncoder(config.encoder, config.lstm.projection_dim)
        self.directions = nn.ModuleList(
            nn.ModuleList(Cell(config.lstm) for _ in range(config.lstm.num_layers))
            for _ in ("forward", "backward")
        )
        self.softmax = Softmax(vocab_size, config.lstm.projection_dim)
        self.model = nn.ModuleList([self.encoder, self.directions, self.softmax])
        self.optimizer = torch.optim.Adagrad(
            self.model.parameters(), lr=learning_rate, initial_accumulator_value=1.0
        )

    def step(self, words: npt.NDArray[np.int64], characters: npt.NDArray[Any]) -> float:
        """Train on one batch; the mean loss of a target, both directions averaged.

        Args:
            words: Ids (B, T + 2) of sentences of one length, each `<S>` … `</S>`.
            characters: The character ids (num_words, C) of every word.
        """
        self.optimizer.zero_grad()
        loss = self.loss(words, characters)
        (LOSS_SCALE * loss).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        return loss.item()

    def loss(self, words: npt.NDArray[np.int64], characters: npt.NDArray[Any]) -> Tensor:
        """The mean of -log p(target) over both directions, by the sampled or the full softmax."""
        spelled = torch.as_tensor(characters[words.ravel()].astype(np.int64))
        x = self.encoder(TokenIds(spelled, None)).view(*words.shape, -1)
        targets = torch.as_tensor(words)
        targets = torch.where(targets < len(self.softmax.weight), targets, UNKNOWN)
        backward = self.direction_loss(1, x.flip(1)[:, :-1], targets.flip(1)[:, 1:])
        return (self.direction_loss(0, x[:, :-1], targets[:, 1:]) + backward) / 2

    def direction_loss(self, direction: int, x: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of one direction, which reads `x` left to right."""
        cells: Sequence[Cell] = self.directions[direction]  # type: ignore[assignment]
        for j, cell in enumerate(cells):
            x = F.dropout(x, self.dropout)
            y = cell(x)
            x = y + x if self.config.lstm.skip_connections and j > 0 else y
        h = F.dropout(x, self.dropout).flatten(0, 1)
        if self.num_samples is None:
            logits = F.linear(h, self.softmax.weight, self.softmax.bias)
            return F.cross_entropy(logits, targets.flatten())
        return self.sampled_loss(h, targets.flatten(), self.num_samples)

    def sampled_loss(self, h: Tensor, targets: Tensor, num_samples: int) -> Tensor:
        """The sampled softmax of Jean et al. (2015): each logit less its log expected count."""
        vocab_size = len(self.softmax.weight)
        drawn, num_tries = log_uniform(self.random, vocab_size, num_samples)
        samples = torch.as_tensor(drawn)
        ids = torch.cat([targets, samples])
        weight = F.embedding(ids, self.softmax.weight)
        bias = F.embedding(ids, self.softmax.bias[:, None])[:, 0]
        offset = bias - _log_expected_count(ids, vocab_size, num_tries).to(bias.dtype)
        n = len(targets)
        true = (h * weight[:n]).sum(dim=1) + offset[:n]
        false = F.linear(h, weight[n:], offset[n:])
        # A negative that is the target itself would be punished for being right.
        false = false.masked_fill(samples == targets[:, None], float("-inf"))
        logits = torch.cat([true[:, None], false], dim=1)
        return F.cross_entropy(logits, torch.zeros_like(targets))


def log_uniform(
    random: np.random.Generator, vocab_size: int, num_samples: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Distinct word ids, drawn until there are enough, and how many draws that took.

    Each draw is k with p(k) = log((k + 2) / (k + 1)) / log(vocab_size + 1).
    """
    if not 0 < num_samples <= vocab_size:
        raise ValueError(f"num_samples={num_samples}: expected 1..{vocab_size} (the vocabulary)")
    draws = np.zeros(0, np.int64)
    while True:
        uniform = random.random(max(2 * num_samples, len(draws)))
        more = np.exp(uniform * np.log(vocab_size + 1)).astype(np.int64) - 1
        draws = np.concatenate([draws, np.minimum(more, vocab_size - 1)])
        found, first = np.unique(draws, return_index=True)
        if len(found) >= num_samples:
            num_tries = int(np.sort(first)[num_samples - 1]) + 1
            return found[first < num_tries], num_tries


def _log_expected_count(ids: Tensor, vocab_size: int, num_tries: int) -> Tensor:
    """log of the probability that `num_tries` draws contain each word."""
    p = torch.log1p(1 / (ids.double() + 1)) / np.log(vocab_size + 1)
    return torch.log(-torch.expm1(num_tries * torch.log1p(-p)))


def _clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)
