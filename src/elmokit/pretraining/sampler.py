"""Which words the sampled softmax compares with: log-uniform, all different."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
        # The chance that a word is among the distinct ones after that many tries.
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
