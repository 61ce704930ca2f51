"""A lock that two runs with the same output cannot hold at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FileError

try:
    import fcntl
except ImportError:  # Windows, where two runs with the same output are not noticed
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(lock: Path, output: Path) -> Iterator[None]:
    """Hold the file `lock` for as long as `output` is being written."""
    if fcntl is None:
        yield
        return
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise FileError(f"{output} is being written by another process") from e
        except OSError:
            pass  # some network file systems have no locks
        yield
