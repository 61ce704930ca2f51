"""Blocks of text to worker processes, a bounded number at a time."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path

from ..errors import ElmoError
from .block import Reading, process_block


def process_all(blocks: Iterable[tuple[bytes, Reading, Path]], num_workers: int) -> Iterator[int]:
    """Write each block's file; yields the bytes of text of each, in order, when it is done."""
    if num_workers == 1:
        for block in blocks:
            yield process_block(*block)
        return
    # Processes made by fork inherit locked locks of other threads; these start clean.
    pool = ProcessPoolExecutor(
        num_workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker
    )
    try:
        pending: deque[Future[int]] = deque()
        for block in blocks:
            pending.append(pool.submit(process_block, *block))
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as e:
        raise ElmoError(
            "a worker process died, perhaps for want of memory; run the same command again with "
            "fewer --workers, and it continues"
        ) from e
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def default_workers() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
