"""Files of arrays (.npz) that are whole or not there, and of which every byte is checked."""

import io
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import FormatError
from .files import check_readable, whole_file

ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError,
    struct.error,
)  # fmt: skip
"""What zipfile and its decompressors raise for damaged archives."""


def save_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write a file that is on the disk, whole, when this returns."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())


def load_arrays(path: Path, kinds: Mapping[str, tuple[DTypeLike, int]]) -> dict[str, NDArray[Any]]:
    """The arrays of a file that `save_arrays` wrote; takes no more memory than the file is long.

    Args:
        path: The file.
        kinds: Type and number of axes of each array.

    Raises:
        FileError: The file cannot be opened.
        FormatError: It is damaged.
    """
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: _read(archive, path, name, *kind) for name, kind in kinds.items()}
    except FormatError:
        raise
    except (*ZIP_ERRORS, KeyError) as e:
        raise FormatError(f"{path} is damaged ({e!s:.80})") from e


def _read(
    archive: zipfile.ZipFile, path: Path, name: str, dtype: DTypeLike, num_axes: int
) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > path.stat().st_size:
        raise FormatError(f"{path} is damaged ({name} is compressed)")
    data = archive.read(info)  # all of it, and its checksum
    start = io.BytesIO(data)
    try:
        np.lib.format.read_magic(start)
        shape, is_fortran, found = np.lib.format.read_array_header_1_0(start)
    except Exception as e:  # numpy reads the header as Python, so it can fail in many ways
        raise FormatError(f"{path} is damaged ({name} has no header)") from e
    size = len(data) - start.tell()
    if (
        found != dtype
        or is_fortran
        or len(shape) != num_axes
        or min(shape, default=0) < 0
        or math.prod(shape) * found.itemsize != size
    ):
        raise FormatError(f"{path} is damaged ({name} holds {found}{list(shape)!s:.40})")
    return np.frombuffer(data, found, offset=start.tell()).reshape(shape)
