"""HDF5 files, read without trust: no links, no data of other files, no sizes without data."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from ..errors import FormatError
from .arrays import COPY
from .read import check_readable

_MAX_COMPRESSION = 1032
"""No deflated byte holds more than this; it bounds the memory that a small file can ask for."""


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file to read; one that is missing or broken is an error that says so."""
    check_readable(path)
    try:
        file = h5py.File(path, "r")
    except OSError as e:
        raise FormatError(f"{path} is not a readable HDF5 file ({e!s:.120}); {COPY}") from e
    with file:
        yield file


def datasets(file: h5py.File, path: Path) -> dict[str, h5py.Dataset]:
    """All datasets of a file; links, and data that are not in the file, are refused."""
    found: dict[str, h5py.Dataset] = {}
    groups: list[tuple[str, h5py.Group]] = [("", file)]
    seen: set[int] = set()
    while groups:
        prefix, group = groups.pop()
        with read_errors(path, prefix):
            names = list(group)
        for name in names:
            full = f"{prefix}{name}"
            with read_errors(path, full):
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise FormatError(
                        f"{path}: {full} is a link; the file must hold all of its data"
                    )
                item = group[name]
                if isinstance(item, h5py.Dataset):
                    check_dataset(item, f"{path}: {full}")
                    found[full] = item
                elif (address := h5py.h5o.get_info(item.id).addr) not in seen:
                    seen.add(address)  # groups can hold each other
                    groups.append((f"{full}/", item))
    return found


def check_dataset(item: h5py.Dataset, what: str) -> None:
    """Refuse data that lie in other files, and sizes for which there are no data."""
    if item.external or item.is_virtual:
        raise FormatError(f"{what} points to another file; the file must hold all of its data")
    if item.shape is None or item.id.get_storage_size() * _MAX_COMPRESSION < item.nbytes:
        raise FormatError(f"{what} has a shape, but no data; {COPY}")


@contextmanager
def read_errors(path: Path, name: str = "") -> Iterator[None]:
    """Turn what h5py raises for damaged files, which is many things, into an error of ours."""
    try:
        yield
    except FormatError:
        raise
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as e:
        raise FormatError(f"{path}: {name or '/'} cannot be read ({e!s:.120}); {COPY}") from e
