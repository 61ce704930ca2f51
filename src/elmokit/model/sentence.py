"""A text together with its tokens and their vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, quoted

Vectors: TypeAlias = NDArray[np.float32]

_SHOWN = 60


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sentence:
    """What `Elmo.annotate` returns: which vector belongs to which word.

    `sentence["gift"]` is the vector of a word, `sentence[3]` that of a token; `len`, `in` and `for
    token, vector in sentence` work as one would expect.

    Attributes:
        text: The text as it was given; None for a sentence that was given as tokens.
        tokens: The tokens as the model read them.
        offsets: Start and end of each token in `text`; None if there is no text.
        vectors: (T, D), one vector per token; (L, T, D) with `layers="all"`.
    """

    text: str | None
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...] | None
    vectors: Vectors

    def find(self, word: str) -> list[int]:
        """The positions of all tokens that are `word`."""
        return [i for i, token in enumerate(self.tokens) if token == word]

    def __getitem__(self, key: int | str) -> Vectors:
        """The vector of a token, by its position or by a word that occurs once: (D,) or (L, D)."""
        if isinstance(key, str):
            found = self.find(key)
            if not found:
                raise InputError(
                    f"{quoted(key)} is not a token of this sentence; its tokens are: "
                    f"{' '.join(self.tokens)}"
                )
            if len(found) > 1:
                positions = ", ".join(map(str, found))
                raise InputError(
                    f"{quoted(key)} occurs {len(found)} times; choose one of the positions "
                    f"{positions}, as in sentence[{found[0]}]"
                )
            key = found[0]
        if not -len(self) <= key < len(self):
            raise IndexError(f"token {key}: the sentence has {len(self)} tokens")
        vector: Vectors = self.vectors[..., key, :]
        return vector

    def __len__(self) -> int:
        return len(self.tokens)

    def __iter__(self) -> Iterator[tuple[str, Vectors]]:
        for i, token in enumerate(self.tokens):
            yield token, self[i]

    def __contains__(self, word: object) -> bool:
        return word in self.tokens

    def __repr__(self) -> str:
        words = " ".join(self.tokens)
        words = words if len(words) <= _SHOWN else f"{words[: _SHOWN - 1]}…"
        shape = " x ".join(map(str, self.vectors.shape))
        return f"<Sentence: {words!r}, {len(self)} tokens, vectors {shape}>"
