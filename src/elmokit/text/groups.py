"""Items in groups of bounded size, for everything that must not hold a whole text."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def grouped(
    items: Iterable[T], size: Callable[[T], int], *, max_items: int, max_size: float
) -> Iterator[list[T]]:
    """Lists of consecutive items, each closed when it reaches one of the limits.

    >>> list(grouped(["a", "bcd", "e"], len, max_items=9, max_size=4))
    [['a', 'bcd'], ['e']]
    """
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += size(item)
        if len(group) == max_items or total >= max_size:
            yield group
            group, total = [], 0
    if group:
        yield group
