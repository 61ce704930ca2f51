"""Output that is whole or not there: the rule for folders, replacing, unfinished work, and locks.

A command writes into a folder that is missing or empty. `--force` replaces what the same command
wrote there before, and nothing else (`check_output_folder`).

A new folder is renamed as a whole. In an existing folder, files can only be renamed one after the
other, so a file INCOMPLETE stands beside them meanwhile (`whole_folder`). It names the hidden
folder of the files that are yet to come. If the process dies, readers refuse the folder, and
writers may write again.

The finished part of a long run is kept in a folder OUT.partial until OUT is complete (`Work`):

    meta.json       what the run was begun with
    …0.npz          blocks of finished work; each is whole or not there
    journal         how much of result… is finished, where that is written as the run goes
    result…         OUT while it is being written, renamed when it is complete
    old             what was at OUT, until the new one has taken its place

A run that is killed at any moment leaves at OUT what was there before or what is new, or nothing
for the instant between the two; the next run puts right what the last one left.
"""

import errno
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import ConfigError, FileError, FormatError
from .read import is_there, read_json, read_words
from .write import whole_file, write_errors, write_json

log = logging.getLogger(__name__)

LOCK = ".lock"
"""The file that `locked` leaves in a folder; it holds nothing."""
INCOMPLETE = "INCOMPLETE"

_FINISHED = ("*[0-9].npz", "journal")
_OURS = (*_FINISHED, ".*.partial", "meta.json", "stdin-*", "result*", "old")
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


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

    `kind` is what the command writes, such as "pre-training run". `is_ours` says whether the same
    command wrote what is there, `can_resume` whether it has a --resume.
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
        return all(is_leftover(name) for name in os.listdir(folder))
    except FileNotFoundError:
        return True
    except NotADirectoryError as e:
        raise FileError(f"{folder}: a file is in the way of the folder to be written") from e
    except OSError as e:
        raise FileError(f"{folder} cannot be read: {e.strerror or e}") from e


def is_leftover(name: str) -> bool:
    """Whether an entry is a lock, or what a killed command leaves of a file under way."""
    return name == LOCK or (name.startswith(".") and name.endswith(".partial"))


def remove_ours(folder: Path, names: Iterable[str]) -> None:
    """Remove what a command wrote, and no file of anybody else.

    `names` are files and folders, or patterns of such. The file that says whose folder it is must
    not be among them: it stays until a new one replaces it, so that a command that was killed in
    between can be given again.
    """
    for pattern in names:
        for path in folder.glob(pattern):
            try:
                remove(path)
            except OSError as e:
                raise FileError(f"{path} cannot be removed: {e.strerror or e}") from e


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
        parent = path if path.is_dir() else path.parent
        parent.mkdir(parents=True, exist_ok=True)
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=parent)
    temporary = Path(name)
    with write_errors(path, temporary):
        try:
            yield temporary
            if path.exists():
                _check_targets(temporary, path, replace or is_incomplete(path))
                _replace(temporary, path, drop)
            else:
                mask = os.umask(0)
                os.umask(mask)
                temporary.chmod(0o777 & ~mask)
                os.replace(temporary, path)
        finally:
            if _pending(path) != temporary:
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


def finish_replacing(folder: Path) -> None:
    """Replace the remaining files for a command that died while it did so, if they are there."""
    pending = _pending(folder)
    if pending is not None and pending.is_dir():
        with write_errors(folder):
            _move(pending, folder)


def _check_targets(source: Path, target: Path, replace: bool) -> None:
    """Refuse what would be overwritten unasked, or cannot be, before anything is moved."""
    for file in source.iterdir():
        there = target / file.name
        if not replace and there.exists():
            raise FileError(f"{there} exists already; choose another name, or force it (--force)")
        if there.is_dir() and not file.is_dir():
            raise FileError(f"{there}: a folder is in the way of the file to be written")


def _replace(source: Path, target: Path, drop: Collection[str]) -> None:
    before = _pending(target)
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


def _pending(folder: Path) -> Path | None:
    """The folder of the files that have yet to be moved; None if all have been."""
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


class Work:
    """The work folder of one run; make it with `open_work`."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(f"{output.name}.partial")

    @property
    def has_blocks(self) -> bool:
        """Whether there is work that can be continued."""
        return any(self._finished())

    def block(self, name: str) -> Path:
        """The file of a block, whose name ends in a digit."""
        return self.folder / f"{name}.npz"

    def settings(self) -> dict[str, Any] | None:
        """What the run was begun with; None if there is none."""
        meta = self.folder / "meta.json"
        return read_json(meta) if is_there(meta) else None

    def keep_if(self, settings: Mapping[str, object]) -> None:
        """Keep the blocks of an earlier run with the same settings, and no others."""
        wanted = json.loads(json.dumps(settings))
        with suppress(FormatError):  # damaged, so the blocks may be of anything
            if self.settings() == wanted:
                return
        self.begin(wanted, "unfinished work on other text or settings is discarded")

    def begin(self, settings: Mapping[str, object], warning: str) -> None:
        """Begin a run without blocks; says so in a warning if there were some."""
        if self.has_blocks:
            log.warning("%s: %s", self.folder, warning)
        with write_errors(self.folder):
            for path in self._finished():
                path.unlink(missing_ok=True)
            with whole_file(self.folder / "meta.json") as temporary:
                write_json(temporary, settings)

    def _finished(self) -> list[Path]:
        return [path for pattern in _FINISHED for path in self.folder.glob(pattern)]

    def new_folder(self) -> Path:
        """An empty folder to write the output to."""
        folder = self.folder / "result"
        with write_errors(folder):
            remove(folder)
            folder.mkdir()
        return folder

    def publish(self, result: Path) -> None:
        """Make `result`, in the work folder, the output; what was there goes, and so does the work.

        It is a file, or a folder, which may replace a folder.
        """
        old = self.folder / "old"
        with write_errors(self.output):
            if result.is_dir() and is_there(self.output):
                remove(old)
                os.replace(self.output, old)
            os.replace(result, self.output)
        self.clear()

    def restore(self) -> None:
        """Put right what a run left that ended while it replaced the output."""
        old = self.folder / "old"
        if is_there(old) and not is_there(self.output):
            with write_errors(self.output):
                os.replace(old, self.output)

    def clear(self) -> None:
        """Remove what this or an earlier run made, but no file that cannot be ours."""
        for pattern in _OURS:
            for path in self.folder.glob(pattern):
                with suppress(OSError):  # it is in nobody's way here
                    remove(path)


@contextmanager
def open_work(output: Path) -> Iterator[Work]:
    """The folder OUT.partial for this process alone; after an error it stays if it holds work."""
    work = Work(output)
    lock = work.folder / "lock"
    with ExitStack() as stack:
        with write_errors(work.folder):
            if is_there(work.folder) and not work.folder.is_dir():
                raise FileError(f"{work.folder} is in the way of the folder for unfinished work")
            work.folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(lock, output))
        work.restore()
        try:
            yield work
        finally:
            work.restore()
            if not work.has_blocks:
                work.clear()
                with suppress(OSError):  # files of others are in the folder
                    lock.unlink(missing_ok=True)
                    work.folder.rmdir()


@contextmanager
def locked(lock: Path, output: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the file `lock` while `output` is being written.

    Where another process holds it, `wait` for that one, or fail.
    """
    from filelock import FileLock, Timeout  # a sixth of a second, and few commands write

    holder = FileLock(lock, timeout=0, thread_local=False)
    try:
        try:
            holder.acquire()
        except Timeout as e:
            if not wait:
                raise FileError(f"{output} is being written by another process") from e
            log.warning("waiting for another process that writes %s", output)
            holder.acquire(timeout=-1)
    except (OSError, NotImplementedError) as e:
        # Some network file systems have no locks; that should stop nobody.
        if isinstance(e, OSError) and e.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        holder.release()
