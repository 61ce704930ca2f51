"""Where a model computes, in which type, and how much at once."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import torch

from ..engine import EngineName, Precision
from ..errors import ConfigError, quoted
from ..text.batch import grouped

if TYPE_CHECKING:
    from .elmo import Elmo

log = logging.getLogger(__name__)

Device: TypeAlias = str | torch.device | None
DType: TypeAlias = Literal["float64", "float32", "float16", "bfloat16"] | torch.dtype
AnyElmo = TypeVar("AnyElmo", bound="Elmo")
T = TypeVar("T")

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

CACHE_WORDS = 50_000
"""Words remembered by default: 26 MB for the small published model, 102 MB for the original."""

MAX_BATCH_TOKENS = 8192
"""Tokens that run together, whatever the number of sentences; bounds the memory of a batch."""

WINDOW_BATCHES, WINDOW_SENTENCES, WINDOW_TOKENS = 16, 1000, 16384
"""What is read ahead and embedded together, at most: 200 MB of the largest vectors."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """Where and how a model computes; nothing of it is saved with the model.

    Attributes:
        device: Any torch device; by default CUDA where there is one, else the CPU.
        dtype: Type of the weights and of the arithmetic.
        requires_grad: Whether the biLM is to be trained, too.
        engine: `native`, `torch`, `plain` or `auto`.
        precision: `float32`, or `int8` for 8-bit products in the LSTMs.
        cache_words: Words whose token vectors are remembered from call to call.
    """

    device: Device = None
    dtype: DType = "float32"
    requires_grad: bool = False
    engine: EngineName = "auto"
    precision: Precision = "float32"
    cache_words: int = CACHE_WORDS

    def __post_init__(self) -> None:
        find_dtype(self.dtype)

    def apply(self, elmo: AnyElmo) -> AnyElmo:
        """The model on its device, with its type, ready for inference."""
        where, kind = find_device(self.device), find_dtype(self.dtype)
        if where.type == "mps" and kind == torch.float64:
            raise ConfigError(
                "dtype='float64': MPS has no float64; expected float32 or device='cpu'"
            )
        if where.type != "cpu" and self.precision == "int8":
            raise ConfigError(
                f"precision='int8': runs on the CPU only; expected float32 or device='cpu', "
                f"not {str(where)!r}"
            )
        return elmo.to(device=where, dtype=kind).eval()


def find_device(device: Device) -> torch.device:
    """The device of that name; for `auto` and None, CUDA where there is one, else the CPU.

    MPS has to be asked for by name, because elmokit has not been tested on it.
    """
    if device is not None and device != "auto":
        return _named_device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        _mention_mps()
    return torch.device("cpu")


def _named_device(device: str | torch.device) -> torch.device:
    try:
        found = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as e:
        raise ConfigError(
            f"device={quoted(device)}: torch has no such device here ({e!s:.60}…); "
            "expected auto, cpu, cuda, cuda:1, mps or another that torch knows"
        ) from e
    if found.type == "meta":
        raise ConfigError("device='meta' holds no values, so there is nothing to compute with")
    return found


@cache
def _mention_mps() -> None:
    """Say once per process that there is a GPU to try."""
    log.warning(
        "elmokit computes on the CPU; device='mps' uses this Mac's GPU, on which it is untested"
    )


def find_dtype(dtype: DType) -> torch.dtype:
    """The type of that name."""
    names = [str(known).removeprefix("torch.") for known in DTYPES]
    for name, known in zip(names, DTYPES, strict=True):
        if dtype in (name, known):
            return known
    raise ConfigError(f"dtype={quoted(dtype)}: expected one of {', '.join(names)}")


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
    check_batch_size(batch_size)
    if carries:
        return grouped(items, size, max_items=batch_size, max_size=inf)
    max_items = min(WINDOW_BATCHES * batch_size, WINDOW_SENTENCES)
    return grouped(items, size, max_items=max_items, max_size=WINDOW_TOKENS)


def num_words(sentences: Sequence[Sequence[str]]) -> int:
    """Tokens of a text, in all its sentences."""
    return sum(map(len, sentences))


def check_batch_size(batch_size: int) -> None:
    """Raise if `batch_size` is not positive."""
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}: expected 1 or more")
