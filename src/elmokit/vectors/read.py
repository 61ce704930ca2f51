"""Files of embeddings → their lines, one after the other: what `write` and older versions wrote.

Files are read without trust: nothing is unpickled, and no size is believed before its data are
there.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, FileError, FormatError, import_extra, quoted
from ..files.arrays import COPY, read_array, stored
from ..files.read import MAX_JSON_BYTES, ZIP_ERRORS, check_readable, read_lines
from .write import LINE, LINES, METADATA, Offsets

if TYPE_CHECKING:
    import h5py

Floats: TypeAlias = NDArray[np.float32]

MAX_LINE_BYTES = 1 << 30
"""The longest line of JSON that is read: vectors are long where they are written in digits."""
_PARQUET_ROWS = 16


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of a text and its vectors, as a file holds them.

    Attributes:
        index: Number of the line, from 0.
        text: The line; None where the file does not hold it.
        tokens: Its tokens; None where the file does not hold them.
        offsets: Start and end of each token in `text`; None where they are not known.
        vectors: (T, D), one per token; (L, T, D) for all layers; (D,) for the whole line. Empty if
            the line is blank.
    """

    index: int
    text: str | None
    tokens: list[str] | None
    offsets: Offsets | None
    vectors: Floats


class VectorFile:
    """A file of vectors, which holds what `elmokit embed` wrote; make it with `read_vectors`.

    Each `for` loop reads the file from its beginning, one line at a time.

    Attributes:
        path: The file.
        metadata: What made the vectors: `version`, `model`, `fingerprint`, `dim`, `layers`,
            `level`, `pooling`, `sentences`, `tokenizer`, `normalization`, `state`, `precision`.
            Empty for JSON lines and for the files of other programs and of older versions.
    """

    def __init__(self, path: Path, metadata: Mapping[str, Any], read: "_ReadLines") -> None:
        self.path = path
        self.metadata = metadata
        self._read = read

    def __iter__(self) -> Iterator[StoredLine]:
        return self._read(self.path)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.metadata.items())
        return f"VectorFile({str(self.path)!r}{facts and ', '}{facts})"


def read_vectors(path: str | Path) -> VectorFile:
    """The lines and the metadata of a file that `elmokit embed` or `embed_file` wrote.

    Example:
        >>> vectors = read_vectors("vectors.h5")             # doctest: +SKIP
        >>> vectors.metadata["model"]                        # doctest: +SKIP
        'en'
        >>> for line in vectors:                             # doctest: +SKIP
        ...     print(line.index, line.tokens, line.vectors.shape)

    Args:
        path: A .h5, .hdf5, .npz, .parquet or .jsonl file; HDF5 files of AllenNLP and bilm-tf, too.
    """
    path = Path(path)
    format = _FORMATS.get(path.suffix.lower())
    if format is None:
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(_FORMATS)}")
    check_readable(path)
    return VectorFile(path, format.metadata(path), format.lines)


# ------------------------------------------------------------------------------ HDF5


def _hdf5_metadata(path: Path) -> dict[str, Any]:
    from ..files.hdf5 import open_hdf5, read_errors

    with open_hdf5(path) as file, read_errors(path, METADATA):
        return _metadata(_attribute(file, METADATA, path), path)


def _hdf5_lines(path: Path) -> Iterator[StoredLine]:
    from ..files.hdf5 import open_hdf5, read_errors

    with open_hdf5(path) as file:
        with read_errors(path):
            names = sorted(filter(_is_number, file), key=int)
        for name in names:
            with read_errors(path, name):
                dataset = _dataset(file, name, path)
                vectors = np.asarray(dataset[...], dtype=np.float32)
                line = _attribute(dataset, LINE, path)
            if line is None:
                yield StoredLine(int(name), None, None, None, vectors)
            else:
                yield _with_words(int(name), line, vectors, f"{path}: {name}")


def _attribute(item: Any, name: str, path: Path) -> bytes | None:
    """A text, put together from the attributes that hold its parts; None if there is none.

    Strings of variable length are refused: where they are damaged, the HDF5 library crashes.
    """
    parts: list[bytes] = []
    while (key := f"{name}{len(parts) or ''}") in item.attrs:
        found = item.attrs.get_id(key)
        if found.dtype.kind != "S" or found.shape != ():
            raise FormatError(f"{path}: {key} of {item.name} is no string of fixed length; {COPY}")
        parts.append(bytes(item.attrs[key]))
    return b"".join(parts) if parts else None


def _dataset(file: "h5py.File", name: str, path: Path) -> "h5py.Dataset":
    import h5py

    from ..files.hdf5 import check_dataset

    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise FormatError(f"{path}: {name} is a link; the file must hold all of its data")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind != "f":
        raise FormatError(f"{path}: {name} holds no vectors; expected an array of floats")
    check_dataset(dataset, f"{path}: {name}")
    return dataset


# ------------------------------------------------------------------------------ npz


def _npz_metadata(path: Path) -> dict[str, Any]:
    with _archive(path) as archive:
        if f"{METADATA}.npy" not in archive.namelist():
            return {}
        return _metadata(read_array(archive, path, METADATA, np.uint8, 1).tobytes(), path)


def _npz_lines(path: Path) -> Iterator[StoredLine]:
    with _archive(path) as archive:
        members = archive.namelist()
        found = (name.removesuffix(".npy") for name in members if name.endswith(".npy"))
        names = sorted(filter(_is_number, found), key=int)
        if f"{LINES}.npy" not in members:
            for name in names:
                yield StoredLine(int(name), None, None, None, _npz_vectors(archive, path, name))
            return
        with archive.open(stored(archive, path, f"{LINES}.npy")) as words:
            np.lib.format.read_magic(words)
            np.lib.format.read_array_header_1_0(words)
            for name in names:
                line, vectors = words.readline(MAX_LINE_BYTES), _npz_vectors(archive, path, name)
                yield _with_words(int(name), line, vectors, f"{path}: {LINES}, line {name}")


def _npz_vectors(archive: zipfile.ZipFile, path: Path, name: str) -> Floats:
    return read_array(archive, path, name, np.float32)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive to read; what zipfile raises for damaged ones becomes an error of ours."""
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (FormatError, FileError):
        raise
    except (*ZIP_ERRORS, KeyError) as e:
        raise FormatError(f"{path} is damaged ({e!s:.80}); {COPY}") from e


# ------------------------------------------------------------------------------ Parquet


def _parquet_metadata(path: Path) -> dict[str, Any]:
    with _parquet(path) as file:
        return _metadata((file.schema_arrow.metadata or {}).get(METADATA.encode()), path)


def _parquet_lines(path: Path) -> Iterator[StoredLine]:
    with _parquet(path) as file:
        names = file.schema_arrow.names
        column = next((name for name in ("vectors", "vector") if name in names), None)
        if column is None or "index" not in names:
            raise FormatError(f"{path} has no columns index and vectors (or vector): {names!s:.80}")
        wanted = ["index", column, "text", "tokens", "starts", "ends"]
        for batch in file.iter_batches(_PARQUET_ROWS, columns=[n for n in wanted if n in names]):
            others = batch.drop_columns([column]).to_pylist()
            for row, value in zip(others, batch.column(column), strict=True):
                if type(row["index"]) is not int:
                    raise FormatError(f"{path}: index={quoted(row['index'])}: expected a number")
                spans = row.get("starts"), row.get("ends")
                if None not in spans:
                    row["offsets"] = list(zip(*spans, strict=True))
                yield _checked(row["index"], row, _nested(value), f"{path}: row {row['index']}")


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """A Parquet file to read; what pyarrow raises for damaged ones becomes an error of ours."""
    pa, parquet = import_extra("pyarrow", "arrow"), import_extra("pyarrow.parquet", "arrow")
    check_readable(path)
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (FormatError, FileError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, MemoryError) as e:
        raise FormatError(f"{path} is not a readable Parquet file ({e!s:.120}); {COPY}") from e


def _nested(value: Any) -> Floats:
    """The array of nested lists, made of their lengths, not of Python numbers."""
    if not value.is_valid:
        return np.zeros(0, np.float32)
    numbers = value.values
    shape = [len(numbers)]
    while hasattr(numbers, "value_lengths"):  # lists of lists
        num_lists = len(numbers)
        if len(numbers.value_lengths().unique()) > 1:
            raise ValueError("lists of unequal lengths")
        numbers = numbers.flatten()
        shape.append(len(numbers) // max(1, num_lists))
    flat = numbers.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    vectors: Floats = flat.reshape(shape)
    return vectors


# ------------------------------------------------------------------------------ JSON lines


def _no_metadata(path: Path) -> dict[str, Any]:
    return {}


def _json_lines(path: Path) -> Iterator[StoredLine]:
    for number, text in enumerate(read_lines(path, MAX_LINE_BYTES), start=1):
        where = f"{path}, line {number}"
        row = _object(text, where)
        column = "vector" if "vector" in row else "vectors"
        if type(row.get("index")) is not int or column not in row:
            raise FormatError(f"{where}: expected an index and vectors; found {list(row)!s:.80}")
        try:
            vectors = np.array([] if row[column] is None else row[column], dtype=np.float32)
        except (ValueError, TypeError, OverflowError) as e:
            raise FormatError(f"{where}: {column} is no array of numbers") from e
        if column == "vectors" and vectors.size == 0:  # [] is (0, 0), [[], []] is (2, 0, 0)
            vectors = vectors.reshape(*vectors.shape, 0)
        yield _checked(row["index"], row, vectors, where)


# ------------------------------------------------------------------------------ words and checks


def _with_words(index: int, line: object, vectors: Floats, where: str) -> StoredLine:
    return _checked(index, _object(line, where), vectors, where)


def _checked(index: int, words: Mapping[str, Any], vectors: Floats, where: str) -> StoredLine:
    """A line whose words fit together and fit its vectors."""
    text, tokens, spans = (words.get(name) for name in ("text", "tokens", "offsets"))
    if not isinstance(text, str | None) or not isinstance(tokens, list | None):
        raise FormatError(
            f"{where}: text={quoted(text)}, tokens={quoted(tokens)} do not fit; {COPY}"
        )
    if tokens is not None and not all(isinstance(token, str) for token in tokens):
        raise FormatError(f"{where}: tokens={quoted(tokens)}: expected strings; {COPY}")
    num_tokens = None if tokens is None else len(tokens)
    if vectors.ndim not in (1, 2, 3) or (
        vectors.ndim > 1 and num_tokens not in (vectors.shape[-2], None)
    ):
        raise FormatError(
            f"{where}: vectors of shape {vectors.shape} for {num_tokens} tokens; {COPY}"
        )
    offsets = None
    if spans is not None:
        try:
            offsets = [(_whole(start), _whole(end)) for start, end in spans]
        except (TypeError, ValueError) as e:
            raise FormatError(f"{where}: offsets={quoted(spans)}: expected pairs; {COPY}") from e
        if len(offsets) != num_tokens:
            raise FormatError(f"{where}: {len(offsets)} offsets for {num_tokens} tokens; {COPY}")
    return StoredLine(index, text, tokens, offsets, vectors)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _metadata(data: object, path: Path) -> dict[str, Any]:
    if data is None:
        return {}
    if isinstance(data, (str, bytes)) and len(data) > MAX_JSON_BYTES:
        raise FormatError(f"{path}: metadata of {len(data):,} bytes; {COPY}")
    return _object(data, f"{path}: {METADATA}")


def _object(data: object, where: str) -> dict[str, Any]:
    """The JSON object that a string is."""
    try:
        value = json.loads(data)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError) as e:
        raise FormatError(f"{where} is not JSON ({e!s:.80}); {COPY}") from e
    if not isinstance(value, dict):
        raise FormatError(f"{where}: expected a JSON object, found {type(value).__name__}; {COPY}")
    return value


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 19


_ReadLines: TypeAlias = Callable[[Path], Iterator[StoredLine]]


class _Format(NamedTuple):
    metadata: Callable[[Path], dict[str, Any]]
    lines: _ReadLines


_HDF5 = _Format(_hdf5_metadata, _hdf5_lines)
_FORMATS = {
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".npz": _Format(_npz_metadata, _npz_lines),
    ".parquet": _Format(_parquet_metadata, _parquet_lines),
    ".jsonl": _Format(_no_metadata, _json_lines),
}
