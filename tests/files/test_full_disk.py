"""On a full disk a command ends with one line that names the file, and leaves nothing half done."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strategies import assert_refused, make_tiny, random_model, tiny_config
from typer.testing import CliRunner

from elmokit.cli import app
from elmokit.config import EncoderConfig, LstmConfig
from elmokit.errors import FileError
from elmokit.files import write as sink
from elmokit.files.arrays import load_tensors, save_tensors
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint
from elmokit.vectors import Entry, write_vectors

FORMATS = ["elmokit", "official", "tf"]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk of 192 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("this user cannot mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look at the free space: what fails, fails while it is written."""
    monkeypatch.setattr(sink.shutil, "disk_usage", _no_answer)


def _no_answer(path: Path) -> None:
    raise OSError("not supported")


def entries(number: int) -> Iterator[Entry]:
    vectors = np.zeros((20, 64), np.float32)
    return (Entry(i, f"line {i}", ["a"] * 20, vectors) for i in range(number))


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from elmokit.vectors import Entry
from elmokit.vectors.work import open_unfinished
from elmokit.errors import FileError

path, vectors = Path(sys.argv[1]), np.zeros((20, 64), np.float32)
for number in (30, 35, 37, 60, 500):
    try:
        with open_unfinished(path, 2) as done:
            entries = (Entry(i, f"line {i}", ["a"] * 20, vectors) for i in range(number))
            done.write(entries)
    except FileError as e:
        assert f"{path} cannot be written: " in str(e)
        assert not list(path.parent.iterdir())
        print(number, "failed")
    else:
        assert list(path.parent.iterdir()) == [path]
        path.unlink()
        print(number, "written")
"""


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".jsonl"])
def test_vectors(full: Path, suffix: str) -> None:
    """In a process of its own, because HDF5 used to end it."""
    command = [sys.executable, "-c", PROGRAM, str(full / f"x{suffix}")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "30 written" in done.stdout and "60 failed\n500 failed" in done.stdout


def test_embed_says_what_to_do(full: Path, tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "model")
    (tmp_path / "in.txt").write_text("a b c d e f g h\n" * 105, encoding="utf-8")
    arguments = ["embed", str(tmp_path / "model"), str(tmp_path / "in.txt"), "-o"]
    result = CliRunner().invoke(app, [*arguments, str(full / "x.h5"), "--quiet"])
    assert result.exit_code == 1
    (problem,) = [line for line in result.stderr.splitlines() if "cannot be written" in line]
    assert f"{full}/x.h5 cannot be written: it needs" in problem
    assert result.stderr.endswith("continue with --resume\n")
    assert [path.name for path in full.iterdir()] == ["x.h5.partial"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("known", [True, False])
def test_models(full: Path, format: Any, known: bool, request: pytest.FixtureRequest) -> None:
    if not known:
        request.getfixturevalue("unlimited")
    (full / "ballast").write_bytes(b"x" * 170_000)
    checkpoint = make_tiny().to_checkpoint()
    problem = "the disk has" if known else "No space left on device"
    assert_refused(lambda: write_checkpoint(checkpoint, full / "m", format), f"{full}/m", problem)
    assert [path.name for path in full.iterdir()] == ["ballast"]


@pytest.mark.parametrize("target", ["", "w.hdf5"])
def test_folder_that_is_a_disk_can_be_written(full: Path, target: str) -> None:
    write_checkpoint(make_tiny().to_checkpoint(), full / target)
    read_checkpoint(full)
    assert not list(full.glob(".*"))


def test_corpora(full: Path, tmp_path: Path) -> None:
    from elmokit.corpus.prepare import prepare

    lines = (f"word{i} and word{i + 1} make a line of text" for i in range(300))
    (tmp_path / "in.txt").write_text("\n".join(lines), encoding="utf-8")
    (full / "ballast").write_bytes(b"x" * 120_000)
    assert_refused(
        lambda: prepare([tmp_path / "in.txt"], full / "corpus", workers=1),
        f"{full}/corpus", "cannot be written: No space left on device",
    )  # fmt: skip
    assert not (full / "corpus").exists()


class Broken:
    """A file that takes no more bytes after a while."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: memoryview) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return int(self.file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes every sink fail after so many bytes."""
    original = sink.Sink.__init__

    def limit(room: int) -> None:
        def init(self: sink.Sink, path: Path) -> None:
            original(self, path)
            self._file = Broken(self._file, room)  # type: ignore[assignment]

        monkeypatch.setattr(sink.Sink, "__init__", init)

    return limit


@pytest.mark.parametrize("room", [0, 1, 96, 5000, 30_000])
def test_failed_write_of_hdf5_is_an_error_of_ours(tmp_path: Path, broken: Any, room: int) -> None:
    broken(room)
    with pytest.raises(OSError, match="No space left"):
        write_vectors(tmp_path / "x.h5", entries(40))


def test_failed_write_of_a_pickle_is_an_error_of_ours(tmp_path: Path, broken: Any) -> None:
    words = EncoderConfig(char_cnn=None, num_words=11, word_dim=3)
    lstm = LstmConfig(dim=24, projection_dim=16, forget_bias=0.0)
    checkpoint = random_model(tiny_config(encoder=words, lstm=lstm)).to_checkpoint()
    broken(1000)
    assert_refused(
        lambda: write_checkpoint(checkpoint, tmp_path / "m", "manylangs"),
        f"{tmp_path}/m cannot be written: No space left",
    )
    assert not list(tmp_path.iterdir())


def test_sink_is_a_file(tmp_path: Path) -> None:
    with sink.Sink(tmp_path / "x") as file:
        assert file.write(b"hello world") == 11
        file.seek(6)
        file.write(b"there")
        file.seek(-5, 2)
        assert file.read(5) == b"there" and file.tell() == 11
        file.truncate(5)
        file.check()
    assert (tmp_path / "x").read_bytes() == b"hello"


def test_sink_remembers_the_first_error_and_reads_what_came_after(tmp_path: Path) -> None:
    with sink.Sink(tmp_path / "x") as file:
        file.write(b"hello")
        file._file = Broken(file._file, 0)  # type: ignore[assignment]
        file.seek(3)
        file.write(b"p me")
        file.seek(0)
        assert file.read(20) == b"help me"
        file.truncate(3)
        with pytest.raises(OSError, match="No space"):
            file.check()


def test_tensors_come_back(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).reshape(2, 3).t()}
    save_tensors(tmp_path / "x", tensors, {"format": "pt"})
    assert load_tensors(tmp_path / "x")["a"].equal(tensors["a"])
    with pytest.raises(FileError, match=r"y cannot be written: "):
        save_tensors(tmp_path / "no" / "y", tensors)


def test_failure_in_safetensors_names_the_cause_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors import SafetensorError

    def fail(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left (os error 28)")

    monkeypatch.setattr("elmokit.files.arrays.save_file", fail)
    assert_refused(
        lambda: save_tensors(tmp_path / "x", {"a": torch.zeros(3)}),
        f"{tmp_path}/x cannot be written: No space left",
    )
