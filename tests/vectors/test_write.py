"""Writers of vectors: what they write can be read, and nothing is held in memory."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from strategies import assert_refused

from elmokit.errors import FileError
from elmokit.text.batch import grouped
from elmokit.vectors import Entry, check_output, write_jsonl, write_vectors
from elmokit.vectors import write as parquet_file
from elmokit.vectors.work import Blocks, open_unfinished


def entry(index: int, shape: tuple[int, ...], text: str = "a b") -> Entry:
    rng = np.random.default_rng(index)
    num_tokens = shape[0] if len(shape) == 1 else shape[-2]
    vectors = rng.standard_normal(shape).astype(np.float32)
    return Entry(index, text, [f"t{i}" for i in range(num_tokens)], vectors)


def test_json_numbers_are_exact_and_short() -> None:
    vectors = np.array([[1 / 3, -1e-30, 3e38, 16777217, 0, 1.1754944e-38]], dtype=np.float32)
    file = io.StringIO()
    write_jsonl(file, [Entry(0, "a", ["a"], vectors)])
    assert '"vectors": [[0.333333343, -1e-30, ' in file.getvalue()
    read = np.array(json.loads(file.getvalue())["vectors"], dtype=np.float32)
    np.testing.assert_array_equal(read, vectors)


def test_json_has_python_names_for_numbers_that_are_none() -> None:
    file = io.StringIO()
    write_jsonl(file, [Entry(0, "a", ["a"], np.array([[np.nan, np.inf]], dtype=np.float32))])
    assert json.loads(file.getvalue())["vectors"][0][1] == np.inf


def test_json_keeps_quotes_and_control_characters() -> None:
    file = io.StringIO()
    words = ['"', "\\", "\u2028", "\x00", "한"]
    write_jsonl(file, [Entry(0, "", words, np.zeros((5, 1), dtype=np.float32))])
    assert file.getvalue().count("\n") == 1
    assert json.loads(file.getvalue())["tokens"] == words


def test_hdf5_index_survives_odd_lines(tmp_path: Path) -> None:
    texts = ["a/b . c", "nul \x00", "tab\t", 'quote "', "한국어 🙂", ""]
    path = tmp_path / "x.h5"
    write_vectors(path, [entry(i, (2, 3), text) for i, text in enumerate(texts)])
    with h5py.File(path) as file:
        index = json.loads(file["sentence_to_index"][0])
    assert index == {text.strip(): str(i) for i, text in enumerate(texts)}


def test_non_contiguous_vectors(tmp_path: Path) -> None:
    vectors = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(1, 0, 2)
    for suffix in (".h5", ".npz"):
        path = tmp_path / f"x{suffix}"
        write_vectors(path, [Entry(0, "a b", ["a", "b"], vectors)], ndim=3)
        with h5py.File(path) if suffix == ".h5" else np.load(path) as file:
            np.testing.assert_array_equal(file["0"][...], vectors)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_parquet_types_and_row_groups(
    tmp_path: Path, ndim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(parquet_file, "GROUP_ROWS", 2)
    shapes = {
        1: [(4,), (0,), (4,)],
        2: [(2, 4), (0, 4), (1, 4)],
        3: [(3, 2, 4), (3, 0, 4), (3, 1, 4)],
    }
    entries = [entry(i, shape) for i, shape in enumerate(shapes[ndim])]
    write_vectors(tmp_path / "x.parquet", entries, ndim)
    file = parquet.ParquetFile(tmp_path / "x.parquet")
    assert file.num_row_groups == 2
    table = file.read()
    kind = "float"
    for _ in range(ndim):
        kind = f"list<element: {kind}>"
    words = ["tokens", "starts", "ends"], ["text", "starts", "ends"]
    older = ["index", "text", "vector"] if ndim == 1 else ["index", "tokens", "vectors"]
    assert table.column_names == [*older, *words[ndim > 1]]
    assert str(table.schema.field(2).type) == kind
    rows = table.column(2).to_pylist()
    for row, expected in zip(rows, entries, strict=True):
        if ndim == 1 and not expected.tokens:
            assert row is None
        else:
            got = np.array(row, dtype=np.float32).reshape(expected.vectors.shape)
            np.testing.assert_array_equal(got, expected.vectors)
    write_vectors(tmp_path / "empty.parquet", [], ndim)
    assert parquet.read_schema(tmp_path / "empty.parquet") == table.schema


@pytest.mark.parametrize("suffix", [".npz", ".jsonl", ".h5"])
def test_vectors_do_not_pile_up_in_memory(tmp_path: Path, suffix: str) -> None:
    def entries() -> Iterator[Entry]:
        vectors = np.zeros((100, 100), dtype=np.float32)
        return (Entry(i, "a", ["a"] * 100, vectors.copy()) for i in range(100))

    write_vectors(tmp_path / f"warm{suffix}", entries())
    tracemalloc.start()
    write_vectors(tmp_path / f"x{suffix}", entries())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000  # all of them are 4 MB


def test_output_is_checked_before_any_work(tmp_path: Path) -> None:
    assert_refused(lambda: check_output(tmp_path / "x.txt", False), "x.txt", ".npz")
    assert_refused(lambda: check_output(tmp_path / "x", True), "x")
    (tmp_path / "x.h5").touch()
    assert_refused(lambda: check_output(tmp_path / "x.h5", False), "--force")
    check_output(tmp_path / "x.h5", True)
    check_output(tmp_path / "X.NPZ", False)
    (tmp_path / "y.h5").mkdir()
    assert_refused(lambda: check_output(tmp_path / "y.h5", True), "folder")


def test_blocks_give_back_what_they_were_given(tmp_path: Path) -> None:
    shapes = [(2, 3, 4), (2, 0, 4), (2, 5, 4), (2, 1, 4)]
    entries = [entry(i, shape, f"line {i} \ud800") for i, shape in enumerate(shapes)]
    with open_unfinished(tmp_path / "x.npz", ndim=3) as blocks:
        assert isinstance(blocks, Blocks)
        blocks.begin({"layers": "all"}, iter([]), resume=False)
        blocks.add(entries[:3])
        blocks.add(entries[3:])
        assert blocks.num_lines == 4
        for got, expected in zip(blocks.entries(), entries, strict=True):
            assert (got.index, got.text, got.tokens) == (
                expected.index, expected.text, expected.tokens,
            )  # fmt: skip
            np.testing.assert_array_equal(got.vectors, expected.vectors, strict=True)
        assert blocks.finish() == 4
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "x.npz.partial").touch()
    with pytest.raises(FileError, match="in the way"), open_unfinished(tmp_path / "x.npz", 2):
        pass


def test_groups_close_at_either_limit() -> None:
    def groups(items: list[int], max_items: int, max_size: int) -> list[list[int]]:
        return list(grouped(items, lambda n: n, max_items=max_items, max_size=max_size))

    assert groups([1, 1, 1, 1, 1], 2, 99) == [[1, 1], [1, 1], [1]]
    assert groups([5, 1, 9, 1], 99, 6) == [[5, 1], [9], [1]]
    assert groups([], 2, 2) == []
