"""Ctrl-C and SIGTERM end a training only where nothing is lost by it."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name))


class Interrupts:
    """Whether the user, or the system, wants the training to stop.

    Inside `deferred` the first signal only sets `is_requested`, for the training to stop after the
    step; a second one stops at once. Elsewhere a signal raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._is_deferred = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Keep a signal until the block asks for it."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_deferred and not self.is_requested:
            self.is_requested = True
            log.warning("stopping after this step; press Ctrl-C again to stop at once")
            return
        raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Catch Ctrl-C and SIGTERM inside the block; outside the main thread, there are none to catch.

    A signal that this process ignores (`nohup … &`) stays ignored.
    """
    caught = Interrupts()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, caught._handle)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
