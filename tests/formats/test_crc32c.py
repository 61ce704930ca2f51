import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmokit.formats.sstable import crc32c, masked_crc32c


def bytewise_crc32c(data: bytes) -> int:
    """The definition, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def pseudo_random_bytes(size: int, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(size)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x00000000),
        (b"a", 0xC1D04330),
        (b"123456789", 0xE3069283),
        # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_vectors(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_mask_is_what_tensorflow_stores() -> None:
    # An empty tensor's entry in a checkpoint written by TensorFlow.
    assert masked_crc32c(b"") == 0xA282EAD8
    # global_step = 264.0 in the reference checkpoint.
    assert masked_crc32c(np.float32(264.0).tobytes()) == 0x1FD848E2


@given(st.binary(max_size=300))
def test_short_messages_equal_the_definition(data: bytes) -> None:
    assert crc32c(data) == bytewise_crc32c(data)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 20_000), st.integers(0, 1000))
@example(4 * (1 << 10), 0)
@example(4 * (1 << 10) + 1, 0)
@example(4 * (1 << 14), 0)
@example(4 * (1 << 14) + 1, 0)
def test_folded_messages_equal_the_definition(size: int, seed: int) -> None:
    data = pseudo_random_bytes(size, seed)
    assert crc32c(data) == bytewise_crc32c(data)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1_000_000), st.integers(0, 300), st.integers(0, 1000))
def test_long_message_with_its_crc_appended_has_the_fixed_residue(
    size: int, num_zeros: int, seed: int
) -> None:
    data = bytes(num_zeros) + pseudo_random_bytes(size, seed)
    assert crc32c(data + crc32c(data).to_bytes(4, "little")) == 0x48674BC7


def test_takes_any_contiguous_buffer() -> None:
    array = np.arange(300_000, dtype=np.float32).reshape(3, -1)
    expected = crc32c(array.tobytes())
    assert crc32c(array) == crc32c(memoryview(array.tobytes())) == expected
    # One byte in, the words are no longer aligned in memory.
    assert crc32c(memoryview(b"x" + array.tobytes())[1:]) == expected


def test_empty_and_scalar_arrays() -> None:
    assert crc32c(np.zeros((0, 7), np.float64)) == 0
    assert crc32c(np.array(264.0, np.float32)) == crc32c(np.float32(264.0).tobytes())


def test_leaves_its_input_alone() -> None:
    array = np.full(100_000, 7, np.uint8)
    crc32c(array)
    assert (array == 7).all()
