"""A file to write for libraries that cannot bear a failed write.

On a full disk, HDF5 ignores errors and then crashes the process, and torch hides the cause. They
write into a `Sink`, which remembers the first error and lets them finish in peace.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import h5py

_MAX_KEPT = 1 << 20


class Sink(io.RawIOBase):
    """A new file whose writes always seem to succeed; `check` raises the first that did not.

    What comes after the first error goes to memory, as HDF5 reads its own metadata again. Large
    pieces are dropped: they are values, which nobody reads again.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._at = 0
        self._kept: list[tuple[int, bytes]] = []
        self.error: OSError | None = None

    def check(self) -> None:
        """Raise the error of the first write that failed."""
        if self.error is not None:
            raise OSError(self.error.errno, self.error.strerror)

    def write(self, data: Any) -> int:
        """Write all of `data`, or remember why not."""
        view = memoryview(data).cast("B")
        try:
            if self.error is None:
                self._file.seek(self._at)
                done = 0
                while done < len(view):
                    done += self._file.write(view[done:]) or 0
        except OSError as e:
            self.error = e
        if self.error is not None and len(view) <= _MAX_KEPT:
            self._kept.append((self._at, bytes(view)))
        self._at += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Read back what was written; zeros where that was dropped."""
        view = memoryview(buffer).cast("B")
        self._file.seek(self._at)
        num_read = self._file.readinto(view) or 0
        for start, data in self._kept:
            first, last = max(start, self._at), min(start + len(data), self._at + len(view))
            if first < last:
                view[first - self._at : last - self._at] = data[first - start : last - start]
                num_read = max(num_read, last - self._at)
        self._at += num_read
        return num_read

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; the end is that of the written part."""
        base = (0, self._at, self._end)[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Set the size."""
        size = self._at if size is None else size
        try:
            if self.error is None:
                self._file.truncate(size)
        except OSError as e:
            self.error = e
        return size

    def close(self) -> None:
        """Close the file; some disks say only now that they are full."""
        try:
            self._file.close()
        except OSError as e:
            self.error = self.error or e
        super().close()

    def readable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    @property
    def _end(self) -> int:
        size = self._file.seek(0, os.SEEK_END)
        return max([size, *(start + len(data) for start, data in self._kept)])


@contextmanager
def new_hdf5(path: Path) -> Iterator[tuple["h5py.File", Sink]]:
    """A new HDF5 file, and its sink to `check` now and then; a failed write is an OSError."""
    import h5py

    with Sink(path) as sink:
        with h5py.File(sink, "w") as file:
            yield file, sink
        sink.check()
    sink.check()
