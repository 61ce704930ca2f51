"""Reading without trust: what is there, JSON, and text files, plain or compressed."""

import gzip
import io
import json
import lzma
import os
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ..errors import FileError, FormatError, import_extra, quoted

MAX_JSON_BYTES = 64 << 20
MAX_WORDS_BYTES = 1 << 30
"""The largest vocabulary or dictionary that is read."""
MAX_LINE_BYTES = 64 << 20

ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError,
    struct.error,
)  # fmt: skip
"""What zipfile and its decompressors raise for damaged archives."""

_CHUNK = 1 << 17


def check_readable(path: Path, limit: int | None = None) -> None:
    """Fail for what is no regular file, cannot be opened, or is larger than `limit` bytes.

    To open a pipe could wait for ever, and a device may have no end.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
            raise FileError(f"{path} is {kind}; expected a file")
        path.open("rb").close()
    except FileNotFoundError as e:
        raise FileError(f"{path}: no such file") from e
    except (OSError, ValueError) as e:
        raise unreadable(path, e) from e
    if limit is not None and found.st_size > limit:
        raise FormatError(f"{path}: {found.st_size:,} bytes; expected at most {limit:,}")


def check_no_device(path: Path) -> None:
    """Fail for a device such as /dev/zero, which has no end; pipes and terminals hold text."""
    if str(path) == "-" or not is_there(path):
        return
    mode = path.stat().st_mode
    is_text = not stat.S_ISCHR(mode) or path.samefile(os.devnull)
    if not is_text:
        with path.open("rb", buffering=0) as file:
            is_text = file.isatty()
    if stat.S_ISBLK(mode) or not is_text:
        raise FileError(f"{path} is a device; expected a text file")


def unreadable(path: Path, e: Exception) -> FileError:
    """The error for a file that is there, perhaps, but does not let itself be read."""
    if isinstance(e, FileError):
        return e
    return FileError(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}")


def list_folder(folder: Path) -> list[Path]:
    """What is in a folder, sorted; a folder that cannot be read is an error, not an empty one."""
    try:
        return sorted(folder.iterdir())
    except OSError as e:
        raise unreadable(folder, e) from e


def is_there(path: Path) -> bool:
    """Whether there is something at `path`; if nobody can tell, that is an error."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as e:
        raise unreadable(path, e) from e
    return True


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file."""
    check_readable(path, MAX_JSON_BYTES)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise unreadable(path, e) from e
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{path} is not JSON: {e}") from e
    if not isinstance(value, dict):
        raise FormatError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def json_field(
    values: Mapping[str, Any], path: str, *kinds: type, where: str, default: Any = ...
) -> Any:
    """The field at a dotted path of a JSON object, which must be of one of `kinds`."""
    value: Any = values
    for name in path.split("."):
        if not isinstance(value, Mapping):
            raise FormatError(f"{where}: {path} has no place in {quoted(value)}")
        if name not in value:
            if default is not ...:
                return default
            raise FormatError(f"{where}: the field {path} is missing")
        value = value[name]
    if type(value) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise FormatError(f"{where}: {path}={quoted(value)}: expected {names}")
    return value


def read_words(path: Path) -> Iterator[str]:
    """The lines of a file that belongs to a model, such as a vocabulary, of bounded size."""
    check_readable(path, MAX_WORDS_BYTES)
    return read_lines(path)


def read_lines(source: Path | str, limit: int | None = None) -> Iterator[str]:
    """The lines of a text file, without their ends; `-` is standard input.

    `.gz`, `.xz` and `.zst` files are decompressed. Only a newline ends a line, so that line numbers
    are those of every other program. Lines of more than `limit` bytes (64 MiB by
    default), and bytes that are not UTF-8, are an error with their line.
    """
    path, limit = Path(source), MAX_LINE_BYTES if limit is None else limit
    number = 0
    with _read_errors(path, lambda: f"after line {number}"), _open_binary(path) as file:
        lines = iter(lambda: file.readline(limit + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > limit:
                raise FormatError(
                    f"{path}, line {number}: longer than {limit >> 20} MiB; expected one "
                    "sentence per line"
                )
            try:
                text = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
            except UnicodeDecodeError as e:
                raise not_utf8(path, number, e.reason, e.start) from e
            yield text.removeprefix("\ufeff") if number == 1 else text


def read_blocks(source: Path | str, size: int, *, paragraphs: bool = False) -> Iterator[bytes]:
    """The bytes of a text file in blocks of about `size`, each of whole lines.

    They end at the end of a paragraph, that is before an empty line, where that is wanted and there
    is one. A line longer than a block is cut at a space, or else between two characters.
    """
    path = Path(source)
    num_read = 0
    with _read_errors(path, lambda: f"after {num_read:,} bytes"), _open_binary(path) as file:
        rest = b""
        while data := file.read(size):
            num_read += len(data)
            data = rest + data
            end = _last_break(data, paragraphs)
            if end == 0 and len(data) >= size:
                end = _last_space(data)
            if end:
                yield data[:end]
            rest = data[end:]
        if rest:
            yield rest


def not_utf8(path: Path | str, line: int, reason: str, byte: int) -> FormatError:
    """The error for a text in another encoding; `byte` counts from the beginning of its line."""
    return FormatError(
        f"{path}, line {line}: not UTF-8 ({reason} at byte {byte}); "
        "convert the file, for example with: iconv -f ORIGINAL -t UTF-8"
    )


def _last_break(data: bytes, paragraphs: bool) -> int:
    """Where the last line of `data` begins, or its last paragraph if there is one; 0 in a line."""
    if paragraphs:
        end = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3)
        if end > 2:
            return end
    return data.rfind(b"\n") + 1


def _last_space(data: bytes) -> int:
    """Where a line that is too long may be cut: after a space, or else before a character."""
    end = data.rfind(b" ") + 1
    if end == 0:
        end = len(data)
        while end > max(1, len(data) - 4) and data[end - 1] & 0xC0 == 0x80:
            end -= 1
        end = end - 1 if end > 1 and data[end - 1] >= 0xC0 else len(data)
    return end


def _open_binary(path: Path) -> IO[bytes]:
    if str(path) == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    check_no_device(path)
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if path.suffix == ".zst":
        return open_zstd(path)
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")


@contextmanager
def _read_errors(path: Path, position: Callable[[], str]) -> Iterator[None]:
    """Say which file could not be read, up to where, and why, in an error of ours."""
    try:
        yield
    except FileError:
        raise
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as e:
        raise FormatError(f"{path}, {position()}: damaged compressed file ({e})") from e
    except (OSError, ValueError) as e:
        if isinstance(e, FormatError):
            raise
        raise unreadable(path, e) from e


def open_zstd(path: Path) -> IO[bytes]:
    """The decompressed bytes of a file of one or more frames.

    A damaged or truncated file raises EOFError when its end is read, like gzip and lzma.
    """
    zstandard = import_extra("zstandard", "zstd")
    return io.BufferedReader(_Frames(path.open("rb"), zstandard), _CHUNK)


class _Frames(io.RawIOBase):
    """All frames of a file: `zstandard.open` stops after the first, and at a truncated end."""

    def __init__(self, file: IO[bytes], zstandard: Any) -> None:
        self._file = file
        self._zstandard = zstandard
        self._frame: Any = None
        self._input = b""
        self._output = b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._output and self._advance():
            pass
        size = min(len(buffer), len(self._output))
        buffer[:size], self._output = self._output[:size], self._output[size:]
        return size

    def _advance(self) -> bool:
        """Decompress the next bytes; False at the end of the file."""
        self._input = self._input or self._file.read(_CHUNK)
        if not self._input:
            if self._frame is not None:
                raise EOFError("the file ends inside a frame")
            return False
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor().decompressobj()
        try:
            self._output = self._frame.decompress(self._input)
        except self._zstandard.ZstdError as e:
            raise EOFError(str(e)) from e
        self._input = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None
        return True
