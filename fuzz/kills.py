"""Kill points: a process dies at every rename, removal and new folder of every writing command.

Each command runs in a forked process that ends, without any clean-up, at its n-th such call. Then
the command is given again, as a user would, and must come to the result of an unbroken run.
In between there is the old result, the new one, or one that is refused.
"""

import multiprocessing
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import torch

from elmokit.errors import ElmoError

from .commands import Command
from .sandbox import MAX_SECONDS, MAX_WAIT

EVENTS = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink"})
"""Python announces them by whatever name they are called: `os`, `pathlib`, `shutil`, `tempfile`."""
KILLED = 86


def kill_points(command: Command, folder: Path, seconds: float | None) -> Iterator[str]:
    """What happens at each kill point, `ok` or what is wrong; `seconds` leave some out."""
    start = folder / "start"
    start.mkdir(parents=True)
    command.prepare(start)
    whole, here = folder / "whole", folder / "here"
    for place in (whole, here):
        shutil.copytree(start, place)
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        command.run(whole)  # here, so that no process has to import what it takes
    expected, old = command.result(whole), _result(command, start)
    total = _in_process(partial(command.run, here), None)
    if total <= 0:
        yield "the unbroken command failed" if total < 0 else "there is no kill point"
        return
    end = None if seconds is None else time.monotonic() + seconds
    for point in spread(total):
        shutil.rmtree(here)
        shutil.copytree(start, here)
        _in_process(partial(command.run, here), point)
        left = _result(command, here) if command.is_atomic else None
        if left not in (None, old, expected):
            yield f"killed at call {point} of {total}: what is left is neither old nor new"
        elif _in_process(partial(command.again, here), None) < 0:
            yield f"killed at call {point} of {total}: the command does not work any more"
        elif _result(command, here) != expected:
            yield f"killed at call {point} of {total}: the result is another"
        else:
            yield "ok"
        if end is not None and time.monotonic() > end:
            return
    shutil.rmtree(folder)


def _result(command: Command, folder: Path) -> object:
    """The result in a folder; None if there is none, only part of one, or one that is refused."""
    try:
        return command.result(folder)
    except (ElmoError, OSError, AssertionError):
        return None


def spread(total: int) -> Iterator[int]:
    """All numbers below `total`, so that the first few are far from each other.

    >>> list(spread(6))
    [0, 4, 2, 1, 3, 5]
    """
    step = 1 << max(0, total - 1).bit_length()
    yield from range(min(1, total))
    while step > 1:
        yield from range(step // 2, total, step)
        step //= 2


def _in_process(call: Callable[[], object], point: int | None) -> int:
    """Run in a process of its own, killed at its call number `point`; its calls, -1 if it fails."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            count = _count_calls(point)
            torch.set_num_threads(1)
            # A command that hangs dies, and counts as one that does not work any more.
            resource.setrlimit(resource.RLIMIT_CPU, (10 * MAX_SECONDS, 10 * MAX_SECONDS))
            signal.alarm(MAX_WAIT)
            call()
            os.write(writer, str(count.value).encode())
            status = 0
        except BaseException as e:
            os.write(2, f"    {type(e).__name__}: {e!s:.300}\n".encode() if point is None else b"")
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()  # to its end: until the processes that it has started are gone, too
    os.waitpid(child, 0)
    return int(said) if said else -1


def _count_calls(point: int | None) -> Any:
    """Count the calls of this process and those that it forks; end the one that makes `point`."""
    count = multiprocessing.get_context("fork").Value("l", 0)

    def hook(event: str, arguments: object) -> None:
        if event in EVENTS:
            with count.get_lock():
                number = count.value
                count.value += 1
            if number == point:
                os._exit(KILLED)

    sys.addaudithook(hook)
    return count
