"""A bounded memory of token vectors, so that a frequent word is spelled out once."""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .rows import take


class _Generation:
    """Some words and the rows of their vectors."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.vectors: Tensor | None = None

    def add(self, words: Sequence[str], vectors: Tensor) -> None:
        start, end = len(self.rows), len(self.rows) + len(words)
        if self.vectors is None or end > len(self.vectors):
            grown = vectors.new_empty(max(1024, 2 * end), vectors.shape[1])
            if self.vectors is not None:
                grown[:start] = self.vectors[:start]
            self.vectors = grown
        self.vectors[start:end] = vectors
        self.rows.update(zip(words, range(start, end), strict=True))


class WordCache:
    """Words and their vectors, in two generations of at most `capacity` words each.

    When the young generation is full it becomes the old one, and the old one is forgotten; a word
    that is found in the old one moves to the young one. So words that are in use stay.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._young, self._old = _Generation(), _Generation()

    def __reduce__(self) -> tuple[type["WordCache"], tuple[int]]:
        return WordCache, (self.capacity,)  # a copy of a model starts to remember anew

    def __len__(self) -> int:
        return len(self._young.rows.keys() | self._old.rows.keys())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._young, self._old = _Generation(), _Generation()

    def vectors(self, words: Sequence[str], compute: Callable[[list[str]], Tensor]) -> Tensor:
        """The vectors of distinct `words`; `compute` gives those that are not known."""
        if not self.capacity:
            return compute(list(words))
        with self._lock:
            young, old = self._young, self._old
            rows = [young.rows.get(word, -1) for word in words]
            missing = [i for i, row in enumerate(rows) if row < 0]
            if not missing and young.vectors is not None:
                return take(young.vectors, np.array(rows))
            rows_in_old = [old.rows.get(words[i], -1) for i in missing]
            found = [i for i, row in zip(missing, rows_in_old, strict=True) if row >= 0]
            parts = [(at, take(source.vectors, np.array(at_rows))) for source, at, at_rows in (
                (young, [i for i, row in enumerate(rows) if row >= 0], [r for r in rows if r >= 0]),
                (old, found, [r for r in rows_in_old if r >= 0]),
            ) if at and source.vectors is not None]  # fmt: skip
        unknown = sorted(set(missing) - set(found))
        if unknown:
            parts.append((unknown, compute([words[i] for i in unknown])))
        result = parts[0][1]
        if len(parts) > 1:
            places = np.argsort(np.concatenate([at for at, _ in parts]))
            result = take(torch.cat([vectors for _, vectors in parts]), places)
        with self._lock:
            self._remember([words[i] for i in missing], take(result, np.array(missing)))
        return result

    def _remember(self, words: list[str], vectors: Tensor) -> None:
        words, vectors = words[-self.capacity :], vectors[-self.capacity :]
        if len(self._young.rows) + len(words) > self.capacity:
            self._young, self._old = _Generation(), self._young
        new = [i for i, word in enumerate(words) if word not in self._young.rows]
        with torch.inference_mode(False), torch.no_grad():
            self._young.add([words[i] for i in new], take(vectors, np.array(new, dtype=np.int64)))
