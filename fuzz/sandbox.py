"""One call under watch: how it ended, what it wrote, and whether it ran anything."""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmokit.errors import ElmoError

MAX_SECONDS, MAX_WAIT, MAX_MEMORY, MAX_ERROR = 30, 1800, 2 << 30, 500
"""Seconds of the processor, and with all waiting, as the machine may be busy; bytes; characters."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.mkdir": ((0, 2),), "os.chmod": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)), "os.link": ((1, 3),), "os.symlink": ((1, 2),),
}  # fmt: skip
"""Where the arguments of each event have a path, and the folder that it is relative to."""
_RUNS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "socket.connect",
         "pickle.find_class"}  # fmt: skip


class Hang(BaseException):
    """The call took too long."""


class Sandbox:
    """Watches this process while a call runs; there is one for each process.

    Args:
        folder: Where the calls may write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder.resolve())
        self.is_watching = False
        self.problems: list[str] = []
        sys.addaudithook(self._audit)

    def run(self, call: Callable[[], object]) -> str:
        """`ok`, `refused`, or what is wrong with how the call ended."""
        self.problems.clear()
        try:
            with _limits():
                self.is_watching = True
                try:
                    call()
                    outcome = "ok"
                finally:
                    self.is_watching = False
        except ElmoError as e:
            outcome = _judge(str(e))
        except Hang:
            outcome = f"more than {MAX_SECONDS} s of work, or {MAX_WAIT} s of waiting"
        except MemoryError:
            outcome = f"more than {MAX_MEMORY >> 30} GB of memory"
        except Exception as e:
            outcome = f"{type(e).__name__}: {e!s:.200}"
        return self.problems[0] if self.problems else outcome

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_watching:
            return
        if event in _RUNS:
            self.problems.append(f"ran something: {event} {arguments!r:.100}")
        elif event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and isinstance(path, (str, bytes)):
                self._check(os.path.realpath(path))
        for at, base in _CHANGES.get(event, ()):
            self._check(arguments[at], arguments[base])

    def _check(self, path: Any, folder: int = -1) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a descriptor
        base = "" if folder < 0 else f"/proc/self/fd/{folder}"
        home, name = os.path.split(os.path.join(base, os.fsdecode(path)))
        real = os.path.join(os.path.realpath(home), name)
        if not real.startswith((self.folder, "/dev/")):
            self.problems.append(f"wrote outside: {real:.100}")


def _judge(message: str) -> str:
    if len(message) > MAX_ERROR:
        return f"an error of {len(message)} characters: {message:.100}"
    return "refused" if "\n" not in message else f"an error of several lines: {message!r:.100}"


@contextmanager
def _limits() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Hang

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_MEMORY, limits[1]))
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, MAX_WAIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)
