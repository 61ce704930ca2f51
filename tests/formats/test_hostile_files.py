"""Files that are no files, have no end, or may not be read: one line, at once, without memory."""

import gzip
import io
import json
import os
import signal
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import assert_refused, make_tiny, tiny_config

from elmokit import Elmo
from elmokit.errors import FileError
from elmokit.files import read as files
from elmokit.files.read import check_no_device, read_json, read_lines, read_words
from elmokit.formats import archive as archives
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint
from elmokit.text.ids import Vocab

NAMES = {
    "elmokit": ["config.json", "model.safetensors", "vocab.txt"],
    "official": ["options.json", "weights.hdf5", "vocab.txt", "softmax_weights.hdf5"],
    "tf": ["options.json", "model.ckpt.index", "model.ckpt.data-00000-of-00001", "vocab.txt"],
}
CASES = [(format, name) for format, names in NAMES.items() for name in names]


def saved(folder: Path, format: Any) -> Path:
    words = Vocab(["<S>", "</S>", "<UNK>", "a"])
    elmo = make_tiny(tiny_config(num_softmax_words=4), vocab=words)
    write_checkpoint(elmo.to_checkpoint(), folder, format)
    return folder


def refused(path: Path, *mentions: str) -> None:
    """In this process, under a clock: what opens a pipe would wait for ever."""

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        assert_refused(lambda: read_checkpoint(path), *mentions)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("format", "name"), CASES)
def test_pipes_and_devices_do_not_hang(tmp_path: Path, format: str, name: str) -> None:
    file = saved(tmp_path / "m", format) / name
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        file.unlink()
        make(file)
        refused(tmp_path / "m", name, "a pipe or a device")


@pytest.mark.parametrize(("format", "name"), CASES)
def test_file_that_may_not_be_read_is_not_called_missing_or_damaged(
    tmp_path: Path, format: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "m", format)
    original = Path.open

    def refuse(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name == name:
            raise PermissionError(13, "Permission denied", str(self))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match=f"{name} cannot be read: Permission denied") as caught:
        read_checkpoint(tmp_path / "m")
    assert "missing" not in str(caught.value) and "download" not in str(caught.value)


def test_folder_that_may_not_be_read_is_not_called_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "m", "elmokit")

    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert_refused(lambda: read_checkpoint(tmp_path / "m"), "m cannot be read: Permission denied")
    monkeypatch.undo()
    original = Path.stat

    def refuse_below(self: Path, *args: Any, **kwargs: Any) -> os.stat_result:
        if self.name == "m":
            raise PermissionError(13, "Permission denied", str(self))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "stat", refuse_below)
    assert_refused(lambda: read_checkpoint(tmp_path / "m"), "m cannot be read: Permission denied")


def test_json_and_words_of_absurd_size_are_not_read(tmp_path: Path) -> None:
    for name, read in (("x.json", read_json), ("vocab.txt", lambda p: list(read_words(p)))):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
        assert_refused(lambda r=read, n=name: r(tmp_path / n), name, "expected at most")


def test_line_without_an_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1000)
    (tmp_path / "x").write_bytes(b"fine\n" + b"x" * 1000 + b"\n")
    assert_refused(lambda: list(read_lines(tmp_path / "x")), "line 2", "one sentence per line")
    (tmp_path / "x").write_bytes(b"fine\n" + b"x" * 999 + b"\n")
    assert len(list(read_lines(tmp_path / "x"))) == 2


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs devices")
def test_devices_are_no_text(tmp_path: Path) -> None:
    from elmokit.corpus.prepare import prepare

    assert_refused(lambda: list(read_lines("/dev/zero")), "/dev/zero is a device")
    assert_refused(lambda: prepare(["/dev/zero"], tmp_path / "out"), "/dev/zero is a device")
    assert not list(tmp_path.iterdir())
    assert list(read_lines("/dev/null")) == []
    check_no_device(Path("-"))
    check_no_device(tmp_path / "gone")


def test_deep_or_long_json_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", "elmokit")
    for text in ("[" * 10**6, "9" * 10**5, '{"format_version": ' + "9" * 4000 + "}",
                 json.dumps({"format_version": "x" * 10**5})):  # fmt: skip
        (folder / "config.json").write_text(text)
        with pytest.raises(Exception) as caught:
            read_checkpoint(folder)
        assert "config.json" in str(caught.value) and len(str(caught.value)) <= 500


# ------------------------------------------------------------------ archives


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_archive_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_unpack", None)
    path = zipped(tmp_path / "m.zip", {"options.json": b"{}", "weights.hdf5": bytes(10**7)})
    assert_refused(lambda: read_checkpoint(path), "m.zip", "bytes when unpacked")
    path = zipped(tmp_path / "m.zip", {"options.json": bytes(2**26 + 1)})
    assert_refused(lambda: read_checkpoint(path), "options.json has 67,108,865 bytes")


def test_tar_bomb_is_not_decompressed(tmp_path: Path) -> None:
    folder, path = saved(tmp_path / "m", "official"), tmp_path / "m.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "m")
        bomb = tarfile.TarInfo("notes.bin")  # not a file of the model, but in the way
        bomb.size = 2**24
        archive.addfile(bomb, io.BytesIO(bytes(2**24)))
    assert_refused(lambda: read_checkpoint(path), "m.tar.gz", "bytes when unpacked")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_tar_header_of_absurd_size_is_not_read(
    kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.tar.gz"
    header = tarfile.TarInfo("name")
    header.type, header.size = kind, 2**30
    with gzip.open(path, "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(2**20))
    reads: list[int] = []

    def read(file: gzip.GzipFile, size: int) -> bytes:
        reads.append(size)
        return original(file, size)

    original = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", read)
    assert_refused(lambda: read_checkpoint(path), "m.tar.gz", "a header of 1,073,741,824 bytes")
    assert max(reads) <= 2**20


def test_sparse_file_in_a_tar_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tar.gz"
    header = tarfile.TarInfo("m/weights.hdf5")
    header.type = tarfile.GNUTYPE_SPARSE  # its map can be as long as the archive
    with gzip.open(path, "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    assert_refused(lambda: read_checkpoint(path), "m.tar.gz", "a sparse file")


def test_archive_without_room_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path / "m", "official")
    path = zipped(tmp_path / "m.zip", {f.name: f.read_bytes() for f in folder.iterdir()})
    usage = archives.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    assert_refused(lambda: read_checkpoint(path), "m.zip cannot be unpacked", "TMPDIR")


# ------------------------------------------------------------------ what is written can be read


@pytest.mark.parametrize("suffix", [".h5", ".hdf5"])
@pytest.mark.parametrize("with_softmax", [True, False])
def test_pair_of_any_suffix_is_read_from_its_folder(
    tmp_path: Path, suffix: str, with_softmax: bool
) -> None:
    config = tiny_config(num_softmax_words=4 if with_softmax else 0)
    vocab = Vocab(["<S>", "</S>", "<UNK>", "a"]) if with_softmax else None
    elmo = make_tiny(config, vocab=vocab)
    write_checkpoint(elmo.to_checkpoint(), tmp_path / "m" / f"w{suffix}")
    for source in (tmp_path / "m", tmp_path / "m" / f"w{suffix}"):
        again = Elmo.from_pretrained(source)
        assert again.vocab == vocab
        np.testing.assert_array_equal(again.embed(["a b"])[0], elmo.embed(["a b"])[0])


def test_second_pair_in_a_folder_is_refused(tmp_path: Path) -> None:
    checkpoint = make_tiny().to_checkpoint()
    write_checkpoint(checkpoint, tmp_path / "a.hdf5")
    for target, format in ((tmp_path / "b.h5", None), (tmp_path, "official")):
        assert_refused(
            lambda t=target, f=format: write_checkpoint(checkpoint, t, f, force=True), "a.hdf5"
        )
    write_checkpoint(checkpoint, tmp_path / "a.hdf5", force=True)


def test_replaced_pair_leaves_no_softmax_of_another_model(tmp_path: Path) -> None:
    saved(tmp_path / "m", "official")
    write_checkpoint(make_tiny().to_checkpoint(), tmp_path / "m", "official", force=True)
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["options.json", "weights.hdf5"]


def test_names_of_300_characters_are_refused(tmp_path: Path) -> None:
    from elmokit.corpus import Corpus
    from elmokit.embed_file import embed_file

    elmo, name = make_tiny(), "x" * 300
    for call in (
        lambda: Elmo.from_pretrained(name),
        lambda: Elmo.from_pretrained(tmp_path / name),
        lambda: Elmo.from_files(tmp_path / name, tmp_path / name),
        lambda: elmo.save_pretrained(tmp_path / name),
        lambda: write_checkpoint(elmo.to_checkpoint(), tmp_path / name),
        lambda: embed_file(elmo, tmp_path / name, tmp_path / "out.h5"),
        lambda: embed_file(elmo, __file__, tmp_path / f"{name}.h5"),
        lambda: Corpus.open(tmp_path / name),
    ):
        assert_refused(call)
    assert not list(tmp_path.iterdir())
