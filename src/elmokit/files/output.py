"""One rule for everything that writes a folder: nothing that exists is lost unasked.

A command writes into a folder that is missing or empty. `--force` replaces what the same command
wrote there before, and nothing else.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import ConfigError, FileError
from .replace import remove

LOCK = ".lock"
"""The file that `locked` leaves in a folder; it holds nothing."""


def output_path(name: str | os.PathLike[str]) -> Path:
    """The path of something to write, unless its name is empty.

    Call it with what the user gave: `Path("")` is `Path(".")` already, the current folder.
    """
    text = os.fspath(name)
    if not text.strip():
        raise ConfigError("the name of the output is empty; expected a file or folder")
    return Path(text)


def check_output_folder(
    folder: str | os.PathLike[str],
    kind: str,
    *,
    is_ours: bool,
    can_resume: bool = True,
    resume: bool = False,
    force: bool = False,
) -> Path:
    """The folder as a path, if a command may write there.

    Args:
        folder: As the user named it.
        kind: What the command writes, such as "pre-training run".
        is_ours: Whether the same command wrote what is there.
        can_resume: Whether the command has a --resume.
        resume: Continue what is there.
        force: Replace what is there.
    """
    if resume and force:
        raise ConfigError("--resume continues what is there, --force replaces it; choose one")
    path = output_path(folder)
    if is_empty(path):
        return path
    if not is_ours:
        raise FileError(
            f"{path} holds other files, and no {kind}; choose a folder that is new or empty"
        )
    if not (resume or force):
        advice = "use --resume, replace it with --force," if can_resume else "replace it (--force)"
        raise FileError(f"{path} already holds a {kind}; {advice} or choose another folder")
    return path


def is_empty(folder: Path) -> bool:
    """Whether a folder is missing or holds nothing; an error where that cannot be known."""
    try:
        return all(is_nothing(name) for name in os.listdir(folder))
    except FileNotFoundError:
        return True
    except NotADirectoryError as e:
        raise FileError(f"{folder}: a file is in the way of the folder to be written") from e
    except OSError as e:
        raise FileError(f"{folder} cannot be read: {e.strerror or e}") from e


def is_nothing(name: str) -> bool:
    """Whether an entry is a lock, or what a killed command leaves of a file under way."""
    return name == LOCK or (name.startswith(".") and name.endswith(".partial"))


def remove_ours(folder: Path, names: Iterable[str]) -> None:
    """Remove what a command wrote, and no file of anybody else.

    The file that says whose folder it is must not be among the names: it stays until a new one
    takes its place, so that a command that was killed in between can be given again.

    Args:
        folder: Where.
        names: Files and folders, or patterns of such.
    """
    for pattern in names:
        for path in folder.glob(pattern):
            _remove(path)


def _remove(path: Path) -> None:
    try:
        remove(path)
    except OSError as e:
        raise FileError(f"{path} cannot be removed: {e.strerror or e}") from e
