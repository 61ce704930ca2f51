"""Safetensors files: read and written with errors that name the file and the cause."""

import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import FileError, FormatError
from .files import check_readable, check_space, unreadable


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


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that `save_tensors` wrote."""
    check_readable(path)
    try:
        return load_file(path)
    except OSError as e:
        raise unreadable(path, e) from e
    except (SafetensorError, ValueError) as e:
        raise FormatError(
            f"{path} is not a readable safetensors file ({e}); get a complete copy"
        ) from e
