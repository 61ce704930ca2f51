"""Sentences as AllenNLP's tensors of character ids, and such tensors as distinct words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...config import NUM_BYTE_CHARACTERS
from ...errors import InputError
from ...text.ids import ByteCharacters, TokenIndexer

MAX_CHARACTERS = 50
"""AllenNLP spells every word with this many ids, whatever the options file says."""


class Token(Protocol):
    """A token of AllenNLP or spaCy."""

    @property
    def text(self) -> str: ...


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """The character ids of tokenised sentences, (B, T, 50); shorter sentences end in zeros.

    A batch without any token gives (B, 0, 50), which AllenNLP cannot embed and `Elmo` can.

    >>> batch_to_ids([["a", "cat"], []]).shape
    torch.Size([2, 2, 50])
    """
    for i, sentence in enumerate(batch):
        if isinstance(sentence, str):
            raise InputError(f"sentence {i} is a text ({sentence!r:.40}); expected its tokens")
    scheme = ByteCharacters(MAX_CHARACTERS)
    longest = max(map(len, batch), default=0)
    ids = np.zeros((len(batch), longest, MAX_CHARACTERS), dtype=np.int64)
    for row, sentence in zip(ids, batch, strict=True):
        row[: len(sentence)] = scheme.encode(sentence)
    return torch.from_numpy(ids)


class ELMoTokenCharactersIndexer:
    """Tokens to character ids, as far as scripts use AllenNLP's indexer by hand.

    Args:
        namespace: AllenNLP's name for the ids in a vocabulary; nothing depends on it.
    """

    def __init__(self, namespace: str = "elmo_characters") -> None:
        self.namespace = namespace

    def tokens_to_indices(
        self,
        tokens: Sequence[str | Token],
        vocabulary: object = None,
        index_name: str = "elmo_tokens",
    ) -> dict[str, list[list[int]]]:
        """The 50 ids of each token, under the key that AllenNLP 2 (or 0.9: its caller) uses.

        >>> ELMoTokenCharactersIndexer().tokens_to_indices(["a"])["elmo_tokens"][0][:4]
        [259, 98, 260, 261]
        """
        words = [token if isinstance(token, str) else token.text for token in tokens]
        return {index_name: batch_to_ids([words])[0].tolist()}


@dataclass(frozen=True, slots=True)
class CharacterBatch:
    """A tensor of character ids as distinct words, each sentence between its boundaries.

    Attributes:
        words: The distinct words, boundaries included, as a `SpelledIndexer` reads them.
        index: For every token of every sentence in turn, its position in `words`.
        lengths: Tokens of each sentence, the two boundaries included.
        mask: Which positions of the tensor hold tokens or boundaries, (B, T + 2).
    """

    words: list[str]
    index: NDArray[np.int64]
    lengths: NDArray[np.int64]
    mask: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: Tensor) -> "CharacterBatch":
        """The batch of `ids` (B, T, C); a row of zeros is padding."""
        if ids.ndim != 3:
            raise InputError(
                f"inputs of shape {tuple(ids.shape)}: expected character ids of shape "
                "(sentences, tokens, 50), as batch_to_ids makes them"
            )
        array: NDArray[np.int64] = ids.cpu().numpy()
        real: NDArray[np.bool_] = np.any(array > 0, axis=-1)
        counts = real.sum(axis=1, dtype=np.int64)
        if (real != (np.arange(real.shape[1]) < counts[:, None])).any():
            raise InputError("character ids: zeros (padding) have to follow a sentence's tokens")
        scheme = ByteCharacters(array.shape[-1])
        spelled = np.concatenate([scheme.encode((scheme.bos, scheme.eos)), array[real]])
        if spelled.min() < 0 or spelled.max() >= NUM_BYTE_CHARACTERS:
            raise InputError(
                f"character ids from {spelled.min()} to {spelled.max()}: expected "
                f"0..{NUM_BYTE_CHARACTERS - 1}, as batch_to_ids makes them"
            )
        rows: dict[str, int] = {}
        row_of = [rows.setdefault(word, len(rows)) for word in _as_words(spelled)]
        lengths = counts + 2
        ends = np.cumsum(lengths)
        index = np.full(int(lengths.sum()), -1, dtype=np.int64)
        index[ends - lengths], index[ends - 1] = row_of[:2]
        index[index < 0] = row_of[2:]
        return cls(list(rows), index, lengths, np.arange(real.shape[1] + 2) < lengths[:, None])


class SpelledIndexer(TokenIndexer):
    """Ids of words whose text is their character ids themselves, so that a cache can know them."""

    def __call__(self, words: Sequence[str]) -> tuple[NDArray[np.int64], None]:
        packed = "".join(words).encode("latin-1")
        rows = np.frombuffer(packed, dtype=np.uint16).reshape(len(words), -1)
        return rows.astype(np.int64), None


def _as_words(rows: NDArray[np.int64]) -> Iterator[str]:
    """Each row of ids as a text: two bytes per id, each byte a Latin-1 character."""
    packed, width = rows.astype(np.uint16).tobytes().decode("latin-1"), 2 * rows.shape[1]
    return (packed[i : i + width] for i in range(0, len(packed), width))
