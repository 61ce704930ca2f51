"""Calls of the kernel side by side, in threads that stay."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise

import torch

_num_threads: ContextVar[int | None] = ContextVar("num_threads", default=None)


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
