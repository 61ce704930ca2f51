"""Files of embeddings: entries → HDF5, npz, Parquet or JSON lines, as the suffix says.

docs/files.md has the layout of each; `read` reads them back.
"""

import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, FileError, InputError, import_extra
from ..files.read import is_there
from ..files.write import new_hdf5
from ..text.batch import grouped

Offsets: TypeAlias = list[tuple[int, int]]
"""Start and end of each token in its line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a text with its vectors.

    Attributes:
        index: Number of the line, from 0.
        text: The line.
        tokens: Its tokens, as the model read them.
        vectors: Of each token, (T, D), or (L, T, D) for all layers; or of the line, (D,), which
            is (0,) where the line has no tokens.
        offsets: Where the tokens are in the line; None where that is not known.
    """

    index: int
    text: str
    tokens: list[str]
    vectors: NDArray[np.float32]
    offsets: Offsets | None = None


METADATA = "elmokit"
"""What the metadata of a file are called, whatever its format."""
LINE = "line"
"""The attribute of an HDF5 dataset that holds what `_line` gives; continued in line1, line2, …"""
_MAX_ATTRIBUTE = 60_000
"""Bytes of one; HDF5 allows 64 kB."""
LINES = "lines"
"""The array of an npz archive that holds the bytes of all `_line`s."""
MATRIX = "vectors"
"""The array of all sentences, (n, D)."""
BINARY = (".h5", ".hdf5", ".npz")
"""Formats that take four bytes per value, and a few for each line."""
_MATRIX_ROWS, _CHUNK_ROWS = 1024, 64
"""Rows of that array that are written together, and that HDF5 keeps together."""
GROUP_VALUES, GROUP_ROWS = 2**24, 10_000
"""Numbers (64 MB) and rows after which a row group of a Parquet file ends."""


def write_vectors(
    path: Path,
    entries: Iterable[Entry],
    ndim: int = 2,
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Write all entries to `path`, in the format of its suffix; not atomic.

    Args:
        path: The file.
        entries: The lines, in order.
        ndim: Axes of each entry's vectors: 3 for all layers, 2 for tokens, 1 for sentences.
        metadata: What made the vectors, as JSON-ready data; JSON lines have no place for it.
    """
    check_output(path, force=True)
    _WRITERS[path.suffix.lower()](path, entries, ndim, metadata or {})


def check_output(path: Path, force: bool) -> None:
    """Refuse a file that cannot or must not be written, before any work is done for it."""
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        raise ConfigError(
            f"{path}: expected a name that ends in {', '.join(_WRITERS)}; "
            "or - for JSON lines on standard output"
        )
    if suffix == ".parquet":
        import_extra("pyarrow", "arrow")
    if is_there(path) and path.is_dir():
        raise FileError(f"{path} is a folder; expected the name of a file")
    if is_there(path) and not force:
        raise FileError(f"{path} exists already; choose another name, or force it (--force)")


def write_jsonl(file: IO[str], entries: Iterable[Entry], ndim: int = 2) -> None:
    """Write one JSON object per line; the numbers have the nine digits that float32 needs."""
    file.writelines(json_lines(entries, ndim))


def json_lines(entries: Iterable[Entry], ndim: int) -> Iterator[str]:
    """The lines that `write_jsonl` writes."""
    for entry in entries:
        words: dict[str, object] = {"index": entry.index, "text": entry.text}
        if ndim == 1:
            vector = "null"
            if entry.vectors.size and not np.isnan(entry.vectors).all():  # a blank line
                vector = _to_json(entry.vectors)
            yield f'{_open_json(words)}, "vector": {vector}}}\n'
        else:
            words |= {"tokens": entry.tokens, "offsets": entry.offsets}
            yield f'{_open_json(words)}, "vectors": {_to_json(entry.vectors)}}}\n'


def _open_json(words: Mapping[str, object]) -> str:
    """An object without its closing brace."""
    return json.dumps(words, ensure_ascii=False)[:-1]


def _to_json(vectors: NDArray[np.float32]) -> str:
    if vectors.ndim > 1:
        return f"[{', '.join(map(_to_json, vectors))}]"
    if not np.isfinite(vectors).all():
        return json.dumps(vectors.tolist())  # NaN and Infinity, which %g spells otherwise
    # A third of the time and two thirds of the size of json.dumps, which writes 17 digits.
    return f"[{', '.join(['%.9g'] * len(vectors))}]" % tuple(vectors.tolist())


def _line(entry: Entry) -> str:
    """The words of an entry as JSON, in ASCII: whatever a text holds, HDF5 and zip can hold it."""
    return json.dumps({"text": entry.text, "tokens": entry.tokens, "offsets": entry.offsets})


def _write_jsonl_file(
    path: Path, entries: Iterable[Entry], ndim: int, metadata: Mapping[str, object]
) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_jsonl(file, entries, ndim)


def _write_hdf5(
    path: Path, entries: Iterable[Entry], ndim: int, metadata: Mapping[str, object]
) -> None:
    """Datasets by line number, and AllenNLP's index of the lines (a repeated one: its last).

    All that AllenNLP did not write is in attributes, which its readers do not see. Their strings
    are of fixed length: damage to others crashes the process that reads them, in the HDF5 library.
    """
    import h5py

    lines: dict[str, str] = {}
    with new_hdf5(path) as (file, sink):

        def append(rows: NDArray[np.float32]) -> None:
            if MATRIX not in file:
                chunks = (_CHUNK_ROWS, max(1, rows.shape[1]))
                file.create_dataset(
                    MATRIX, (0, rows.shape[1]), "f4", maxshape=(None, None), chunks=chunks
                )
            matrix = file[MATRIX]
            matrix.resize(len(matrix) + len(rows), axis=0)
            matrix[len(matrix) - len(rows) :] = rows

        matrix = _Rows(metadata, append) if ndim == 1 else None
        for entry in entries:
            vectors = file.create_dataset(
                str(entry.index), data=np.ascontiguousarray(entry.vectors)
            )
            _add_attribute(vectors, LINE, _line(entry))
            if matrix is not None:
                matrix.add(entry.vectors)
            sink.check()
            lines[entry.text.strip()] = str(entry.index)
        if matrix is not None:
            matrix.flush()
        index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = json.dumps(lines)
        _add_attribute(file, METADATA, json.dumps(metadata))


def _add_attribute(item: Any, name: str, text: str) -> None:
    """Add an attribute, or several if the (ASCII) text is too long for one."""
    for number, start in enumerate(range(0, len(text), _MAX_ATTRIBUTE)):
        part = np.bytes_(text[start : start + _MAX_ATTRIBUTE].encode("ascii"))
        item.attrs[f"{name}{number or ''}"] = part


def _write_npz(
    path: Path, entries: Iterable[Entry], ndim: int, metadata: Mapping[str, object]
) -> None:
    """What np.savez writes, without all arrays in memory at once, and the words of all lines.

    An archive grows by one member at a time, so that what grows beside it waits in a file.
    """
    num_rows, dim = 0, 0
    with zipfile.ZipFile(path, "w") as archive, _spool(path) as words, _spool(path) as values:

        def append(rows: NDArray[np.float32]) -> None:
            nonlocal num_rows, dim
            num_rows, dim = num_rows + len(rows), rows.shape[1]
            values.write(rows.tobytes())

        matrix = _Rows(metadata, append)
        for entry in entries:
            with archive.open(f"{entry.index}.npy", "w", force_zip64=True) as member:
                array = np.ascontiguousarray(entry.vectors)
                np.lib.format.write_array(member, array, allow_pickle=False)
            words.write(f"{_line(entry)}\n".encode())
            if ndim == 1:
                matrix.add(entry.vectors)
        if ndim == 1:
            matrix.flush()
            _add_array(archive, MATRIX, values, "<f4", (num_rows, dim))
        _add_array(archive, LINES, words, "|u1", (words.tell(),))
        data = json.dumps(metadata).encode()
        _add_array(archive, METADATA, io.BytesIO(data), "|u1", (len(data),))


class _Rows:
    """The vectors of sentences as the rows of one array, in blocks; NaN where a line is blank."""

    def __init__(
        self, metadata: Mapping[str, object], append: Callable[[NDArray[np.float32]], None]
    ) -> None:
        dim = metadata.get("dim")
        self._dim = dim if isinstance(dim, int) else 0
        self._append = append
        self._rows: list[NDArray[np.float32]] = []

    def add(self, vector: NDArray[np.float32]) -> None:
        self._dim = self._dim or len(vector)
        self._rows.append(vector)
        if len(self._rows) >= _MATRIX_ROWS and self._dim:
            self.flush()

    def flush(self) -> None:
        block = np.full((len(self._rows), self._dim), np.nan, np.float32)
        for row, vector in zip(block, self._rows, strict=True):
            if len(vector):
                row[:] = vector
        self._append(block)
        self._rows.clear()


def _spool(path: Path) -> IO[bytes]:
    """A file without a name on the disk of `path`, of a name that a work folder clears."""
    return tempfile.TemporaryFile(dir=path.parent, prefix="result")


def _add_array(
    archive: zipfile.ZipFile, name: str, values: IO[bytes], dtype: str, shape: tuple[int, ...]
) -> None:
    """Add an array whose values are in a file."""
    values.seek(0)
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        shutil.copyfileobj(values, member)


def _write_parquet(
    path: Path, entries: Iterable[Entry], ndim: int, metadata: Mapping[str, object]
) -> None:
    """Columns index, vectors (of sentences vector, null if blank), and the words of the lines."""
    pa, parquet = import_extra("pyarrow", "arrow"), import_extra("pyarrow.parquet", "arrow")
    number: Any = pa.float32()
    for _ in range(ndim):
        number = pa.list_(number)
    words = [("text", pa.string()), ("tokens", pa.list_(pa.string()))]
    first, later = words if ndim == 1 else reversed(words)  # the older files have only the first
    places = [(name, pa.list_(pa.int32())) for name in ("starts", "ends")]
    vectors = ("vector" if ndim == 1 else "vectors", number)
    schema = pa.schema([("index", pa.int64()), first, vectors, later, *places])
    schema = schema.with_metadata({METADATA: json.dumps(metadata)})
    # A dictionary would only cost time for numbers that do not repeat.
    repeated = ["tokens.list.element"]
    with parquet.ParquetWriter(path, schema, use_dictionary=repeated) as writer:
        for group in grouped(entries, _num_values, max_items=GROUP_ROWS, max_size=GROUP_VALUES):
            columns: dict[str, list[Any]] = {
                "index": [entry.index for entry in group],
                "text": [entry.text for entry in group],
                "tokens": [entry.tokens for entry in group],
            }
            for i, name in enumerate(("starts", "ends")):
                columns[name] = [e.offsets and [span[i] for span in e.offsets] for e in group]
            arrays = [
                _lists(pa, group, ndim)
                if field.name == vectors[0]
                else pa.array(columns[field.name], field.type)
                for field in schema
            ]
            writer.write_table(pa.table(arrays, schema=schema))


def _num_values(entry: Entry) -> int:
    if entry.vectors.size >= 2**30:  # the offsets of a group are of 32 bits
        raise InputError(f"line {entry.index + 1} is too long for Parquet; choose another format")
    return entry.vectors.size


def _lists(pa: Any, group: list[Entry], ndim: int) -> Any:
    """The arrays of a group as nested Arrow lists, made from offsets, not from Python numbers."""
    values = pa.array(np.concatenate([entry.vectors.ravel() for entry in group]))
    for axis in reversed(range(1, ndim)):
        # The number of lists at this depth, and the items of each.
        lengths = [
            np.full(int(np.prod(entry.vectors.shape[:axis])), entry.vectors.shape[axis])
            for entry in group
        ]
        values = pa.ListArray.from_arrays(_offsets(np.concatenate(lengths)), values)
    offsets = _offsets(np.array([len(entry.vectors) for entry in group]))
    if ndim > 1:
        return pa.ListArray.from_arrays(offsets, values)
    blank = pa.array([not entry.vectors.size for entry in group])
    return pa.ListArray.from_arrays(offsets, values, mask=blank)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


_WRITERS: dict[str, Callable[[Path, Iterable[Entry], int, Mapping[str, object]], None]] = {
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".jsonl": _write_jsonl_file,
}
