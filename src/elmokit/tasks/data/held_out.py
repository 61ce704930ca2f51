"""One file as training and development data: what is held out is settled by its name or text."""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


def one_side(
    items: Iterable[T], name: Callable[[T], str], held_out: float, *, is_training: bool
) -> list[T]:
    """The items for development, or the others for training; all of them if nothing is held out.

    Items of the same name are on the same side, wherever they are in the file.

    Args:
        items: What is in the file.
        name: What an item is known by, such as its text.
        held_out: Share of the names that are for development.
        is_training: Which side is asked for.
    """
    if not held_out:
        return list(items)
    return [item for item in items if (share_of(name(item)) < held_out) != is_training]


def text_of(tokens: Iterable[str]) -> str:
    """What a sentence is known by."""
    return " ".join(tokens)


def share_of(name: str) -> float:
    """A number of 0 up to 1 that depends on nothing but a name."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48
