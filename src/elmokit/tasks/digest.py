"""Data files by their contents: a name says nothing about what is in a file."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import FileError


def data_digest(path: Path) -> str | None:
    """A hash of a file, or of all files below a folder; None for a stream, read only once."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        files = [path]
    else:
        return None
    sha = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as stream:
                sha.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as e:
            raise FileError(f"{file} cannot be read: {e.strerror or e}") from e
    return sha.hexdigest()


def is_same_data(path: Path, recorded: Mapping[str, Any]) -> bool:
    """Whether a file is one that `task.json` records.

    Runs of before November 2026 recorded the path alone; the file may still be there.
    """
    digest = recorded.get("sha256") or data_digest(Path(recorded["path"]))
    return digest is not None and digest == data_digest(path)
