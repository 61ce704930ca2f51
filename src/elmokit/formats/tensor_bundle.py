"""TensorFlow "V2" checkpoints (PREFIX.index and PREFIX.data-*) read and written without TensorFlow.

The index is a sorted table from tensor name to a protobuf message that tells where in which data
file (shard) the tensor's bytes are. But: no partitioned variables and no strings (an error only if
such a tensor is wanted), and no big-endian files.
"""

import contextlib
import math
import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, FileError, FormatError, quoted
from ..files.read import check_readable, unreadable
from ..files.write import check_space
from .sstable import masked_crc32c, read_table, read_varint, write_table, write_varint

_DTYPES = {1: "float32", 2: "float64", 3: "int32", 9: "int64", 19: "float16"}
_CODES = {name: code for code, name in _DTYPES.items()}
_FIXED = {1: 8, 5: 4}  # bytes of the protobuf wire types that have no length of their own
_HEADER = b"\x08\x01\x1a\x02\x08\x01"  # one shard, little-endian, written by format version 1
# Beyond any real index or tensor; they bound what a hostile file can cost.
_MAX_INDEX_BYTES = 1 << 22
_MAX_DIMS = 32
_MAX_ELEMENTS = 1 << 48
_KNOWN = f"{', '.join(_CODES)} of up to {_MAX_DIMS} dimensions"
_DAMAGED = "the checkpoint is damaged or truncated, download it again"


class _Entry(NamedTuple):
    name: str
    code: int
    shape: tuple[int, ...]
    shard: Path
    offset: int
    size: int
    crc: int
    partitioned: bool


def read_bundle(prefix: Path, wanted: Callable[[str], bool] = all) -> dict[str, npt.NDArray[Any]]:
    """The tensors with a `wanted` name (`all` accepts any), CRC-checked; no other is read.

    Example:
        >>> weights = read_bundle(Path("model.ckpt-264"), lambda name: "Adagrad" not in name)
    """
    chosen = [entry for entry in _read_index(prefix) if wanted(entry.name)]
    for one, following in pairwise(sorted(chosen, key=lambda entry: entry[3:6])):
        # Overlaps would let a small file ask for any amount of memory.
        if one.shard == following.shard and one.offset + one.size > following.offset:
            raise FormatError(
                f"{one.shard}: {quoted(one.name)} overlaps {quoted(following.name)}; {_DAMAGED}"
            )
    return {entry.name: _read_tensor(entry) for entry in chosen}


def write_bundle(prefix: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the tensors as a checkpoint of one shard that TensorFlow can load.

    Both files are complete before either gets its name, and the index comes last; a failure
    leaves nothing behind.
    """
    names = sorted(tensors, key=lambda name: _checked_key(name, tensors[name]))
    paths = [Path(f"{prefix}.data-00000-of-00001"), Path(f"{prefix}.index")]
    drafts = [Path(f"{path}.{secrets.token_hex(4)}.tmp") for path in paths]
    table, offset = {b"": _HEADER}, 0
    check_space(paths[0], sum(tensor.nbytes for tensor in tensors.values()))
    try:
        with drafts[0].open("xb") as file:
            for name in names:
                tensor = tensors[name]
                raw = np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<")).reshape(-1)
                file.write(raw.view(np.uint8).data)
                table[name.encode()] = _encode_entry(tensor, offset, masked_crc32c(raw))
                offset += tensor.nbytes
        drafts[1].write_bytes(write_table(table))
        os.replace(drafts[0], paths[0])
        drafts[0] = paths[0]  # without its index it is of no use to anybody
        os.replace(drafts[1], paths[1])
        drafts.clear()
    except OSError as error:
        reason = error.strerror or error
        raise FileError(
            f"{prefix} cannot be written: {reason}; check the folder and disk"
        ) from error
    finally:
        for draft in drafts:
            with contextlib.suppress(OSError):
                draft.unlink()


def _read_index(prefix: Path) -> list[_Entry]:
    path = Path(f"{prefix}.index")
    raw = _read_bytes(path, 0, _MAX_INDEX_BYTES + 1)
    if len(raw) > _MAX_INDEX_BYTES:
        raise FormatError(f"{path}: too large for the index of a checkpoint; check the name")
    table = read_table(raw.tobytes(), str(path))
    header, parts = _decode(table.pop(b"", b""), f"{path}: header")
    version, _ = _decode(b"".join(parts[3]), f"{path}: header version")
    if not header[1] or header[2] or version[2] > 1:
        raise FormatError(f"{path}: not a little-endian checkpoint of version 1; save it again")
    return [
        _parse_entry(prefix, key, value, num_shards=header[1])
        for key, value in table.items()
        if not key.startswith(b"\0")  # a part of a partitioned variable, under a binary key
    ]


def _parse_entry(prefix: Path, key: bytes, value: bytes, num_shards: int) -> _Entry:
    name = key.decode(errors="backslashreplace")
    where = f"{prefix}.index: tensor {quoted(name)}"
    numbers, parts = _decode(value, where)
    dims = _decode(b"".join(parts[2]), where)[1][2]
    shape = tuple(_decode(dim, where)[0][1] for dim in dims[: _MAX_DIMS + 1])
    # A zero must not hide sizes that numpy refuses.
    if len(dims) > _MAX_DIMS or math.prod(dim or 1 for dim in shape) > _MAX_ELEMENTS:
        raise FormatError(f"{where}: absurd shape; {_DAMAGED}")
    code, shard, offset, size, crc = (numbers[field] for field in (1, 3, 4, 5, 6))
    if shard >= num_shards or name.encode() != key:
        raise FormatError(f"{where}: not UTF-8, or in shard {shard} of {num_shards}; {_DAMAGED}")
    path = Path(f"{prefix}.data-{shard:05d}-of-{num_shards:05d}")
    return _Entry(name, code, shape, path, offset, size, crc, partitioned=7 in parts)


def _read_tensor(entry: _Entry) -> npt.NDArray[Any]:
    where = f"{entry.shard}: tensor {quoted(entry.name)}"
    if entry.partitioned:
        raise FormatError(f"{where} is partitioned; save the checkpoint without a partitioner")
    if entry.code not in _DTYPES:
        raise FormatError(f"{where}: dtype {entry.code} is none of {_KNOWN}; leave it out")
    dtype = np.dtype(_DTYPES[entry.code]).newbyteorder("<")
    if math.prod(entry.shape) * dtype.itemsize != entry.size:
        raise FormatError(f"{where}: {entry.size} bytes for shape {entry.shape}; {_DAMAGED}")
    raw = _read_bytes(entry.shard, entry.offset, entry.size)
    if len(raw) != entry.size or masked_crc32c(raw) != entry.crc:
        raise FormatError(f"{where}: {len(raw)} bytes with a wrong checksum; {_DAMAGED}")
    return raw.view(dtype).reshape(entry.shape)


def _read_bytes(path: Path, offset: int, limit: int) -> npt.NDArray[np.uint8]:
    """At most `limit` bytes from `offset` on; allocates no more than the file holds."""
    check_readable(path)
    try:
        length = path.stat().st_size
        start = min(offset, length)
        return np.fromfile(path, np.uint8, min(limit, length - start), offset=start)
    except OSError as error:
        raise unreadable(path, error) from error


def _checked_key(name: str, tensor: npt.NDArray[Any]) -> bytes:
    key, what = name.encode(errors="replace"), f"tensor {quoted(name)}"
    if key.decode() != name or key[:1] in (b"", b"\0"):
        raise ConfigError(f"{what}: expected a name of text that does not begin with NUL")
    if tensor.dtype.name not in _CODES or tensor.ndim > _MAX_DIMS:
        raise ConfigError(f"{what}: {tensor.ndim}-d {tensor.dtype} is none of {_KNOWN}")
    return key


def _encode_entry(tensor: npt.NDArray[Any], offset: int, crc: int) -> bytes:
    dims = b"".join(_field(2, _field(1, dim)) for dim in tensor.shape)
    entry = _field(1, _CODES[tensor.dtype.name]) + _field(2, dims)
    entry += _field(4, offset) + _field(5, tensor.nbytes)
    return entry + b"\x35" + crc.to_bytes(4, "little")  # field 6 as a fixed32


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value)
    return write_varint(number << 3 | 2) + write_varint(len(value)) + value


def _decode(message: bytes, where: str) -> tuple[Counter[int], defaultdict[int, list[bytes]]]:
    """Protobuf numbers (0 when absent) and sub-messages by field number."""
    numbers: Counter[int] = Counter()
    parts: defaultdict[int, list[bytes]] = defaultdict(list)
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at, where)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            numbers[field], at = read_varint(message, at, where)
            continue
        size, at = read_varint(message, at, where) if kind == 2 else (_FIXED.get(kind, -1), at)
        if not 0 <= size <= len(message) - at:
            raise FormatError(f"{where}: field {field} is cut off or of no known type; {_DAMAGED}")
        content = message[at : at + size]
        at += size
        if kind == 2:
            parts[field].append(content)
        else:
            numbers[field] = int.from_bytes(content, "little")
    return numbers, parts
