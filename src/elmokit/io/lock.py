"""A lock that two runs with the same output cannot hold at once."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import FileError

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


@contextmanager
def locked(lock: Path, output: Path) -> Iterator[None]:
    """Hold the file `lock` for as long as `output` is being written."""
    holder = FileLock(lock, timeout=0, thread_local=False)
    try:
        holder.acquire()
    except Timeout as e:
        raise FileError(f"{output} is being written by another process") from e
    except (OSError, NotImplementedError) as e:
        # Some network file systems have no locks; that should stop nobody.
        if isinstance(e, OSError) and e.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        holder.release()
