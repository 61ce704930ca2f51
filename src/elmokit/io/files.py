"""Files that are either whole or not there, and text files plain or compressed."""

import gzip
import json
import lzma
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ..errors import FileError, FormatError
from .zstd import open_zstd


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; it becomes `path` if the block succeeds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """A temporary folder to fill; its files move to `path` if the block succeeds.

    Files of the same names in an existing `path` are replaced, or an error without `replace`;
    others stay.
    """
    if path.exists() and not path.is_dir():
        raise FileError(f"{path}: a file is in the way of the folder to be written")
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        temporary = Path(name)
        try:
            yield temporary
            if path.exists():
                files = sorted(temporary.iterdir())
                for file in files:
                    if not replace and (path / file.name).exists():
                        raise FileError(
                            f"{path / file.name} exists already; choose another name, "
                            "or force it (--force)"
                        )
                for file in files:
                    os.replace(file, path / file.name)
            else:
                temporary.chmod(0o777 & ~_umask())
                os.replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise FileError(f"{path} cannot be read: {e.strerror or e}") from e
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
            raise FormatError(f"{where}: {path} has no place in {value!r:.40}")
        if name not in value:
            if default is not ...:
                return default
            raise FormatError(f"{where}: the field {path} is missing")
        value = value[name]
    if type(value) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise FormatError(f"{where}: {path}={value!r:.40}: expected {names}")
    return value


def write_json(path: Path, value: object) -> None:
    """Write `value` for people to read."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_lines(source: Path | str) -> Iterator[str]:
    """The lines of a text file, without their ends; `-` is standard input.

    `.gz`, `.xz` and `.zst` files are decompressed. Only a newline ends a line, so that line numbers
    are those of every other program, and bytes that are not UTF-8 are an error with their line.
    """
    path = Path(source)
    number = 0
    with _read_errors(path, lambda: f"after line {number}"), _open_binary(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
            except UnicodeDecodeError as e:
                raise not_utf8(path, number, e.reason, e.start) from e
            yield text.removeprefix("\ufeff") if number == 1 else text


def read_blocks(source: Path | str, size: int, *, paragraphs: bool = False) -> Iterator[bytes]:
    """The bytes of a text file in blocks of about `size`, each of whole lines.

    They end at the end of a paragraph, that is before an empty line, where that is wanted and there
    is one. A line longer than a block is cut at a blank, or else between two characters.
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
                end = _last_blank(data)
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


def _last_blank(data: bytes) -> int:
    """Where a line that is too long may be cut: after a blank, or else before a character."""
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
    except OSError as e:
        raise FileError(f"{path} cannot be read: {e.strerror or e}") from e


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Say which file could not be written, and why, in an error of ours."""
    try:
        yield
    except FileError:
        raise
    except OSError as e:
        raise FileError(f"{path} cannot be written: {e.strerror or e}") from e


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
