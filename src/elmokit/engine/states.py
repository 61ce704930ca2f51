"""Where the LSTMs start a sentence: from zeros, from one stored state, or where they stopped.

The original programs carry the state from call to call, so that a repeated sentence gets other
vectors. Here that is a choice (`"carry"`) and not the default.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from ..nn import BiLmState


class StartStates(Protocol):
    """A way to start sentences."""

    carries: bool

    def start(self, rows: Sequence[int]) -> BiLmState | None:
        """The states before the sentences that have these numbers in the call; None for zeros."""
        ...

    def finish(self, rows: Sequence[int], state: BiLmState) -> None:
        """Take note of the states after them."""
        ...


class ZeroStates:
    """Every sentence starts from zeros."""

    carries = False

    def start(self, rows: Sequence[int]) -> None:
        return None

    def finish(self, rows: Sequence[int], state: BiLmState) -> None:
        pass


class WarmStates:
    """Every sentence starts from the same stored state."""

    carries = False

    def __init__(self, state: BiLmState) -> None:
        self.state = state

    def start(self, rows: Sequence[int]) -> BiLmState:
        return self.state.repeat(len(rows))

    def finish(self, rows: Sequence[int], state: BiLmState) -> None:
        pass


class CarriedStates:
    """The i-th sentence of a call continues the i-th of the call before."""

    carries = True

    def __init__(self, empty: BiLmState) -> None:
        self.state = empty

    # Not in inference mode: tensors of it could not be changed by a later call outside of it.
    @torch.inference_mode(False)
    def start(self, rows: Sequence[int]) -> BiLmState:
        missing = max(rows, default=-1) + 1 - self.state.h.shape[2]
        if missing > 0:
            grown = (
                torch.cat([part, part.new_zeros(*part.shape[:2], missing, part.shape[3])], dim=2)
                for part in self.state
            )
            self.state = BiLmState(*grown)
        return BiLmState(self.state.h[:, :, rows], self.state.c[:, :, rows])

    def finish(self, rows: Sequence[int], state: BiLmState) -> None:
        self.state.h[:, :, rows] = state.h.detach()
        self.state.c[:, :, rows] = state.c.detach()
