"""The finished part of a long run, kept in a folder OUT.partial until OUT can be written whole.

    meta.json       what the run was begun with
    …0.npz          blocks of finished work; each is whole or not there
    result…         OUT while it is being written, renamed when it is complete
    old             what was at OUT, until the new one has taken its place

A run that is killed at any moment leaves at OUT what was there before or what is new, or nothing
for the instant between the two; the next run puts right what the last one left.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import FileError, FormatError
from .files import is_there, read_json, whole_file, write_errors, write_json
from .lock import locked
from .replace import remove

log = logging.getLogger(__name__)

_BLOCKS, _OURS = "*[0-9].npz", (".*.partial", "meta.json", "stdin-*", "result*", "old")


class Work:
    """The work folder of one run; make it with `open_work`."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(f"{output.name}.partial")

    @property
    def has_blocks(self) -> bool:
        """Whether there is work that can be continued."""
        return any(self.folder.glob(_BLOCKS))

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
            for path in self.folder.glob(_BLOCKS):
                path.unlink(missing_ok=True)
            with whole_file(self.folder / "meta.json") as temporary:
                write_json(temporary, settings)

    def new_folder(self) -> Path:
        """An empty folder to write the output to."""
        folder = self.folder / "result"
        with write_errors(folder):
            remove(folder)
            folder.mkdir()
        return folder

    def publish(self, result: Path) -> None:
        """Make `result`, in the work folder, the output; what was there goes, and so does the work.

        Args:
            result: A file, or a folder, which may replace a folder.
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
        for pattern in (_BLOCKS, *_OURS):
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
