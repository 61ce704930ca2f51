"""A file as bytes: by lines, by words, or by number, with little of it in memory at a time."""

from collections.abc import Iterable


class ByteStream:
    """The bytes of some blocks, read from the front.

    Args:
        blocks: The file in pieces; a byte order mark before it is skipped.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._buffer = b""
        self._at = 0
        self._more()
        self._buffer = self._buffer.removeprefix(b"\xef\xbb\xbf")

    @property
    def at_end(self) -> bool:
        """Whether there is nothing left."""
        return self._at == len(self._buffer) and not self._more()

    def until(self, end: bytes, limit: int) -> bytes | None:
        """The bytes before the next `end`, which is skipped, or before the end of the file.

        None if there are more of them than `limit`, which are then still to be read.
        """
        searched = self._at
        while (found := self._buffer.find(end, searched)) < 0:
            if len(self._buffer) - self._at > limit:
                return None
            unread = len(self._buffer) - self._at
            if not self._more():
                return self.take(unread)
            searched = unread
        if found - self._at > limit:
            return None
        start, self._at = self._at, found + len(end)
        return self._buffer[start:found]

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or fewer at the end of the file."""
        self._fill(size)
        start, self._at = self._at, min(self._at + size, len(self._buffer))
        return self._buffer[start : self._at]

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, which are still to be read; fewer at the end of the file."""
        self._fill(size)
        return self._buffer[self._at : self._at + size]

    def _fill(self, size: int) -> None:
        while len(self._buffer) - self._at < size and self._more():
            pass

    def _more(self) -> bool:
        """Put another block behind what is not read yet; False at the end of the file."""
        block = next(self._blocks, b"")
        if block:
            self._buffer = self._buffer[self._at :] + block
            self._at = 0
        return bool(block)
