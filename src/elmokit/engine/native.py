"""The native kernel: the biLM's hot loops in C, loaded through ctypes; and its threads.

It is built with the package where a compiler is there (`hatch_build.py`); where it is not, torch
does the work. Every call names the instruction set, so that tests can run each that a machine has.
The environment variable `ELMOKIT_ISA` names one for all calls that leave it open.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from ctypes import c_int, c_int64
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..errors import ConfigError

ISAS = ("portable", "avx2", "avx512")
"""Instruction sets by their numbers in dispatch.c, the best last."""

_K_BLOCK = 512  # as in kernel.c

_num_threads: ContextVar[int | None] = ContextVar("num_threads", default=None)

_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "vector_length": ([], c_int64),
    "vectors_together": ([], c_int64),
}


def declare(name: str, *types: Any, result: Any = None) -> None:
    """Tell ctypes what the function `elmokit_NAME` takes after the instruction set, and returns."""
    _SIGNATURES[name] = ([*types], result)


@cache
def library() -> ctypes.CDLL | None:
    """The kernel, or None where it was not built."""
    name = "_kernel.dll" if sys.platform == "win32" else "_kernel.so"
    path = Path(__file__).with_name(name)
    if not path.is_file():
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # built for another machine
        return None


def available() -> tuple[str, ...]:
    """The instruction sets that the kernel can use on this machine, the best last."""
    return _sets_of(library())


@cache
def _sets_of(lib: ctypes.CDLL | None) -> tuple[str, ...]:
    if lib is None:
        return ()
    return tuple(isa for i, isa in enumerate(ISAS) if lib.elmokit_vector_length(c_int(i)) > 0)


def chosen() -> str | None:
    """The instruction set to use where none is named; None for torch.

    It is the one that `ELMOKIT_ISA` names, or the best.
    """
    have = available()
    name = os.environ.get("ELMOKIT_ISA")
    if not name:
        return have[-1] if have else None
    if name not in (*ISAS, "none"):
        raise ConfigError(f"ELMOKIT_ISA={name!r}: expected {', '.join(ISAS)} or none (torch)")
    if name not in (*have, "none"):
        raise ConfigError(
            f"ELMOKIT_ISA={name!r}: not on this machine, which has {', '.join((*have, 'none'))}"
        )
    return None if name == "none" else name


def training_set(tensor: Tensor, isa: str | None = None) -> str | None:
    """The instruction set that computes such a tensor with gradients; None for torch.

    Args:
        tensor: What the kernel would read.
        isa: The set that is wanted; `none` for torch, None for that of `ELMOKIT_ISA` or the best.
    """
    fits = tensor.device.type == "cpu" and tensor.dtype == torch.float32
    # Autocast would hand it products of another type.
    fits = fits and not torch.is_autocast_enabled("cpu")
    return None if not fits or isa == "none" else isa or chosen()


def can_train(tensor: Tensor) -> bool:
    """Whether the kernel is there, is wanted, and can work on such a tensor with gradients."""
    return training_set(tensor) is not None


class Kernel:
    """The kernel with one instruction set, that of `ELMOKIT_ISA` or the best if none is named."""

    def __init__(self, isa: str | None = None) -> None:
        loaded = library()
        assert loaded is not None
        for name, (types, result) in _SIGNATURES.items():
            function = getattr(loaded, f"elmokit_{name}")
            if function.argtypes is None:
                function.argtypes, function.restype = [c_int, *types], result
        self.lib = loaded
        self.isa = ISAS.index(isa or chosen() or available()[-1])
        self.lanes = int(loaded.elmokit_vector_length(self.isa))
        self.panel = int(loaded.elmokit_vectors_together(self.isa)) * self.lanes

    def round_up(self, n: int, multiple: int = 0) -> int:
        """`n` as a whole number of vectors, or of `multiple`."""
        multiple = multiple or self.lanes
        return -(-n // multiple) * multiple


def block_gates(weight: Tensor, dim: int, lanes: int) -> Tensor:
    """Rows i, f, g, o as [unit block][gate][lane], each gate padded to `dim` rows."""
    gates = weight.view(4, -1, weight.shape[1])
    gates = pad(gates, (0, 0, 0, dim - gates.shape[1]))
    gates = gates.view(4, -1, lanes, weight.shape[1]).transpose(0, 1)
    return gates.reshape(4 * dim, weight.shape[1]).contiguous()


def pack(weight: Tensor, panel: int) -> Tensor:
    """(N, K) as [K block][panel of N][depth][columns], flat."""
    blocks = [
        weight[p : p + panel, k : k + _K_BLOCK].t().reshape(-1)
        for k in range(0, weight.shape[1], _K_BLOCK)
        for p in range(0, weight.shape[0], panel)
    ]
    return torch.cat(blocks)


def pointer(t: Tensor | None) -> int | None:
    """The address of a tensor's data, as ctypes wants it."""
    return None if t is None else t.data_ptr()


def num_threads() -> int:
    """Threads that the kernel may use: those of torch, unless they are `kept_from_torch`."""
    return _num_threads.get() or torch.get_num_threads()


@contextmanager
def kept_from_torch() -> Iterator[None]:
    """Leave torch one thread and the kernel all.

    After an operation of torch in several threads, these wait for the next one at full speed for
    milliseconds, on the cores that the kernel's threads need.
    """
    before = torch.get_num_threads()
    token = _num_threads.set(before)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _num_threads.reset(token)


def side_by_side(calls: Sequence[Callable[[], object]]) -> None:
    """Run the calls, which only run the kernel, as far as possible at the same time."""
    threads = min(num_threads(), len(calls))
    if threads <= 1:
        for call in calls:
            call()
        return
    left = iter(calls)  # each thread takes the next one; `next` on a list's iterator is atomic

    def work() -> None:
        for call in left:
            call()

    others = [_pool(num_threads()).submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for other in others:
            other.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="elmokit")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def equal_parts(size: int, number: int, multiple: int = 1) -> list[tuple[int, int]]:
    """About equal ranges of 0 … size - 1 that begin at multiples; at most `number`, none empty."""
    blocks = -(-size // multiple)
    cuts = [min(size, multiple * (blocks * i // number)) for i in range(number + 1)]
    return [(a, b) for a, b in pairwise(cuts) if b > a]
