"""What a span is to the model, and how likely it is a mention (Lee et al. 2017, sections 3, 4)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...nn.shapes import Float
from .config import CorefConfig
from .ffnn import Ffnn
from .spans import head_weights, windows


class Mentions(nn.Module):
    """g_i = [x*_start; x*_end; x̂_i; φ(i)] and s_m(i) of the spans of a document.

    x* are the states of the biLSTM, x̂ the input vectors weighted by head attention, φ the width.

    Args:
        config: The sizes.
        input_dim: Width of the input vectors x.
        state_dim: Width of the states x*.
    """

    def __init__(self, config: CorefConfig, input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.max_width = config.max_width
        sizes = (config.ffnn_dim, config.ffnn_layers, config.dropout)
        dims = (state_dim, state_dim, input_dim, config.feature_dim)
        self.dim = sum(dims)
        self.head = Ffnn((state_dim,), *sizes)
        self.width = nn.Embedding(config.max_width, config.feature_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.score = Ffnn(dims, *sizes)

    def forward(self, x: Float[Tensor, "T D"], states: Float[Tensor, "T H"]) -> "ScoredSpans":
        """The scores of all spans of a document."""
        weights = head_weights(self.head(states), self.max_width)
        widths = self.dropout(self.width.weight)
        by_start, by_end, by_head, by_width = self.score.parts()
        hidden = (
            (states @ by_start + self.score.first.bias)[:, None]
            + windows(states @ by_end, self.max_width)
            + weights @ windows(x @ by_head, self.max_width)
            + widths @ by_width
        )
        return ScoredSpans(x, states, weights, widths, self.score.finish(hidden))


class ScoredSpans:
    """The spans of a document on their grid, with s_m; g is made for those that are kept."""

    def __init__(
        self,
        x: Float[Tensor, "T D"],
        states: Float[Tensor, "T H"],
        weights: Float[Tensor, "T W W"],
        widths: Float[Tensor, "W F"],
        scores: Float[Tensor, "T W"],
    ) -> None:
        self.x, self.states, self.weights, self.widths = x, states, weights, widths
        self.scores = scores

    def represent(self, kept: Sequence[tuple[int, int]]) -> Float[Tensor, "N G"]:
        """g of the spans at these places of the grid."""
        start, width = torch.tensor(kept, device=self.x.device).T
        tokens = windows(self.x, len(self.widths))[start]
        head = torch.einsum("nw,nwd->nd", self.weights[start, width], tokens)
        ends = self.states[start], self.states[start + width]
        return torch.cat([*ends, head, self.widths[width]], dim=-1)
