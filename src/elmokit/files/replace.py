"""A folder of several files that is written as one, even where it replaces another.

A new folder is renamed as a whole. In a folder that is there, files can only be renamed one after
the other, so a file INCOMPLETE stands beside them meanwhile. It names the hidden folder with those
that are yet to come. If the process dies, readers refuse the folder, and writers may write again.
"""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FileError, FormatError
from .files import is_there, read_words, whole_file, write_errors

INCOMPLETE = "INCOMPLETE"


@contextmanager
def whole_folder(path: Path, *, replace: bool = True, drop: Collection[str] = ()) -> Iterator[Path]:
    """A temporary folder to fill; its files move to `path` if the block succeeds.

    Files of the same names in an existing `path` are replaced, or an error without `replace`;
    others stay, but for those of the names in `drop`.
    """
    with write_errors(path):
        if path.exists() and not path.is_dir():
            raise FileError(f"{path}: a file is in the way of the folder to be written")
        # Inside of a folder that is there: beside it may be another disk, or one to read only.
        place = path if path.is_dir() else path.parent
        place.mkdir(parents=True, exist_ok=True)
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=place)
    temporary = Path(name)
    with write_errors(path, temporary):
        try:
            yield temporary
            if path.exists():
                _check_room(temporary, path, replace or is_incomplete(path))
                _replace(temporary, path, drop)
            else:
                temporary.chmod(0o777 & ~_umask())
                os.replace(temporary, path)
        finally:
            if _rest(path) != temporary:
                shutil.rmtree(temporary, ignore_errors=True)


def is_incomplete(folder: Path) -> bool:
    """Whether a command died while it replaced the files of a folder."""
    return is_there(folder / INCOMPLETE)


def check_whole(folder: Path) -> None:
    """Refuse a folder in which old and new files may be mixed."""
    if is_incomplete(folder):
        raise FileError(
            f"{folder}: a command that was writing this model was stopped half-way, and its files "
            "do not belong together; give that command again (a pre-training run: with --resume)"
        )


def complete(folder: Path) -> None:
    """Do the rest of what a command began that died while it replaced files, if it can be done."""
    rest = _rest(folder)
    if rest is not None and rest.is_dir():
        with write_errors(folder):
            _move(rest, folder)


def _check_room(source: Path, target: Path, replace: bool) -> None:
    """Refuse what would be overwritten unasked, or cannot be, before anything is moved."""
    for file in source.iterdir():
        there = target / file.name
        if not replace and there.exists():
            raise FileError(f"{there} exists already; choose another name, or force it (--force)")
        if there.is_dir() and not file.is_dir():
            raise FileError(f"{there}: a folder is in the way of the file to be written")


def _replace(source: Path, target: Path, drop: Collection[str]) -> None:
    before = _rest(target)
    with whole_file(target / INCOMPLETE) as temporary:
        temporary.write_text(f"{source.name}\n", encoding="utf-8")
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)
    for name in drop:
        if not (source / name).exists():
            remove(target / name)
    _move(source, target)


def _move(source: Path, target: Path) -> None:
    for file in sorted(source.iterdir()):
        if file.is_dir():
            remove(target / file.name)
        os.replace(file, target / file.name)
    (target / INCOMPLETE).unlink()
    shutil.rmtree(source, ignore_errors=True)


def _rest(folder: Path) -> Path | None:
    """Where the files are that have yet to take their places; None if all have."""
    if not is_incomplete(folder):
        return None
    try:
        name = next(read_words(folder / INCOMPLETE), "")
    except (FileError, FormatError):
        return None  # not a file of ours
    is_ours = name.startswith(".") and name.endswith(".partial") and Path(name).name == name
    return folder / name if is_ours else None


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
