"""Zstandard files as streams of bytes, by the package `zstandard`."""

import importlib
import io
from pathlib import Path
from typing import IO, Any

from ..errors import MissingExtra

_CHUNK = 1 << 17


def open_zstd(path: Path) -> IO[bytes]:
    """The decompressed bytes of a file of one or more frames.

    A damaged or truncated file raises EOFError when its end is read, like gzip and lzma.
    """
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError as error:
        raise MissingExtra("zstd", "zstandard") from error
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
