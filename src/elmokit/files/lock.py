"""A lock that two runs with the same output cannot hold at once."""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import FileError

log = logging.getLogger(__name__)

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


@contextmanager
def locked(lock: Path, output: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the file `lock` for as long as `output` is being written.

    Args:
        lock: The file.
        output: What it guards.
        wait: Wait for another process that holds it, instead of failing.
    """
    holder = FileLock(lock, timeout=0, thread_local=False)
    try:
        try:
            holder.acquire()
        except Timeout as e:
            if not wait:
                raise FileError(f"{output} is being written by another process") from e
            log.warning("waiting for another process that writes %s", output)
            holder.acquire(timeout=-1)
    except (OSError, NotImplementedError) as e:
        # Some network file systems have no locks; that should stop nobody.
        if isinstance(e, OSError) and e.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        holder.release()
