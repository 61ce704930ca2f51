"""Files of embeddings: entries → HDF5, npz, Parquet or JSON lines, as the suffix says."""

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, FileError, InputError, import_extra
from ..files.read import is_there
from ..files.write import new_hdf5
from ..text.batch import grouped


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a text with its vectors.

    Attributes:
        index: Number of the line, from 0.
        text: The line.
        tokens: Its tokens, as the model read them.
        vectors: Of each token, (T, D), or (L, T, D) for all layers; or of the line, (D,), which
            is (0,) where the line has no tokens.
    """

    index: int
    text: str
    tokens: list[str]
    vectors: NDArray[np.float32]


BINARY = (".h5", ".hdf5", ".npz")
"""Formats that take four bytes per value, and a few for each line."""
GROUP_VALUES, GROUP_ROWS = 2**24, 10_000
"""Numbers (64 MB) and rows after which a row group of a Parquet file ends."""


def write_vectors(path: Path, entries: Iterable[Entry], ndim: int = 2) -> None:
    """Write all entries to `path`, in the format of its suffix; not atomic.

    `ndim` is the number of axes of each entry's vectors: 3 for all layers, 2 for tokens, 1 for
    sentences.
    """
    check_output(path, force=True)
    _WRITERS[path.suffix.lower()](path, entries, ndim)


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
        words = json.dumps(entry.text if ndim == 1 else entry.tokens, ensure_ascii=False)
        if ndim == 1:
            vector = "null"
            if entry.vectors.size and not np.isnan(entry.vectors).all():  # a blank line
                vector = _to_json(entry.vectors)
            yield f'{{"index": {entry.index}, "text": {words}, "vector": {vector}}}\n'
        else:
            vectors = _to_json(entry.vectors)
            yield f'{{"index": {entry.index}, "tokens": {words}, "vectors": {vectors}}}\n'


def _to_json(vectors: NDArray[np.float32]) -> str:
    if vectors.ndim > 1:
        return f"[{', '.join(map(_to_json, vectors))}]"
    if not np.isfinite(vectors).all():
        return json.dumps(vectors.tolist())  # NaN and Infinity, which %g spells otherwise
    # A third of the time and two thirds of the size of json.dumps, which writes 17 digits.
    return f"[{', '.join(['%.9g'] * len(vectors))}]" % tuple(vectors.tolist())


def _write_jsonl_file(path: Path, entries: Iterable[Entry], ndim: int) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_jsonl(file, entries, ndim)


def _write_hdf5(path: Path, entries: Iterable[Entry], ndim: int) -> None:
    """Datasets by line number, and AllenNLP's index of the lines (a repeated one: its last)."""
    import h5py

    lines: dict[str, str] = {}
    with new_hdf5(path) as (file, sink):
        for entry in entries:
            file.create_dataset(str(entry.index), data=np.ascontiguousarray(entry.vectors))
            sink.check()
            lines[entry.text.strip()] = str(entry.index)
        index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = json.dumps(lines)


def _write_npz(path: Path, entries: Iterable[Entry], ndim: int) -> None:
    """What np.savez writes, without all arrays in memory at once."""
    with zipfile.ZipFile(path, "w") as archive:
        for entry in entries:
            with archive.open(f"{entry.index}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, entry.vectors, allow_pickle=False)


def _write_parquet(path: Path, entries: Iterable[Entry], ndim: int) -> None:
    """Columns index, tokens and vectors; of sentences index, text and vector (null if blank)."""
    pa, parquet = import_extra("pyarrow", "arrow"), import_extra("pyarrow.parquet", "arrow")
    number: Any = pa.float32()
    for _ in range(ndim):
        number = pa.list_(number)
    words = ("text", pa.string()) if ndim == 1 else ("tokens", pa.list_(pa.string()))
    schema = pa.schema(
        [("index", pa.int64()), words, ("vector" if ndim == 1 else "vectors", number)]
    )
    # A dictionary would only cost time for numbers that do not repeat.
    repeated = ["tokens.list.element"] if ndim > 1 else False
    with parquet.ParquetWriter(path, schema, use_dictionary=repeated) as writer:
        for group in grouped(entries, _num_values, max_items=GROUP_ROWS, max_size=GROUP_VALUES):
            columns = [
                pa.array([entry.index for entry in group], pa.int64()),
                pa.array([e.text if ndim == 1 else e.tokens for e in group], words[1]),
                _lists(pa, group, ndim),
            ]
            writer.write_table(pa.table(columns, schema=schema))


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
    blank = pa.array([not entry.tokens for entry in group])
    return pa.ListArray.from_arrays(offsets, values, mask=blank)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


_WRITERS: dict[str, Callable[[Path, Iterable[Entry], int], None]] = {
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".jsonl": _write_jsonl_file,
}
