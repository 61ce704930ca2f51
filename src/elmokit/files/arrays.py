"""Files of numbers, each checked as it is read: arrays (.npz) and tensors (.safetensors)."""

import io
import math
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import ElmoError, FileError, FormatError
from .read import ZIP_ERRORS, check_readable, unreadable
from .write import check_space, whole_file


def save_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write a file that is on the disk, whole, when this returns."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())


def load_arrays(path: Path, kinds: Mapping[str, tuple[DTypeLike, int]]) -> dict[str, NDArray[Any]]:
    """The arrays of a file that `save_arrays` wrote; takes no more memory than the file is long.

    `kinds` are the type and the number of axes of each array.
    """
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: read_array(archive, path, name, *kind) for name, kind in kinds.items()}
    except FormatError:
        raise
    except (*ZIP_ERRORS, KeyError) as e:
        raise FormatError(f"{path} is damaged ({e!s:.80})") from e


def read_array(
    archive: zipfile.ZipFile, path: Path, name: str, dtype: DTypeLike, num_axes: int | None = None
) -> NDArray[Any]:
    """One array of an open archive; `num_axes` is None for any number of axes."""
    data = archive.read(stored(archive, path, f"{name}.npy"))  # all of it, and its checksum
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
        or num_axes not in (len(shape), None)
        or min(shape, default=0) < 0
        or math.prod(shape) * found.itemsize != size
    ):
        raise FormatError(f"{path} is damaged ({name} holds {found}{list(shape)!s:.40})")
    return np.frombuffer(data, found, offset=start.tell()).reshape(shape)


def stored(archive: zipfile.ZipFile, path: Path, name: str) -> zipfile.ZipInfo:
    """A member of an archive that takes no more memory than the file is long."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > path.stat().st_size:
        raise FormatError(f"{path} is damaged ({name.removesuffix('.npy')} is compressed)")
    return info


COPY = "get a complete copy"


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors to a file of this name; not atomic, so give it a temporary one."""
    check_space(path, sum(t.numel() * t.element_size() for t in tensors.values()))
    try:
        save_file({name: t.contiguous() for name, t in tensors.items()}, path, metadata=metadata)
        # safetensors creates its files readable by their owner alone.
        path.chmod(0o644)
    except (SafetensorError, OSError) as e:
        reason = getattr(e, "strerror", None) or re.sub(
            r".*I/O error: | \(os error \d+\)", "", str(e)
        )
        raise FileError(f"{path} cannot be written: {reason}") from e


def load_tensors(path: Path, advice: str = COPY) -> dict[str, Tensor]:
    """The tensors of a file that `save_tensors` wrote; `advice` is for when it is damaged."""
    with open_tensors(path, advice) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@contextmanager
def open_tensors(path: Path, advice: str = COPY) -> Iterator[Any]:
    """A safetensors file whose names, shapes and metadata can be read before its tensors."""
    check_readable(path)
    try:
        with safe_open(path, "pt") as file:
            yield file
    except ElmoError:
        raise
    except OSError as e:
        raise unreadable(path, e) from e
    except (SafetensorError, ValueError) as e:
        problem = f"{path} is damaged, or not a safetensors file ({e!s:.200})"
        raise FormatError(f"{problem}; {advice}" if advice else problem) from e
