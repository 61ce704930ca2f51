"""Safetensors files: read and written with errors that name the file and the cause."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import ElmoError, FileError, FormatError
from .files import check_readable, check_space, unreadable

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
