"""What every file of vectors holds: one entry a line of text."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a text with its vectors.

    Attributes:
        index: Number of the line, from 0.
        text: The line.
        tokens: Its tokens, as the model read them.
        vectors: Of each token, (T, D), or (L, T, D) for all layers; or of the line, (D,), which
            is (0,) where the line has no tokens.
    """

    index: int
    text: str
    tokens: list[str]
    vectors: NDArray[np.float32]
