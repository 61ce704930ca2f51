"""A work folder survives a kill at any moment and damage to any byte, for both of its users."""

import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import assert_refused

from elmokit.corpus import prepare as preparing
from elmokit.corpus.prepare import prepare
from elmokit.errors import FormatError
from elmokit.files.arrays import load_arrays, save_arrays
from elmokit.files.folders import open_work
from elmokit.vectors import Entry
from elmokit.vectors.work import Blocks, Lines, open_unfinished

LINES = [f"line {i}" for i in range(6)]
CALLS = ["replace", "unlink", "rmdir", "mkdir", "rename", "fsync"]


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Any]]:
    """Ends the process, as far as the disk can see, at the n-th change of a folder."""

    def context(moment: int) -> Any:
        patch = pytest.MonkeyPatch()
        count = 0
        for name in CALLS:
            original = getattr(os, name)

            def limited(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count > moment:
                    raise Killed
                return _original(*args, **kwargs)

            patch.setattr(os, name, limited)
        return patch

    yield context


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def embed(output: Path, resume: bool) -> None:
    """What `embed_file` does, without a model."""
    lines = iter(LINES)
    with open_unfinished(output, 2) as done:
        done.begin({"layers": "top"}, lines, resume)
        for line in lines:
            vectors = np.full((2, 3), done.num_lines, np.float32)
            done.add([Entry(done.num_lines, line, line.split(), vectors)])
        assert done.finish() == len(LINES)


def values(output: Path) -> Any:
    """What a file of vectors holds, to compare."""
    if output.suffix == ".jsonl":
        return output.read_bytes()
    return {key: array.tolist() for key, array in np.load(output).items()}


def test_prepare_by_force_can_be_killed_at_any_moment(
    tmp_path: Path, kill_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "BLOCK_BYTES", 400)
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("".join(f"old {i} and more words\n" for i in range(30)), encoding="utf-8")
    prepare([source], tmp_path / "old", workers=1)
    source.write_text("".join(f"new {i} and other words\n" for i in range(30)), encoding="utf-8")
    prepare([source], tmp_path / "new", workers=1)
    old, new = contents(tmp_path / "old"), contents(tmp_path / "new")
    for moment in range(1000):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(tmp_path / "old", out)
        patch = kill_at(moment)
        try:
            prepare([source], out, workers=1, force=True)
            break
        except Killed:
            pass
        finally:
            patch.undo()
        found = contents(out) if out.exists() else contents(tmp_path / "out.partial" / "old")
        assert found in (old, new), moment
        prepare([source], out, workers=1, force=True)
        assert contents(out) == new, moment
        assert not (tmp_path / "out.partial").exists(), moment
    assert 20 < moment < 999


def test_old_corpus_is_back_before_it_is_refused(tmp_path: Path, kill_at: Any) -> None:
    """Killed between the two renames, and run again without --force."""
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("".join(f"{i} and more words\n" for i in range(30)), encoding="utf-8")
    prepare([source], out, workers=1)
    before = contents(out)
    os.makedirs(tmp_path / "out.partial")
    os.rename(out, tmp_path / "out.partial" / "old")
    assert_refused(lambda: prepare([source], out, workers=1), "exists already", "--force")
    assert contents(out) == before
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_embed_can_be_killed_at_any_moment(
    tmp_path: Path, kill_at: Any, exists: bool, suffix: str
) -> None:
    output = tmp_path / f"out{suffix}"
    embed(tmp_path / f"whole{suffix}", resume=False)
    whole = values(tmp_path / f"whole{suffix}")
    for moment in range(1000):
        if exists:
            output.write_bytes(b"old")
        else:
            output.unlink(missing_ok=True)
        patch = kill_at(moment)
        try:
            embed(output, resume=True)
            break
        except Killed:
            pass
        finally:
            patch.undo()
        assert not exists or output.read_bytes() == b"old" or values(output) == whole
        embed(output, resume=True)
        assert values(output) == whole
        assert not (tmp_path / f"out{suffix}.partial").exists()
    assert 10 < moment < 999


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """The output of an embedding run that stopped before its end."""
    return stopped(tmp_path / "out.npz")


def stopped(output: Path) -> Path:
    lines = iter(LINES)
    with pytest.raises(Killed), open_unfinished(output, 2) as done:
        done.begin({"layers": "top"}, lines, False)
        for i in range(4):
            done.add([Entry(i, next(lines), ["line", str(i)], np.full((2, 3), i, np.float32))])
        raise Killed
    return output


def damages(path: Path) -> Iterator[bytes]:
    """The bytes of a file with one of them changed, each twentieth, and cut, and mere noise."""
    data = path.read_bytes()
    for place in range(0, len(data), 20):
        yield data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
    yield from (data[:100], data[:-40], b"", b"noise" * 100)


def test_damage_to_any_byte_of_a_block_is_repaired(unfinished: Path, tmp_path: Path) -> None:
    embed(tmp_path / "whole.npz", resume=False)
    whole = dict(np.load(tmp_path / "whole.npz"))
    shutil.copytree(f"{unfinished}.partial", tmp_path / "kept")
    for damaged in damages(tmp_path / "kept" / "000000000001.npz"):
        shutil.copytree(tmp_path / "kept", f"{unfinished}.partial", dirs_exist_ok=True)
        (tmp_path / "out.npz.partial" / "000000000001.npz").write_bytes(damaged)
        embed(unfinished, resume=True)
        found = dict(np.load(unfinished))
        assert all(np.array_equal(found[key], whole[key]) for key in whole)


@pytest.mark.parametrize("name", ["result.jsonl", "journal"])
def test_damage_to_any_byte_of_json_lines_is_repaired(tmp_path: Path, name: str) -> None:
    unfinished = stopped(tmp_path / "out.jsonl")
    embed(tmp_path / "whole.jsonl", resume=False)
    shutil.copytree(f"{unfinished}.partial", tmp_path / "kept")
    for damaged in damages(tmp_path / "kept" / name):
        shutil.copytree(tmp_path / "kept", f"{unfinished}.partial", dirs_exist_ok=True)
        (tmp_path / "out.jsonl.partial" / name).write_bytes(damaged)
        embed(unfinished, resume=True)
        assert unfinished.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
        assert not (tmp_path / "out.jsonl.partial").exists()


def test_journal_of_other_values_is_damaged(tmp_path: Path) -> None:
    unfinished = stopped(tmp_path / "out.jsonl")
    embed(tmp_path / "whole.jsonl", resume=False)
    shutil.copytree(f"{unfinished}.partial", tmp_path / "kept")
    for text in (b"[1]", b"5", b"{}", b'[1, "xy", 2, 3]', b'["1", "", 2, 3]', b"[0, null, 0, 0]"):
        shutil.copytree(tmp_path / "kept", f"{unfinished}.partial", dirs_exist_ok=True)
        line = text + f" {zlib.crc32(text):08x}\n".encode()
        (tmp_path / "out.jsonl.partial" / "journal").write_bytes(line)
        embed(unfinished, resume=True)
        assert unfinished.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_json_lines_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk never holds more than the result and a journal of 100 bytes per group."""
    embed(tmp_path / "whole.jsonl", resume=False)
    size = (tmp_path / "whole.jsonl").stat().st_size
    folder, sizes = tmp_path / "new", []
    original = os.replace

    def watched(*args: Any) -> None:
        sizes.append(sum(len(data) for data in contents(folder).values()))
        original(*args)

    monkeypatch.setattr(os, "replace", watched)
    embed(folder / "out.jsonl", resume=False)
    assert size <= max(sizes) < size + 120 * len(LINES)
    assert list(contents(folder)) == ["out.jsonl"]
    assert contents(folder)["out.jsonl"] == (tmp_path / "whole.jsonl").read_bytes()


def test_json_lines_of_an_older_version_are_continued(tmp_path: Path) -> None:
    """It kept blocks of them, as of the other formats."""
    stopped(tmp_path / "out.npz").with_name("out.npz.partial").rename(
        tmp_path / "out.jsonl.partial"
    )
    with open_unfinished(tmp_path / "out.jsonl", 2) as done:
        assert isinstance(done, Blocks)
        lines = iter(LINES)
        done.begin({"layers": "top"}, lines, True)
        assert (done.num_lines, next(lines)) == (4, LINES[4])
    embed(tmp_path / "out.jsonl", resume=True)
    embed(tmp_path / "whole.jsonl", resume=False)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    with open_unfinished(tmp_path / "out.jsonl", 2) as done:
        assert isinstance(done, Lines)


def test_block_of_other_arrays_is_damaged(unfinished: Path) -> None:
    path = Path(f"{unfinished}.partial") / "000000000001.npz"
    arrays = dict(np.load(path))
    words = np.frombuffer(b'{"texts": ["line 1"], "tokens": [5]}', np.uint8)
    for name, value in [
        ("words", words), ("words", words[:9]), ("shapes", arrays["shapes"] * -1),
        ("shapes", arrays["shapes"].ravel()), ("values", arrays["values"][1:]),
        ("values", arrays["values"].astype(np.float64)), ("digest", arrays["digest"][1:]),
    ]:  # fmt: skip
        save_arrays(path, **(arrays | {name: value}))
        kept = shutil.copytree(f"{unfinished}.partial", f"{unfinished}.kept")
        embed(unfinished, resume=True)
        shutil.move(kept, f"{unfinished}.partial")


def test_damaged_settings_say_how_to_go_on(unfinished: Path) -> None:
    meta = Path(f"{unfinished}.partial") / "meta.json"
    meta.write_text("{")
    assert_refused(lambda: embed(unfinished, resume=True), str(meta), "leave --resume out")
    embed(unfinished, resume=False)


def test_damaged_block_of_text_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(preparing, "BLOCK_BYTES", 400)
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("".join(f"{i} and more words\n" for i in range(60)), encoding="utf-8")
    prepare([source], tmp_path / "whole", workers=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "count", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            prepare([source], out, workers=1)
    shutil.copytree(tmp_path / "out.partial", tmp_path / "kept")
    block = tmp_path / "kept" / "train-000001.npz"
    arrays = dict(np.load(block))
    tokens = arrays["tokens"].copy()
    tokens[0] = -1
    others = [
        {"tokens": tokens}, {"tokens": tokens + 10**6}, {"lengths": arrays["lengths"] * 2},
        {"sentences": arrays["sentences"][1:]}, {"hashes": arrays["hashes"][1:]},
        {"numbers": arrays["numbers"][:1]}, {"words": np.frombuffer(b"\xff", np.uint8)},
    ]  # fmt: skip
    files = []
    for i, change in enumerate(others):
        save_arrays(tmp_path / f"{i}.npz", **(arrays | change))
        files.append((tmp_path / f"{i}.npz").read_bytes())
    for damaged in [*list(damages(block))[::4], *files]:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(tmp_path / "kept", tmp_path / "out.partial", dirs_exist_ok=True)
        (tmp_path / "out.partial" / "train-000001.npz").write_bytes(damaged)
        prepare([source], out, workers=1)
        assert contents(out) == contents(tmp_path / "whole")
    assert "is made again" in caplog.text


def test_arrays_of_absurd_size_take_no_memory(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "x.npz"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header)
    with pytest.raises(FormatError, match="damaged"):
        load_arrays(path, {"a": (np.float32, 1)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(10**6))
    with pytest.raises(FormatError, match="damaged"):
        load_arrays(path, {"a": (np.float32, 1)})


def test_unreadable_work_is_not_discarded(
    unfinished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that an administrator has taken away is not one without blocks."""
    original = Path.open

    def refuse(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name in names:
            raise PermissionError(13, "Permission denied", str(self))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    for names in (["meta.json"], ["000000000002.npz"]):
        assert_refused(lambda: embed(unfinished, True), names[0], "Permission denied")
    with open_work(unfinished) as work:
        names = ["meta.json"]
        assert_refused(lambda: work.keep_if({}), "meta.json", "Permission denied")
        assert work.has_blocks
