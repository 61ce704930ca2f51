import contextlib
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import FormatError
from elmokit.formats.sstable import (
    masked_crc32c,
    read_table,
    read_varint,
    write_table,
    write_varint,
)

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "tf-checkpoint"
MAGIC = bytes.fromhex("57fb808b247547db")
ONE_RESTART = struct.pack("<II", 0, 1)


def entry(shared: int, unshared: bytes, value: bytes) -> bytes:
    sizes = write_varint(shared) + write_varint(len(unshared)) + write_varint(len(value))
    return sizes + unshared + value


def table_of(*blocks: bytes, compression: int = 0, places: list[int] | None = None) -> bytes:
    """A table around hand-made data blocks, with honest checksums.

    Args:
        places: The data block that each entry of the index points to; by default each in turn.
    """
    data = b""
    handles = []
    for block in blocks:
        handles.append(write_varint(len(data)) + write_varint(len(block)))
        trailed = block + bytes([compression])
        data += trailed + masked_crc32c(trailed).to_bytes(4, "little")
    order = range(len(blocks)) if places is None else places
    index = b"".join(entry(0, b"k%05d" % n, handles[place]) for n, place in enumerate(order))
    index += ONE_RESTART
    handle = write_varint(len(data)) + write_varint(len(index))
    data += index + b"\0" + masked_crc32c(index + b"\0").to_bytes(4, "little")
    return data + (b"\0\0" + handle).ljust(40, b"\0") + MAGIC


@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=200), max_size=60))
@settings(deadline=None)
def test_round_trip(items: dict[bytes, bytes]) -> None:
    table = read_table(write_table(items), "t")
    assert table == items
    assert list(table) == sorted(items)


def test_round_trip_over_many_blocks() -> None:
    items = {b"scope/%05d/kernel" % number: b"v" * (number % 50) for number in range(3000)}
    items[b"large"] = bytes(100_000)
    assert read_table(write_table(items), "t") == items


def test_same_bytes_as_leveldb_for_a_small_block() -> None:
    """Prefix compression, restart and trailer, worked out by hand."""
    block = entry(0, b"", b"h") + entry(0, b"lm/a", b"1") + entry(3, b"b", b"2") + ONE_RESTART
    written = write_table({b"lm/b": b"2", b"": b"h", b"lm/a": b"1"})
    assert written.startswith(block + b"\0" + masked_crc32c(block + b"\0").to_bytes(4, "little"))
    assert written.endswith(MAGIC)


@pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no reference checkpoint at {FIXTURES}")
def test_reads_the_index_that_tensorflow_wrote() -> None:
    table = read_table((FIXTURES / "model.ckpt-264.index").read_bytes(), "model.ckpt-264.index")
    assert table[b""] == b"\x08\x01\x1a\x02\x08\x01"
    assert len(table) == 65
    assert b"lm/softmax/W" in table
    assert read_table(write_table(table), "t") == table


@given(st.integers(0, 2**64 - 1))
def test_varint_round_trip(value: int) -> None:
    assert read_varint(write_varint(value) + b"tail", 0, "t") == (value, len(write_varint(value)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9 + b"\x02", b"\xff" * 10, b"\x80" * 99])
def test_varint_that_is_cut_off_or_overflows(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^where: a number at byte 0 "):
        read_varint(data, 0, "where")


HOSTILE = {
    "no bytes": b"",
    "short": MAGIC,
    "no magic": bytes(100),
    "endless varint in the footer": b"\xff" * 40 + MAGIC,
    "index far outside": (b"\0\0" + write_varint(2**63) * 2).ljust(40, b"\0") + MAGIC,
    "data block is the footer": table_of(b"")[:-48] + b"\0\0\0\x30".ljust(40, b"\0") + MAGIC,
    "block without restarts": table_of(b""),
    "block of three bytes": table_of(b"\0\0\0"),
    "restarts do not fit": table_of(struct.pack("<II", 0, 2**32 - 1)),
    "shared prefix longer than the key": table_of(entry(1, b"a", b"") + ONE_RESTART),
    "value longer than the block": table_of(b"\0\0\x7f" + ONE_RESTART),
    "value reaches into the restarts": table_of(b"\0\0\x01" + ONE_RESTART),
    "key longer than the block": table_of(b"\0" + write_varint(2**64 - 1) + b"\0" + ONE_RESTART),
    "key twice": table_of(entry(0, b"a", b"") * 2 + ONE_RESTART),
    "keys in reverse": table_of(entry(0, b"b", b"") + entry(0, b"a", b"") + ONE_RESTART),
    "same block twice": table_of(entry(0, b"a", b"") + ONE_RESTART, places=[0, 0]),
    "blocks in reverse": table_of(ONE_RESTART, ONE_RESTART, places=[1, 0]),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_table_is_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^some\.index: [^\n]*download it again$"):
        read_table(data, "some.index")


def test_compressed_block_is_named() -> None:
    with pytest.raises(FormatError, match="data block 0: compression type 1 is not supported"):
        read_table(table_of(entry(0, b"a", b"") + ONE_RESTART, compression=1), "some.index")


def test_shared_prefixes_cannot_multiply_memory() -> None:
    """A 100 kB key that each of 20,000 entries lengthens by a byte would decode to 2 GB."""
    bomb = entry(0, bytes(100_000), b"")
    bomb += b"".join(entry(100_000 + n, b"\0", b"") for n in range(20_000))
    table = table_of(bomb + ONE_RESTART)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="wrong size"):
            read_table(table, "some.index")
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_block_is_read_or_refused(block: bytes) -> None:
    try:
        read_table(table_of(block + ONE_RESTART), "some.index")
    except FormatError as error:
        assert "\n" not in str(error)


def test_every_damaged_byte_and_every_truncation() -> None:
    items = {b"a": b"1", b"ab": b"2", b"b": bytes(20)}
    table = write_table(items)
    damaged = [table[:size] for size in range(len(table))]
    for place in range(len(table)):
        for flip in (0x01, 0x80, 0xFF):
            damaged.append(table[:place] + bytes([table[place] ^ flip]) + table[place + 1 :])
    for data in damaged:
        with contextlib.suppress(FormatError):
            assert read_table(data, "some.index") == items
