"""How much runs together, and how a text without end becomes calls of bounded size."""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TypeVar

from ..errors import ConfigError
from ..text.batch import grouped

MAX_BATCH_TOKENS = 8192
"""Tokens that run together, whatever the number of sentences; bounds the memory of a batch."""

WINDOW_BATCHES, WINDOW_SENTENCES, WINDOW_TOKENS = 16, 1000, 16384
"""What is read ahead and embedded together, at most: 200 MB of the largest vectors."""

T = TypeVar("T")


def windows(
    items: Iterable[T], size: Callable[[T], int], *, carries: bool, batch_size: int
) -> Iterator[list[T]]:
    """The items of a stream in the groups that are embedded together.

    Where a group ends depends on its own items alone, so work that resumes at any group continues
    with the same groups. A carried state goes from each call to the next by row, so that rows must
    not shift: each `batch_size` sentences are then a call.

    Args:
        items: Sentences, perhaps with more than their tokens.
        size: Tokens of an item.
        carries: Whether the model's state is carried from call to call.
        batch_size: Sentences that run together, at most.
    """
    if carries:
        return grouped(items, size, max_items=batch_size, max_size=inf)
    max_items = min(WINDOW_BATCHES * batch_size, WINDOW_SENTENCES)
    return grouped(items, size, max_items=max_items, max_size=WINDOW_TOKENS)


def check_batch_size(batch_size: int) -> None:
    """Raise if `batch_size` is not positive."""
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}: expected 1 or more")
