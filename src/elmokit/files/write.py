"""Files that are written whole or not at all.

On a full disk, HDF5 ignores errors and then crashes the process, and torch hides the cause. They
write into a `Sink`, which remembers the first error and lets them finish in peace.
"""

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError

if TYPE_CHECKING:
    import h5py

_MAX_KEPT = 1 << 20


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; it becomes `path` if the block succeeds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with write_errors(path, temporary):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def write_errors(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Say which file could not be written, and why, in an error of ours.

    `temporary` is what `path` is called until it is complete: no name to show to the user.
    """

    def final(name: object) -> str:
        return str(name).replace(str(temporary or path), str(path))

    try:
        yield
    except FileError as e:
        if temporary is None or str(temporary) not in str(e):
            raise
        raise FileError(final(e)) from e
    except OSError as e:
        inside = temporary and str(e.filename or "").startswith(str(temporary))
        raise FileError(
            f"{final(e.filename) if inside else path} cannot be written: {e.strerror or e}"
        ) from e


def check_space(path: Path, num_bytes: int) -> None:
    """Fail for a file that the disk has no room for, before any of it is written."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return  # there is no such folder yet, or the file system does not say
    if num_bytes > free > 0:
        raise FileError(
            f"{path} cannot be written: it needs {num_bytes / 1e6:,.1f} MB, and the disk has "
            f"{free / 1e6:,.1f} MB left; free some space"
        )


def write_json(path: Path, value: object) -> None:
    """Write `value` for people to read."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


class Sink(io.RawIOBase):
    """A new file whose writes always seem to succeed; `check` raises the first that did not.

    What comes after the first error goes to memory, as HDF5 reads its own metadata again. Large
    pieces are dropped: they are values, which nobody reads again.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._position = 0
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
                self._file.seek(self._position)
                done = 0
                while done < len(view):
                    done += self._file.write(view[done:]) or 0
        except OSError as e:
            self.error = e
        if self.error is not None and len(view) <= _MAX_KEPT:
            self._kept.append((self._position, bytes(view)))
        self._position += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Read back what was written; zeros where that was dropped."""
        view = memoryview(buffer).cast("B")
        self._file.seek(self._position)
        num_read = self._file.readinto(view) or 0
        here = self._position
        for start, data in self._kept:
            first, last = max(start, here), min(start + len(data), here + len(view))
            if first < last:
                view[first - here : last - here] = data[first - start : last - start]
                num_read = max(num_read, last - here)
        self._position += num_read
        return num_read

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; the end is that of the written part."""
        base = (0, self._position, self._end)[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        size = self._position if size is None else size
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
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
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
