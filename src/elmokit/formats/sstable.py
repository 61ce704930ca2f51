"""The LevelDB-style sorted table in which a TensorFlow checkpoint keeps its index, and its CRC-32C.

A table is a row of blocks and a footer. Each block holds sorted entries whose keys leave out the
prefix that they share with the key before, a list of restart points, and a checked trailer. The
index block maps the last key of each data block to its offset. But: no compressed blocks, no filter
blocks, and no lookup by key, because a checkpoint's index is small enough to read whole.

A CRC is linear over GF(2), so a message can be folded. Lay it out as rows of `width` words: to
advance a row past the next one is one table lookup per word, and an XOR then merges the two. One
row remains, which is folded again with a smaller width, until a single word is left: the remainder.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..text.batch import grouped

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_HANDLES_BYTES = 40
_TRAILER = struct.Struct("<BI")  # compression type, masked CRC of the block and that type
_BLOCK_BYTES = 4096
_RESTART_INTERVAL = 16

_DAMAGED = "the file is damaged or truncated, download it again"


def read_table(data: bytes, name: str) -> dict[bytes, bytes]:
    """Every key and value of the table, in order; `name` is the file that errors mention."""
    if len(data) < _FOOTER_BYTES or data[-8:] != _MAGIC.to_bytes(8, "little"):
        raise FormatError(f"{name}: no table footer at the end of the file; {_DAMAGED}")
    footer = data[-_FOOTER_BYTES:]
    _, at = _read_handle(footer, 0, f"{name}: footer")
    index_handle, _ = _read_handle(footer, at, f"{name}: footer")
    index = _read_block(data, index_handle, f"{name}: index block")

    table: dict[bytes, bytes] = {}
    last_key: bytes | None = None
    end = 0
    for number, (_, value) in enumerate(_entries(index, f"{name}: index block")):
        where = f"{name}: data block {number}"
        (offset, size), _ = _read_handle(value, 0, where)
        # Blocks that overlap would let a small file cost a quadratic amount of work.
        if offset < end:
            raise FormatError(f"{where}: overlaps the block before it; {_DAMAGED}")
        end = offset + size
        for key, content in _entries(_read_block(data, (offset, size), where), where):
            if last_key is not None and key <= last_key:
                raise FormatError(f"{where}: keys are not in order; {_DAMAGED}")
            table[key] = content
            last_key = key
    return table


def write_table(items: Mapping[bytes, bytes]) -> bytes:
    """The table of these keys and values, uncompressed, as TensorFlow's own reader wants it."""
    table = bytearray()
    index: list[tuple[bytes, bytes]] = []
    entries = sorted(items.items())
    for group in grouped(entries, _num_bytes, max_items=1 << 32, max_size=_BLOCK_BYTES):
        handle = _append_block(table, _encode_block(group, _RESTART_INTERVAL))
        index.append((group[-1][0], handle))
    handles = _append_block(table, _encode_block([], 1))  # the metaindex, which nobody fills
    handles += _append_block(table, _encode_block(index, 1))
    table += handles.ljust(_HANDLES_BYTES, b"\0") + _MAGIC.to_bytes(8, "little")
    return bytes(table)


def read_varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    """The unsigned 64-bit varint at `at`, and the offset after it."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and value < 1 << 64:
            return value, at + i + 1
    raise FormatError(f"{where}: a number at byte {at} is cut off or too large; {_DAMAGED}")


def write_varint(value: int) -> bytes:
    """The shortest varint of an unsigned number."""
    assert value >= 0
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_handle(data: bytes, at: int, where: str) -> tuple[tuple[int, int], int]:
    offset, at = read_varint(data, at, where)
    size, at = read_varint(data, at, where)
    return (offset, size), at


def _read_block(data: bytes, handle: tuple[int, int], where: str) -> bytes:
    """The contents of one block, checked against its trailer."""
    offset, size = handle
    if offset + size + _TRAILER.size > len(data) - _FOOTER_BYTES:
        raise FormatError(
            f"{where}: needs bytes {offset} to {offset + size} of a file of {len(data)}; {_DAMAGED}"
        )
    compression, crc = _TRAILER.unpack_from(data, offset + size)
    if masked_crc32c(data[offset : offset + size + 1]) != crc:
        raise FormatError(f"{where}: wrong checksum; {_DAMAGED}")
    if compression != 0:
        raise FormatError(
            f"{where}: compression type {compression} is not supported; "
            "save the checkpoint again with TensorFlow's Saver, which does not compress"
        )
    return data[offset : offset + size]


def _entries(block: bytes, where: str) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block; the restart points serve searches only and are skipped."""
    num_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (num_restarts + 1)
    if end < 0:
        raise FormatError(f"{where}: {num_restarts} restart points do not fit in it; {_DAMAGED}")
    # Writers spell out every 16th key, so honest keys cannot outgrow the block by more than that.
    budget = _RESTART_INTERVAL * len(block)
    key, at = b"", 0
    while at < end:
        shared, at = read_varint(block, at, where)
        unshared, at = read_varint(block, at, where)
        size, at = read_varint(block, at, where)
        budget -= shared + unshared
        if shared > len(key) or at + unshared + size > end or budget < 0:
            raise FormatError(f"{where}: an entry before byte {at} has a wrong size; {_DAMAGED}")
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + size]
        at += size


def _num_bytes(entry: tuple[bytes, bytes]) -> int:
    return len(entry[0]) + len(entry[1])


def _encode_block(entries: Iterable[tuple[bytes, bytes]], restart_interval: int) -> bytes:
    block = bytearray()
    restarts: list[int] = []
    previous = b""
    for number, (key, value) in enumerate(entries):
        if number % restart_interval == 0:
            restarts.append(len(block))
            previous = b""
        differ = (i for i, (one, other) in enumerate(zip(previous, key)) if one != other)
        shared = next(differ, min(len(previous), len(key)))
        block += write_varint(shared) + write_varint(len(key) - shared) + write_varint(len(value))
        block += key[shared:] + value
        previous = key
    restarts = restarts or [0]  # readers expect at least one
    return bytes(block) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def _append_block(table: bytearray, block: bytes) -> bytes:
    """Append the block and its trailer; returns the handle that finds it again."""
    handle = write_varint(len(table)) + write_varint(len(block))
    table += block + _TRAILER.pack(0, masked_crc32c(block + b"\0"))
    return handle


_POLYNOMIAL = 0x82F63B78  # reflected: bit 31 holds the coefficient of x^0
_ONE = 0x80000000
_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_WORD_BYTES = 4
# The widest row stays in the cache beside its tables; the last width leaves the one word we want.
_WIDTHS = (1 << 14, 1 << 10, 1 << 6, 1 << 3, 1)

_Words = npt.NDArray[np.uint32]
_Bytes = npt.NDArray[np.uint8]


def crc32c(data: bytes | memoryview | npt.NDArray[Any]) -> int:
    """CRC-32C of a C-contiguous buffer, as an unsigned 32-bit number.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    message = np.frombuffer(data, np.uint8)
    remainder = message
    for width in _WIDTHS:
        if len(remainder) > width * _WORD_BYTES or width == 1:
            remainder = _fold(remainder, width).view(np.uint8)
    last_word = int(remainder.view("<u4")[0])
    # The standard starts from all ones; by linearity that is a term which depends on length alone.
    start = _multiply(_ALL_ONES, _power_of_x(8 * len(message)))
    return _multiply(last_word, _power_of_x(8 * _WORD_BYTES)) ^ start ^ _ALL_ONES


def masked_crc32c(data: bytes | memoryview | npt.NDArray[Any]) -> int:
    """CRC-32C as LevelDB and TensorFlow store it, so that a CRC of CRCs stays meaningful."""
    crc = crc32c(data)
    rotated = (crc >> 15 | crc << 17) & _ALL_ONES
    return (rotated + _MASK_DELTA) & _ALL_ONES


def _fold(message: _Bytes, width: int) -> _Words:
    """A row of `width` words with the same remainder as the whole message."""
    row_bytes = width * _WORD_BYTES
    head = len(message) % row_bytes
    # Zeros in front of a message leave its remainder alone: they make the first row whole.
    first = np.zeros(row_bytes, np.uint8)
    first[row_bytes - head :] = message[:head]
    row: _Words = first.view("<u4")
    low, high = _advance_tables(width)
    for following in message[head:].view("<u4").reshape(-1, width):
        halves = row.view("<u2")
        row = low.take(halves[0::2]) ^ high.take(halves[1::2]) ^ following
    return row


@cache
def _advance_tables(num_words: int) -> tuple[_Words, _Words]:
    """What each low and each high half of a word becomes `num_words` words further on."""
    factor = _power_of_x(8 * _WORD_BYTES * num_words)
    low, high = np.zeros((2, 1 << 16), np.uint32)
    for bit in range(16):
        size = 1 << bit
        low[size : 2 * size] = low[:size] ^ np.uint32(_multiply(size, factor))
        high[size : 2 * size] = high[:size] ^ np.uint32(_multiply(size << 16, factor))
    return low, high


@lru_cache
def _power_of_x(exponent: int) -> int:
    """x^exponent modulo the polynomial, by repeated squaring."""
    power, square = _ONE, _ONE >> 1
    while exponent:
        if exponent & 1:
            power = _multiply(power, square)
        square = _multiply(square, square)
        exponent >>= 1
    return power


def _multiply(left: int, right: int) -> int:
    """Product of two reflected polynomials modulo the polynomial."""
    product = 0
    while left:
        if left & _ONE:
            product ^= right
        left = left << 1 & _ALL_ONES
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product
