"""The finished part of a run, kept in a folder DIR.partial until DIR can be written whole.

    meta.json           what the run was begun with
    train-000000.npz    what a block of text holds; each is whole or not there
    corpus/             DIR while it is being written, renamed when it is complete

A run that is killed at any moment leaves DIR as it was, and continues with its blocks.
"""

import json
import logging
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import FileError
from ..io.files import whole_file, write_json
from ..io.lock import locked
from .corpus import FORMAT

log = logging.getLogger(__name__)

_OURS = ("*.npz", ".*.partial", "meta.json", "stdin-*")


class Work:
    """The work folder of one run; make it with `open_work`."""

    def __init__(self, output: Path, folder: Path) -> None:
        self.output = output
        self.folder = folder

    def begin(self, settings: Mapping[str, object]) -> None:
        """Keep the blocks of an earlier run with the same settings, and no others."""
        meta = self.folder / "meta.json"
        wanted = json.loads(json.dumps(settings))
        with suppress(OSError, ValueError):
            if json.loads(meta.read_text(encoding="utf-8")) == wanted:
                return
        if self._has_blocks:
            log.warning("%s: unfinished work on other text or settings is discarded", self.folder)
        for path in self.folder.glob("*.npz"):
            path.unlink()
        with whole_file(meta) as temporary:
            write_json(temporary, wanted)

    def block(self, part: str, number: int) -> Path:
        """The file of a block."""
        return self.folder / f"{part}-{number:06d}.npz"

    def is_done(self, path: Path) -> bool:
        """Whether the file of a block is there and whole, which a power failure may prevent."""
        return path.is_file() and zipfile.is_zipfile(path)

    def new_corpus(self) -> Path:
        """An empty folder to write the output to."""
        folder = self.folder / "corpus"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def publish(self, folder: Path) -> None:
        """Make `folder`, inside the work folder, the output; what was there before goes."""
        old = self.folder / "old"
        if self.output.exists():
            os.replace(self.output, old)
        os.replace(folder, self.output)
        shutil.rmtree(old, ignore_errors=True)
        self.clear()

    def clear(self) -> None:
        """Remove what this or an earlier run made, but no file that cannot be ours."""
        for pattern in _OURS:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "corpus", ignore_errors=True)

    @property
    def _has_blocks(self) -> bool:
        return any(self.folder.glob("*.npz"))


def check_output(output: Path, force: bool) -> None:
    """Fail if `output` exists, unless it is a prepared corpus that may be replaced."""
    if not output.exists():
        return
    if not output.is_dir():
        raise FileError(f"{output}: a file is in the way of the folder to be written")
    if not any(output.iterdir()):
        return
    if not _is_corpus(output):
        raise FileError(
            f"{output}: there are other files in this folder, which is not a prepared corpus; "
            "choose a new folder"
        )
    if not force:
        raise FileError(f"{output} exists already; choose another folder, or replace it (--force)")


@contextmanager
def open_work(output: Path) -> Iterator[Work]:
    """The folder DIR.partial for this process alone; after an error it stays if it holds work."""
    folder = output.with_name(f"{output.name}.partial")
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is in the way of the folder for unfinished work")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise FileError(f"{folder} cannot be made: {e.strerror or e}") from e
    work = Work(output, folder)
    lock = folder / "lock"
    with locked(lock, output):
        try:
            yield work
        finally:
            if not work._has_blocks:
                work.clear()
                with suppress(OSError):  # files of others are in the folder
                    lock.unlink(missing_ok=True)
                    folder.rmdir()


def _is_corpus(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        values = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        return isinstance(values, dict) and values.get("format") == FORMAT
    return False
