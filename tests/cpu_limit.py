"""A limit on processor time, for work inside C code that a test cannot count."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SECONDS = 20.0
"""A hundred times what linear work takes in these tests, and less than quadratic work needs."""


@contextmanager
def cpu_limit() -> Iterator[None]:
    """Fail if the block takes `SECONDS` of this process's own processor time.

    Other processes do not count, and the margin is wider than any difference between processors.
    Where the system can, the work is stopped at the limit, so that a failure does not take hours.
    """

    def stop(*_: object) -> None:
        pytest.fail(f"more than {SECONDS:g} s of processor time")

    start = time.process_time()
    if not hasattr(signal, "setitimer"):
        yield
    else:
        before = signal.signal(signal.SIGVTALRM, stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
    if time.process_time() - start > SECONDS:
        stop()
