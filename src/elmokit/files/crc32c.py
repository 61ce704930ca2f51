"""CRC-32C (Castagnoli) of large buffers in numpy, and the masked form that TensorFlow stores.

A CRC is linear over GF(2), so a message can be folded. Lay it out as rows of `width` words: to
advance a row past the next one is one table lookup a word, and an XOR then merges the two. One row
remains, which is folded again with a smaller width, until a single word is left: the remainder.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

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
