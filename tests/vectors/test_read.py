"""What `write_vectors` wrote comes back line by line, and so do the files of other programs."""

import json
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from strategies import assert_refused

import elmokit
from elmokit.errors import ElmoError
from elmokit.vectors import Entry, write_vectors
from elmokit.vectors import write as writing
from elmokit.vectors.read import StoredLine, read_vectors

SUFFIXES = [".h5", ".hdf5", ".npz", ".parquet", ".jsonl"]
METADATA = {"model": "ko", "layers": "average", "dim": 4, "pooling": None}
WORDS: list[tuple[str, list[str], Any]] = [
    (" He\u2028has", ["He", "has"], [(1, 3), (4, 7)]),
    ("", [], []),
    ("태어났다.", ["태어나", "었", "다", "."], [(0, 3), (2, 3), (3, 4), (4, 5)]),
    ('"\\ \x00', ['"\\', "\x00"], None),
]


def entries(ndim: int) -> list[Entry]:
    rng = np.random.default_rng(0)
    result = []
    for i, (text, tokens, offsets) in enumerate(WORDS):
        shape = {1: (4 if tokens else 0,), 2: (len(tokens), 4), 3: (3, len(tokens), 4)}[ndim]
        vectors = rng.standard_normal(shape).astype(np.float32)
        result.append(Entry(i, text, tokens, vectors, offsets))
    return result


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_every_line_comes_back(tmp_path: Path, suffix: str, ndim: int) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"x{suffix}"
    write_vectors(path, entries(ndim), ndim, METADATA)
    file = elmokit.read_vectors(path)
    assert file.metadata == ({} if suffix == ".jsonl" else METADATA)
    for got, expected in zip(file, entries(ndim), strict=True):
        assert (got.index, got.text) == (expected.index, expected.text)
        if suffix != ".jsonl" or ndim > 1:  # sentences as JSON lines have their text alone
            assert (got.tokens, got.offsets) == (expected.tokens, expected.offsets)
        assert got.vectors.dtype == np.float32
        assert got.vectors.ndim == ndim
        if expected.vectors.size or suffix in (".h5", ".hdf5", ".npz"):
            np.testing.assert_array_equal(got.vectors, expected.vectors, strict=True)
    assert len(list(file)) == len(WORDS)  # once more from the beginning


@pytest.mark.parametrize("suffix", [".h5", ".npz"])
def test_sentences_are_also_one_array_with_nan_for_blank_lines(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MATRIX_ROWS", 2)
    blank = [Entry(i, "", [], np.zeros(0, np.float32), []) for i in range(3)]
    rest = [Entry(i + 3, *e[1:]) for i, e in enumerate(map(fields, entries(1)))]
    path = tmp_path / f"x{suffix}"
    for metadata in (METADATA, {}):
        write_vectors(path, [*blank, *rest], 1, metadata)
        with h5py.File(path) if suffix == ".h5" else np.load(path) as file:
            matrix = file["vectors"][...]
            assert matrix.shape == (7, 4) and matrix.dtype == np.float32
            for i, row in enumerate(matrix):
                vector = file[str(i)][...]
                assert np.isnan(row).all() if len(vector) == 0 else (row == vector).all()
    write_vectors(path, blank, 1, METADATA)
    with h5py.File(path) if suffix == ".h5" else np.load(path) as file:
        assert file["vectors"].shape == (3, 4) and np.isnan(file["vectors"][...]).all()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_blank_line_that_was_filled_is_no_empty_one(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    zeros = np.zeros(4, np.float32)
    write_vectors(tmp_path / f"x{suffix}", [Entry(0, "", [], zeros, [])], 1, METADATA)
    (line,) = read_vectors(tmp_path / f"x{suffix}")
    np.testing.assert_array_equal(line.vectors, zeros)


def fields(entry: Entry) -> list[Any]:
    return [entry.index, entry.text, entry.tokens, entry.vectors, entry.offsets]


def test_readers_of_allennlps_files_see_what_they_saw(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    write_vectors(path, entries(3), 3, METADATA)
    with h5py.File(path) as file:
        index = json.loads(file["sentence_to_index"][0])
        arrays = {key: file[key][...] for key in file if key != "sentence_to_index"}
    assert set(arrays) == {"0", "1", "2", "3"}
    assert all(array.dtype == np.float32 and array.ndim == 3 for array in arrays.values())
    assert index["태어났다."] == "2"


def test_line_longer_than_the_old_limit_of_attributes(tmp_path: Path) -> None:
    tokens = ["토큰"] * 20_000
    offsets = [(3 * i, 3 * i + 2) for i in range(20_000)]
    vectors = np.zeros((20_000, 1), np.float32)
    path = tmp_path / "x.h5"
    write_vectors(path, [Entry(0, " ".join(tokens), tokens, vectors, offsets)])
    (line,) = read_vectors(path)
    assert line.tokens == tokens and line.offsets == offsets


def test_files_of_other_programs_and_older_versions(tmp_path: Path) -> None:
    vectors = np.ones((2, 3), np.float32)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        for key in ("0", "1", "10"):
            file[key] = vectors
        file["sentence_to_index"] = [json.dumps({"a b": "0", "c d": "10"})]
    with h5py.File(tmp_path / "bare.h5", "w") as file:
        file["0"] = vectors
    np.savez(tmp_path / "x.npz", **{"0": vectors, "1": vectors})
    row = {"index": 5, "tokens": ["a", "b"], "vectors": vectors.tolist()}
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n")

    def read(name: str) -> list[tuple[int, str | None, Any, Any]]:
        file = read_vectors(tmp_path / name)
        assert file.metadata == {} and all((line.vectors == vectors).all() for line in file)
        return [(line.index, line.text, line.tokens, line.offsets) for line in file]

    nothing = (None, None)
    assert read("x.hdf5") == [(0, None, *nothing), (1, None, *nothing), (10, None, *nothing)]
    assert read("bare.h5") == [(0, None, *nothing)]
    assert read("x.npz") == [(0, None, *nothing), (1, None, *nothing)]
    assert read("x.jsonl") == [(5, None, ["a", "b"], None)]


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".jsonl"])
def test_lines_do_not_pile_up_in_memory(tmp_path: Path, suffix: str) -> None:
    def many() -> Iterator[Entry]:
        vectors = np.ones((100, 100), np.float32)
        return (Entry(i, "a", ["a"] * 100, vectors, [(0, 1)] * 100) for i in range(100))

    path = tmp_path / f"x{suffix}"
    write_vectors(path, many())
    next(iter(read_vectors(path)))
    tracemalloc.start()
    assert sum(line.vectors.sum() for line in read_vectors(path)) == 10**6
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000  # all of them are 4 MB


def test_names_and_files_that_are_none(tmp_path: Path) -> None:
    assert_refused(lambda: read_vectors(tmp_path / "x.txt"), "x.txt", ".parquet")
    for suffix in (".h5", ".npz", ".jsonl"):
        assert_refused(lambda s=suffix: read_vectors(tmp_path / f"no{s}"), "no such file")
        (tmp_path / f"x{suffix}").write_bytes(b"garbage")
        assert_refused(lambda s=suffix: list(read_vectors(tmp_path / f"x{s}")), f"x{suffix}")


LINE = {"text": "a b", "tokens": ["a", "b"], "offsets": [[0, 1], [2, 3]]}


@pytest.mark.parametrize(
    "change",
    [{"text": 7}, {"tokens": "ab"}, {"tokens": ["a"]}, {"tokens": ["a", 7]}, {"offsets": [[0, 1]]},
     {"offsets": [[0, 1], [2]]}, {"offsets": [[0, 1], [2, 3.5]]}, {"offsets": 7}],
)  # fmt: skip
def test_words_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    vectors, line = np.ones((2, 3), np.float32), json.dumps(LINE | change)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["0"] = vectors
        file["0"].attrs["line"] = np.bytes_(line.encode())
    np.savez(tmp_path / "x.npz", **{"0": vectors, "lines": np.frombuffer(line.encode(), np.uint8)})
    row = {"index": 0, "vectors": vectors.tolist()} | LINE | change
    (tmp_path / "x.jsonl").write_text(json.dumps(row))
    for name in ("x.h5", "x.npz", "x.jsonl"):
        assert_refused(lambda name=name: list(read_vectors(tmp_path / name)), name)


def test_hdf5_that_points_elsewhere_or_holds_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"

    def refused(*words: str) -> None:
        assert_refused(lambda: list(read_vectors(path)), "x.h5", *words)

    with h5py.File(path, "w") as file:
        file["0"] = h5py.ExternalLink("other.h5", "/0")
    refused("link")
    with h5py.File(path, "w") as file:
        file.create_dataset("0", (10**6, 10**6), "f4", chunks=True)
    refused("no data")
    with h5py.File(path, "w") as file:
        file["0"] = b"text"
    refused("no vectors")
    # Of a string of variable length, damage would crash the process.
    for metadata in (np.bytes_(b"["), np.bytes_(b"[]"), 7, "{}"):
        with h5py.File(path, "w") as file:
            file.attrs["elmokit"] = metadata
        refused("elmokit")


def test_compressed_npz_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", **{"0": np.zeros((1000, 1000), np.float32)})
    assert_refused(lambda: list(read_vectors(tmp_path / "x.npz")), "compressed")
    with zipfile.ZipFile(tmp_path / "y.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("elmokit.npy", b"x" * 10**6)
    assert_refused(lambda: read_vectors(tmp_path / "y.npz"), "compressed")


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".jsonl", ".parquet"])
def test_damaged_bytes_are_lines_or_an_error_of_ours(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"x{suffix}"
    write_vectors(path, entries(2), 2, METADATA)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    num_refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for place in rng.integers(len(data), size=3):
            data[place] = rng.integers(256)
        path.write_bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.2 else data)
        try:
            assert all(isinstance(line, StoredLine) for line in read_vectors(path))
        except ElmoError as e:
            num_refused += 1
            assert path.name in str(e) and "\n" not in str(e)
    assert num_refused > 5
