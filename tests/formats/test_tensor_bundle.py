import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elmokit.errors import ConfigError, FileError, FormatError
from elmokit.formats.sstable import masked_crc32c, read_table, write_table, write_varint
from elmokit.formats.tensor_bundle import _read_index, read_bundle, write_bundle

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "tf-checkpoint"
TF_CHECKPOINT = FIXTURES / "model.ckpt-264"
needs_fixtures = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason=f"no reference checkpoint at {FIXTURES}"
)

Tensors = dict[str, npt.NDArray[Any]]

SMALL: Tensors = {
    "lm/bias": np.array([1, -2, 3], np.float32),
    "lm/empty": np.zeros((0, 3), np.float32),
    "step": np.array(264, np.int64),
}


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value)
    return write_varint(number << 3 | 2) + write_varint(len(value)) + value


def shape_of(*dims: int) -> bytes:
    return b"".join(field(2, field(1, dim)) for dim in dims)


def entry(
    dims: tuple[int, ...] = (2,),
    *,
    dtype: int = 1,
    shard: int = 0,
    offset: int = 0,
    size: int = 8,
    data: bytes = bytes(8),
    slices: int = 0,
) -> bytes:
    """An entry message with the checksum of `data`."""
    crc = b"\x35" + masked_crc32c(data).to_bytes(4, "little")
    place = field(3, shard) + field(4, offset) + field(5, size)
    return field(1, dtype) + field(2, shape_of(*dims)) + place + crc + field(7, b"") * slices


def list_bundle(prefix: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors, whatever their dtype, from the index file alone."""
    return {entry.name: entry.shape for entry in _read_index(prefix)}


def write_by_hand(
    prefix: Path, entries: dict[bytes, bytes], shards: tuple[bytes, ...] = (bytes(64),)
) -> Path:
    """A bundle around hand-made entry messages, with honest table checksums."""
    header = field(1, len(shards)) + field(3, field(1, 1))
    Path(f"{prefix}.index").write_bytes(write_table({b"": header, **entries}))
    for number, shard in enumerate(shards):
        Path(f"{prefix}.data-{number:05d}-of-{len(shards):05d}").write_bytes(shard)
    return prefix


def assert_same(actual: Tensors, expected: Tensors) -> None:
    assert list(actual) == sorted(expected, key=str.encode)
    for name, tensor in expected.items():
        assert actual[name].dtype == tensor.dtype.newbyteorder("=")
        assert actual[name].shape == tensor.shape
        assert actual[name].tobytes() == tensor.astype(actual[name].dtype).tobytes()


# A bundle by TensorFlow


@needs_fixtures
def test_reads_what_tensorflow_wrote_bit_for_bit() -> None:
    h5py = pytest.importorskip("h5py")
    tensors = read_bundle(TF_CHECKPOINT, lambda name: "Adagrad" not in name)
    cell = "lm/RNN_{}/rnn/multi_rnn_cell/cell_{}/lstm_cell/{}"
    parts = {"B": "bias", "W_0": "kernel", "W_P_0": "projection/kernel"}
    with h5py.File(FIXTURES / "lm_weights.hdf5") as weights:
        paths: list[str] = []
        weights.visit(paths.append)
        datasets = [path for path in paths if isinstance(weights[path], h5py.Dataset)]
        names = {path: f"lm/{path}" for path in datasets}
        for direction in range(2):
            for layer in range(2):
                for old, new in parts.items():
                    path = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{old}"
                    names[path] = cell.format(direction, layer, new)
        assert len(datasets) == 29
        for name in datasets:
            ours, theirs = tensors[names[name]], weights[name][()]
            assert ours.dtype == theirs.dtype == np.float32
            assert ours.tobytes() == theirs.tobytes(), name
    assert tensors["lm/softmax/W"].shape == (1492, 16)
    assert tensors["global_step"] == 264
    assert not any("Adagrad" in name for name in tensors)


@needs_fixtures
def test_lists_what_tensorflow_wrote() -> None:
    shapes = list_bundle(TF_CHECKPOINT)
    assert len(shapes) == 64
    assert shapes["lm/char_embed"] == (261, 4)
    assert shapes["train_perplexity"] == ()


@needs_fixtures
def test_writes_the_data_file_that_tensorflow_wrote(tmp_path: Path) -> None:
    write_bundle(tmp_path / "again", read_bundle(TF_CHECKPOINT))
    suffix = ".data-00000-of-00001"
    again, original = Path(f"{tmp_path / 'again'}{suffix}"), Path(f"{TF_CHECKPOINT}{suffix}")
    assert again.read_bytes() == original.read_bytes()
    entries = [
        read_table(Path(f"{prefix}.index").read_bytes(), "index")
        for prefix in (tmp_path / "again", TF_CHECKPOINT)
    ]
    assert entries[0].keys() == entries[1].keys()
    assert entries[0][b"lm/char_embed"] == entries[1][b"lm/char_embed"]


@needs_fixtures
@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_sampled_damage_to_what_tensorflow_wrote(tmp_path: Path, suffix: str) -> None:
    expected = read_bundle(TF_CHECKPOINT)
    for path in FIXTURES.glob("model.ckpt-264.*"):
        shutil.copyfile(path, tmp_path / path.name)
    victim = tmp_path / f"{TF_CHECKPOINT.name}{suffix}"
    original = victim.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(original), 20):
        flipped = bytearray(original)
        flipped[place] ^= rng.integers(1, 256)
        for damaged in (bytes(flipped), original[:place]):
            victim.write_bytes(damaged)
            assert_refused_or_same(tmp_path / TF_CHECKPOINT.name, expected)


# Round trips


def test_round_trip_of_every_dtype_and_layout(tmp_path: Path) -> None:
    tensors: Tensors = {
        name: np.arange(24).reshape(2, 3, 4).astype(name)
        for name in ("float16", "float32", "float64", "int32", "int64")
    }
    tensors |= SMALL
    tensors["transposed"] = tensors["float32"].T
    tensors["strided"] = tensors["int32"][:, ::2, 1:]
    tensors["big-endian"] = np.arange(5, dtype=">f8")
    tensors["nan"] = np.array([np.nan, -np.nan, -0.0, np.inf], np.float32)
    tensors["한국어/é 🎈\n"] = np.ones(3, np.float32)
    write_bundle(tmp_path / "model", tensors)
    assert_same(read_bundle(tmp_path / "model"), tensors)
    assert list_bundle(tmp_path / "model") == {name: t.shape for name, t in tensors.items()}


def test_round_trip_of_an_index_with_many_blocks(tmp_path: Path) -> None:
    tensors: Tensors = {f"scope/{n}/kernel": np.full(2, n, np.int32) for n in range(600)}
    write_bundle(tmp_path / "model", tensors)
    assert Path(tmp_path / "model.index").stat().st_size > 3 * 4096
    assert_same(read_bundle(tmp_path / "model"), tensors)


def test_round_trip_of_nothing(tmp_path: Path) -> None:
    write_bundle(tmp_path / "model", {})
    assert read_bundle(tmp_path / "model") == {}


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
            lambda name: name[0] != "\0"
        ),
        st.sampled_from(["<f2", "<f4", "<f8", "<i4", "<i8"]).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
        ),
        max_size=6,
    )
)
def test_round_trip_of_anything(tensors: Tensors) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_bundle(Path(folder) / "model", tensors)
        assert_same(read_bundle(Path(folder) / "model"), tensors)


def test_tensors_can_be_changed(tmp_path: Path) -> None:
    write_bundle(tmp_path / "model", SMALL)
    read_bundle(tmp_path / "model")["lm/bias"] += 1
    assert_same(read_bundle(tmp_path / "model"), SMALL)


# Reading only what is wanted


def test_reads_several_shards(tmp_path: Path) -> None:
    first, second = np.arange(2, dtype="<f4"), np.arange(6, dtype="<i8").reshape(2, 3)
    entries = {
        b"a": entry(data=first.tobytes()),
        b"b": entry((2, 3), dtype=9, shard=1, offset=4, size=48, data=second.tobytes()),
    }
    shards = (first.tobytes(), b"\0" * 4 + second.tobytes())
    prefix = write_by_hand(tmp_path / "model", entries, shards)
    assert_same(read_bundle(prefix), {"a": first, "b": second})
    (tmp_path / "model.data-00001-of-00002").unlink()
    assert_same(read_bundle(prefix, lambda name: name == "a"), {"a": first})
    with pytest.raises(FileError, match=r"model\.data-00001-of-00002: no such file"):
        read_bundle(prefix)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (entry(dtype=7), r"tensor 'bad': dtype 7 is none of float32, float64"),
        (entry(size=0, slices=2), r"tensor 'bad' is partitioned; save"),
        (entry(size=4), r"tensor 'bad': 4 bytes for shape \(2,\); .* download it again"),
        (entry(data=b"x"), r"tensor 'bad': 8 bytes with a wrong checksum; .* download it again"),
        (entry(offset=60), r"tensor 'bad': 4 bytes with a wrong checksum; .* download it again"),
        (entry(offset=2**64 - 1), r"tensor 'bad': 0 bytes with a wrong checksum"),
        (entry((2**40,), offset=16, size=2**42), r"tensor 'bad': 48 bytes with a wrong checksum"),
    ],
)
def test_unusable_tensor_is_an_error_only_if_wanted(
    tmp_path: Path, bad: bytes, message: str
) -> None:
    entries = {b"bad": bad, b"good": entry(offset=8)}
    if b"\x3a\x00" in bad:
        entries[b"\0\xff\xfe a part"] = entry()
    prefix = write_by_hand(tmp_path / "model", entries)
    assert_same(read_bundle(prefix, lambda name: name == "good"), {"good": np.zeros(2, np.float32)})
    assert set(list_bundle(prefix)) == {"bad", "good"}
    tracemalloc.start()
    with pytest.raises(FormatError, match=message):
        read_bundle(prefix)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


# Hostile files


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (entry((2**63,)), "absurd shape"),
        (entry((2**64 - 1,)), "absurd shape"),
        (entry((0, 2**62), size=0, data=b""), "absurd shape"),
        (entry((2**32, 2**32), size=0), "absurd shape"),
        (entry((1,) * 33), "absurd shape"),
        (entry((1,) * 5_000), "absurd shape"),
        (entry(shard=1), "in shard 1 of 1"),
        (b"\xff" * 11, "a number at byte 0 is cut off or too large"),
        (b"\x0b", "field 1 is cut off or of no known type"),
        (b"\x12\x7f", "field 2 is cut off"),
        (b"\x35\x00", "field 6 is cut off"),
        (field(2, b"\x12\xff"), "is cut off or too large"),
    ],
)
def test_hostile_entry_is_a_format_error(tmp_path: Path, value: bytes, message: str) -> None:
    prefix = write_by_hand(tmp_path / "model", {b"bad": value})
    with pytest.raises(FormatError, match=f"model.index: tensor 'bad': .*{message}"):
        list_bundle(prefix)


def test_name_that_is_not_text(tmp_path: Path) -> None:
    prefix = write_by_hand(tmp_path / "model", {b"\xff\n": entry()})
    with pytest.raises(FormatError, match=r"not UTF-8"):
        list_bundle(prefix)


def test_overlapping_tensors_cannot_multiply_memory(tmp_path: Path) -> None:
    prefix = write_by_hand(tmp_path / "model", {b"a": entry(), b"b": entry(offset=4)})
    with pytest.raises(FormatError, match="'a' overlaps 'b'"):
        read_bundle(prefix)


@pytest.mark.parametrize(
    "header", [b"", field(1, 1) + field(2, 1), field(1, 1) + b"\x1a\x02\x10\x02"]
)
def test_header_of_another_format(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "model.index").write_bytes(write_table({b"": header}))
    with pytest.raises(FormatError, match=r"model\.index: not a little-endian checkpoint"):
        list_bundle(tmp_path / "model")


def test_huge_index_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "model.index").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FormatError, match="too large"):
        list_bundle(tmp_path / "model")


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, os.mkfifo])
def test_index_that_is_no_file(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "model.index")
    with pytest.raises(FileError, match=r"model\.index(: no such file| is a )"):
        read_bundle(tmp_path / "model")


def assert_refused_or_same(prefix: Path, expected: Tensors) -> None:
    try:
        tensors = read_bundle(prefix)
    except (FormatError, FileError) as error:
        assert str(prefix) in str(error)
        assert "\n" not in str(error)
    else:
        assert_same(tensors, expected)


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_every_damaged_byte_and_every_truncation(tmp_path: Path, suffix: str) -> None:
    write_bundle(tmp_path / "model", SMALL)
    victim = Path(f"{tmp_path / 'model'}{suffix}")
    original = victim.read_bytes()
    for place in range(len(original)):
        mutants = [original[:place]]
        for flip in (0x01, 0xFF):
            mutants.append(
                original[:place] + bytes([original[place] ^ flip]) + original[place + 1 :]
            )
        for damaged in mutants:
            victim.write_bytes(damaged)
            assert_refused_or_same(tmp_path / "model", SMALL)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=3))))
def test_any_entry_is_read_or_refused(noise: bytes, edits: list[tuple[int, bytes]]) -> None:
    """Honest table checksums around entries that are random, or nearly right."""
    edited = entry()
    for place, insert in edits:
        edited = edited[:place] + insert + edited[place + len(insert) + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        for value in (noise, edited):
            prefix = write_by_hand(Path(folder) / "model", {b"a": value})
            try:
                read_bundle(prefix)
            except (FormatError, FileError) as error:
                assert "\n" not in str(error)


# Writing


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("a", np.zeros(2, np.int8), "tensor 'a': 1-d int8 is none of float32"),
        ("a", np.array(["text"]), "tensor 'a': .* is none of float32"),
        ("a", np.zeros((1,) * 33, np.float32), "33-d float32 is none of .* up to 32 dimensions"),
        ("", np.zeros(2), "tensor '': expected a name"),
        ("\0a", np.zeros(2), "expected a name"),
        ("\ud800", np.zeros(2), "expected a name"),
    ],
)
def test_refuses_what_the_format_cannot_hold(
    tmp_path: Path, name: str, tensor: npt.NDArray[Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        write_bundle(tmp_path / "model", {"z": np.zeros(2), name: tensor})
    assert list(tmp_path.iterdir()) == []


def test_overwrites_a_bundle(tmp_path: Path) -> None:
    write_bundle(tmp_path / "model", {"other": np.zeros(1000)})
    write_bundle(tmp_path / "model", SMALL)
    assert_same(read_bundle(tmp_path / "model"), SMALL)
    assert len(list(tmp_path.iterdir())) == 2


class BreaksHalfway(dict[str, npt.NDArray[Any]]):
    """Fails as a full disk or an interrupt would, after the first tensor is written."""

    reads = 0

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        self.reads += 1
        if self.reads > len(self) + 1:
            raise KeyboardInterrupt
        return super().__getitem__(name)


def test_interrupted_write_keeps_the_old_bundle(tmp_path: Path) -> None:
    write_bundle(tmp_path / "model", SMALL)
    with pytest.raises(KeyboardInterrupt):
        write_bundle(tmp_path / "model", BreaksHalfway(SMALL))
    assert_same(read_bundle(tmp_path / "model"), SMALL)
    assert len(list(tmp_path.iterdir())) == 2


def test_failed_rename_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "model.index").mkdir()
    with pytest.raises(FileError, match="model cannot be written"):
        write_bundle(tmp_path / "model", SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["model.index"]


@pytest.fixture
def unusable_folders(tmp_path: Path) -> Iterator[list[Path]]:
    (tmp_path / "file").write_text("not a folder")
    yield [tmp_path / "missing" / "model", tmp_path / "file" / "model", tmp_path / ("m" * 300)]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folder_that_cannot_be_used(unusable_folders: list[Path]) -> None:
    for prefix in unusable_folders:
        with pytest.raises(FileError, match="cannot be written"):
            write_bundle(prefix, SMALL)
        with pytest.raises(FileError, match=r"cannot be read|no such file"):
            read_bundle(prefix)
