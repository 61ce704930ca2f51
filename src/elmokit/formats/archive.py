"""The one model in a .zip or .tar archive, unpacked without trust in its paths and sizes."""

import fnmatch
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ..errors import MAX_VALUE, FileError, FormatError, shortened
from ..files.read import MAX_JSON_BYTES, MAX_WORDS_BYTES, ZIP_ERRORS

ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.bz2")
MAX_UNPACKED_BYTES, MAX_RATIO = 16 * 2**30, 100
"""Bytes of an unpacked archive: in all, and per byte of its own."""
MAX_MEMBERS = 10_000
MAX_RECORD_BYTES = 1 << 20
"""Bytes of a long name or other record about a file of a tar archive; tarfile reads it whole."""

_ERRORS = (*ZIP_ERRORS, tarfile.TarError, zlib.error, EOFError)
_RECORDS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return name.endswith(ARCHIVES)


class _Member(NamedTuple):
    """A regular file of an archive."""

    size: int
    open: Callable[[], IO[bytes]]


def unpack_model(path: Path, folder: Path, *, disk_variable: str = "TMPDIR") -> None:
    """Unpack the files of the one model in an archive into `folder`, and nothing else.

    No path of the archive is used: the files of the folder that holds the model go to `folder`
    under their own names, those of a TensorFlow Hub module to `folder/variables`. `disk_variable`
    is the environment variable that moves `folder` to another disk.
    """
    try:
        with _opened(path) as members:
            chosen = _model_files(members, path)
            _check_sizes(chosen, path)
            _unpack(chosen, folder, path, disk_variable)
    except (FileError, FormatError):
        raise
    except _ERRORS as e:
        kind = ".zip" if _is_zip(path) else "archive"
        reason = f"{type(e).__name__}: {e!s:.80}"
        raise FormatError(f"{path} is not a readable {kind} ({reason}); download it again") from e


@contextmanager
def _opened(path: Path) -> Iterator[dict[PurePosixPath, _Member]]:
    """The regular files of an archive by their paths in it."""
    if _is_zip(path):
        with zipfile.ZipFile(path) as archive:
            yield {
                PurePosixPath(info.filename): _Member(info.file_size, partial(archive.open, info))
                for info in archive.infolist()
                if not info.is_dir()
            }
        return
    with tarfile.open(path, tarinfo=_TarInfo) as tar:
        yield {
            # Of a regular file, extractfile never returns None.
            PurePosixPath(info.name): _Member(info.size, partial(tar.extractfile, info))  # type: ignore[arg-type]
            for info in _tar_members(tar, path)
            if info.isreg()
        }


class _TarInfo(tarfile.TarInfo):
    """The header of a file in a tar archive, unless tarfile would fill the memory to read it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_TarInfo":
        info = super().frombuf(buf, encoding, errors)
        if info.type in _RECORDS and info.size > MAX_RECORD_BYTES:
            raise ValueError(f"a header of {info.size:,} bytes")
        if info.type == tarfile.GNUTYPE_SPARSE:
            raise ValueError("a sparse file")
        return info


def _tar_members(archive: tarfile.TarFile, path: Path) -> list[tarfile.TarInfo]:
    """All members; to come to the next one, a member is decompressed, so not if it is a bomb."""
    members: list[tarfile.TarInfo] = []
    total = 0
    for info in archive:
        members.append(info)
        total += info.size
        _check_total(total, path)
        if len(members) > MAX_MEMBERS:
            raise FormatError(f"{path}: more than {MAX_MEMBERS:,} files; expected those of a model")
    return members


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix == ".zip" or file.read(2) == b"PK"


def _model_files(files: Mapping[PurePosixPath, _Member], path: Path) -> dict[str, _Member]:
    """The files of the one model in an archive, by the names under which they are unpacked."""
    from .load import FORMATS, model_files  # here: they need torch, a list of models does not

    visible = {name: m for name, m in files.items() if not name.name.startswith(".")}
    models = {
        name.parents[format.anchor.count("/")]
        for name in visible
        for format in FORMATS
        if _fits(name, format.anchor)
    }
    if len(models) != 1:
        raise FormatError(f"{path}: expected one model in the archive, found {len(models)}")
    (model,) = models
    found: dict[str, _Member] = {}
    for name, member in visible.items():
        inner = name.relative_to(model) if name.is_relative_to(model) else PurePosixPath()
        size = len(inner.parts)
        fits = any(_fits(inner, p) for p in model_files() if p.count("/") + 1 == size)
        if fits and ".." not in inner.parts:
            found[str(inner)] = member
    return found


def _fits(name: PurePosixPath, pattern: str) -> bool:
    """Whether the last parts of a path match a format's pattern."""
    parts = name.parts[-pattern.count("/") - 1 :]
    return fnmatch.fnmatchcase("/".join(parts), pattern)


def _check_sizes(members: Mapping[str, _Member], path: Path) -> None:
    """Refuse what would fill the disk or the memory, by the sizes that the archive declares."""
    for name, member in members.items():
        limit = {".json": MAX_JSON_BYTES, ".txt": MAX_WORDS_BYTES, ".dic": MAX_WORDS_BYTES}.get(
            PurePosixPath(name).suffix, MAX_UNPACKED_BYTES
        )
        if member.size > limit:
            raise FormatError(
                f"{path}: {shortened(name, MAX_VALUE)} has {member.size:,} bytes when unpacked; "
                f"expected at most {limit:,}"
            )
    _check_total(sum(member.size for member in members.values()), path)


def _check_total(total: int, path: Path) -> None:
    # Weights hardly compress: an archive that does holds something else.
    limit = min(MAX_UNPACKED_BYTES, MAX_RATIO * path.stat().st_size)
    if total > limit:
        raise FormatError(
            f"{path}: {total:,} bytes when unpacked; expected at most {limit:,} of a model"
        )


def _unpack(members: Mapping[str, _Member], folder: Path, path: Path, disk_variable: str) -> None:
    total = sum(member.size for member in members.values())
    if total > shutil.disk_usage(folder).free:
        raise FileError(
            f"{path} cannot be unpacked: it needs {total / 1e6:,.1f} MB in {folder.parent}; free "
            f"some space, or set {disk_variable} to a folder on another disk"
        )
    for name, member in members.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        left = member.size
        with member.open() as packed, target.open("wb") as unpacked:
            while block := packed.read(1 << 20):
                left -= len(block)
                if left < 0:
                    raise FormatError(f"{path}: {name} is larger than the archive says")
                try:
                    unpacked.write(block)
                except OSError as e:
                    reason = e.strerror or e
                    raise FileError(f"{path} cannot be unpacked: {reason} ({disk_variable})") from e
