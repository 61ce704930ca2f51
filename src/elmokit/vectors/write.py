"""Entries → a file, in the format that its suffix names."""

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, FileError
from ..files.files import is_there
from ..files.sink import new_hdf5
from .entry import Entry
from .parquet import import_pyarrow, write_parquet

Writer: TypeAlias = Callable[[Path, Iterable[Entry], int], None]

BINARY = (".h5", ".hdf5", ".npz")
"""Formats that take four bytes a value, and a few for each line."""


def write_vectors(path: Path, entries: Iterable[Entry], ndim: int = 2) -> None:
    """Write all entries to `path`; not atomic, so give it a temporary name.

    Args:
        path: The file; its suffix says the format.
        entries: The lines in order.
        ndim: Axes of each entry's vectors: 3 for all layers, 2 for tokens, 1 for sentences.
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
        import_pyarrow()
    if is_there(path) and path.is_dir():
        raise FileError(f"{path} is a folder; expected the name of a file")
    if is_there(path) and not force:
        raise FileError(f"{path} exists already; choose another name, or force it (--force)")


def write_jsonl(file: IO[str], entries: Iterable[Entry], ndim: int = 2) -> None:
    """Write one JSON object a line; the numbers have the nine digits that float32 needs."""
    for entry in entries:
        words = json.dumps(entry.text if ndim == 1 else entry.tokens, ensure_ascii=False)
        if ndim == 1:
            vector = _to_json(entry.vectors) if entry.tokens else "null"
            file.write(f'{{"index": {entry.index}, "text": {words}, "vector": {vector}}}\n')
        else:
            vectors = _to_json(entry.vectors)
            file.write(f'{{"index": {entry.index}, "tokens": {words}, "vectors": {vectors}}}\n')


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


_WRITERS: dict[str, Writer] = {
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    ".npz": _write_npz,
    ".parquet": write_parquet,
    ".jsonl": _write_jsonl_file,
}
