"""Entries → a Parquet file, one row a line, in row groups of bounded size."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, MissingExtra
from ..text.groups import grouped
from .entry import Entry

GROUP_VALUES = 2**24
"""Numbers after which a row group ends: 64 MB."""

GROUP_ROWS = 10_000


def write_parquet(path: Path, entries: Iterable[Entry], ndim: int) -> None:
    """Columns index, tokens and vectors; of sentences index, text and vector (null if blank)."""
    pa = import_pyarrow()
    import pyarrow.parquet

    number: Any = pa.float32()
    for _ in range(ndim):
        number = pa.list_(number)
    words = ("text", pa.string()) if ndim == 1 else ("tokens", pa.list_(pa.string()))
    schema = pa.schema(
        [("index", pa.int64()), words, ("vector" if ndim == 1 else "vectors", number)]
    )
    # A dictionary would only cost time for numbers that do not repeat.
    repeated = ["tokens.list.element"] if ndim > 1 else False
    with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=repeated) as writer:
        for group in grouped(entries, _num_values, max_items=GROUP_ROWS, max_size=GROUP_VALUES):
            columns = [
                pa.array([entry.index for entry in group], pa.int64()),
                pa.array([e.text if ndim == 1 else e.tokens for e in group], words[1]),
                _lists(pa, group, ndim),
            ]
            writer.write_table(pa.table(columns, schema=schema))


def import_pyarrow() -> Any:
    """pyarrow, or the error that says how to get it."""
    try:
        import pyarrow
    except ImportError as e:
        raise MissingExtra("arrow", "pyarrow") from e
    return pyarrow


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
