"""Sentences packed side by side in time: no padding, hence no work on padding.

Sentences are sorted by length. Step t takes the t-th token of every sentence that is that long,
so the active sentences are always the first `counts[t]`, and the tokens of all steps in turn
fill one matrix without holes:

    a b c d        step   0      1      2    3
    e f g     →    rows   a e h  b f i  c g  d
    h i
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PackedOrder:
    """Where each token of sentence-major text goes in the packed matrix of one direction.

    Attributes:
        counts: Sentences active at each step.
        source: For each packed row, the token's place in the sentence-major text.
        order: The sentences from longest to shortest; packed states have this order.
    """

    counts: NDArray[np.int64]
    source: NDArray[np.int64]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64], *, backward: bool) -> "PackedOrder":
        """The order in which one direction reads sentences of these lengths."""
        order = np.argsort(-lengths, kind="stable")
        longest_first = lengths[order]
        num_steps = int(lengths.max(initial=0))
        steps = np.arange(num_steps)
        counts = np.searchsorted(-longest_first, -steps, side="left")
        step_of_row = np.repeat(steps, counts)
        first_row = np.cumsum(counts) - counts
        rank = np.arange(len(step_of_row)) - first_row[step_of_row]
        starts = (np.cumsum(lengths) - lengths)[order]
        place = longest_first[rank] - 1 - step_of_row if backward else step_of_row
        return cls(counts, starts[rank] + place, order)

    def chunks(self, max_rows: int) -> list[tuple[int, int, int, int]]:
        """Runs of whole steps of at most `max_rows` rows: (first step, end, first row, end)."""
        ends = np.cumsum(self.counts)
        spans = []
        step = row = 0
        while step < len(ends):
            end = max(step + 1, int(np.searchsorted(ends, row + max_rows, side="right")))
            spans.append((step, end, row, int(ends[end - 1])))
            step, row = end, int(ends[end - 1])
        return spans
