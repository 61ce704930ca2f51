"""A run that is killed leaves nothing at OUT, and continues to the same bits."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmokit import read_vectors
from elmokit.vectors.work import Blocks

NUM_LINES, WINDOW_LINES = 600, 20


@pytest.fixture
def long_text(tmp_path: Path) -> Path:
    words = ["gift", "music", "the", "of", "wrapped", "한국어", "river", "x", "bank", "Señor"]
    rng = random.Random(0)
    path = tmp_path / "long.txt"
    lines = (" ".join(rng.choices(words, k=rng.randrange(12))) for _ in range(NUM_LINES))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.model.execution.WINDOW_SENTENCES", WINDOW_LINES)


def assert_same_file(a: Path, b: Path) -> None:
    with h5py.File(a) as got, h5py.File(b) as expected:
        assert set(got) == set(expected) and len(got) == NUM_LINES + 1
        for key in expected:
            np.testing.assert_array_equal(got[key][...], expected[key][...], strict=True)


def interrupted_after(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the next run stop like after Ctrl-C when it has kept so many blocks."""
    add = Blocks.add

    def limited(self: Blocks, entries: Any) -> None:
        if self.num_lines == blocks * WINDOW_LINES:
            monkeypatch.setattr(Blocks, "add", add)
            raise KeyboardInterrupt
        add(self, entries)

    monkeypatch.setattr(Blocks, "add", limited)


KILLED = """
import os, signal, sys
from elmokit.model import execution
execution.WINDOW_SENTENCES, moment = int(sys.argv.pop(1)), sys.argv.pop(1)
replace, names = os.replace, []
def deadly(source, target):
    names.append(target)
    if len([name for name in names if name.suffix == ".npz"]) == 4:
        if moment == "after":
            replace(source, target)
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = deadly
from elmokit.cli import main
main()
"""
"""`elmokit`, which dies before or after its fourth block gets its name."""


@pytest.mark.parametrize(("moment", "num_blocks"), [("before", 3), ("after", 4)])
def test_killed_run_continues_to_the_same_bits(
    run: Any, model: Path, long_text: Path, moment: str, num_blocks: int
) -> None:
    output, partial = long_text.with_name("out.h5"), long_text.with_name("out.h5.partial")
    arguments = ["embed", str(model), str(long_text), "-o", str(output)]
    killed = subprocess.run([sys.executable, "-c", KILLED, str(WINDOW_LINES), moment, *arguments])
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()
    continued = run(*arguments, "--resume", "-v").stderr
    assert f"continued after {num_blocks * WINDOW_LINES} lines" in continued
    assert not partial.exists()
    run(*arguments[:-1], output.with_name("whole.h5"))
    assert_same_file(output, output.with_name("whole.h5"))


KILLED_IN_LINES = """
import os, signal, sys
from elmokit.model import execution
execution.WINDOW_SENTENCES, moment = int(sys.argv.pop(1)), int(sys.argv.pop(1))
fsync, calls = os.fsync, []
def deadly(file):
    calls.append(file)
    if len(calls) == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)
os.fsync = deadly
from elmokit.cli import main
main()
"""
"""`elmokit`, which dies when it has written some lines, or noted that it has."""


@pytest.mark.parametrize(("moment", "num_groups"), [(7, 3), (8, 4)])
def test_killed_run_of_json_lines_continues_to_the_same_bytes(
    run: Any, model: Path, long_text: Path, moment: int, num_groups: int
) -> None:
    output, partial = long_text.with_name("out.jsonl"), long_text.with_name("out.jsonl.partial")
    arguments = ["embed", str(model), str(long_text), "-o", str(output)]
    program = [sys.executable, "-c", KILLED_IN_LINES, str(WINDOW_LINES), str(moment)]
    assert subprocess.run([*program, *arguments]).returncode == -signal.SIGKILL
    assert not output.exists()
    continued = run(*arguments, "--resume", "-v").stderr
    assert f"continued after {num_groups * WINDOW_LINES} lines" in continued
    assert not partial.exists()
    run(*arguments[:-1], output.with_name("whole.jsonl"))
    assert output.read_bytes() == output.with_name("whole.jsonl").read_bytes()
    assert output.read_text(encoding="utf-8") == run(*arguments[:-2]).stdout


@pytest.mark.parametrize("num_blocks", [0, 1, 29])
def test_interrupted_run_continues(
    run: Any, model: Path, long_text: Path, monkeypatch: pytest.MonkeyPatch, num_blocks: int
) -> None:
    output = long_text.with_name("out.h5")
    arguments = ("embed", model, long_text, "-o", output, "--layers", "all")
    interrupted_after(num_blocks, monkeypatch)
    result = run(*arguments, "-q", code=130)
    assert result.stderr == "elmokit: interrupted; continue with --resume\n"
    assert not output.exists()
    assert output.with_name("out.h5.partial").exists() == (num_blocks > 0)
    run(*arguments, "--resume")
    run(*arguments[:4], output.with_name("whole.h5"), *arguments[5:])
    assert_same_file(output, output.with_name("whole.h5"))


def test_failure_while_the_result_is_written(
    run: Any, model: Path, long_text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = long_text.with_name("out.h5")
    arguments = ("embed", model, long_text, "-o", output)
    with monkeypatch.context() as patched:
        patched.setattr("elmokit.vectors.work.write_vectors", _no_space)
        assert "No space left" in run(*arguments, code=1).stderr
    assert not output.exists()
    assert f"continued after {NUM_LINES} lines" in run(*arguments, "--resume", "-v").stderr
    assert list(output.parent.glob("*.partial")) == []


def _no_space(path: Path, *_: object) -> None:
    path.write_bytes(b"half")
    raise OSError(28, "No space left on device", str(path))


@pytest.fixture
def unfinished(
    run: Any, model: Path, long_text: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[object, ...]:
    """The arguments of a run that was interrupted."""
    arguments = ("embed", model, long_text, "-o", long_text.with_name("out.h5"))
    interrupted_after(3, monkeypatch)
    run(*arguments, code=130)
    return arguments


@pytest.mark.parametrize(
    "change", [("--layers", "top"), ("--level", "sentence", "--layers", "average"),
               ("--tokenizer", "whitespace"), ("--state", "warm")]
)  # fmt: skip
def test_other_settings_are_refused(run: Any, unfinished: Any, change: tuple[str, ...]) -> None:
    result = run(*unfinished, "--resume", *change, code=1)
    assert f"{change[0][2:]}=" in result.stderr and f"not {change[1]!r}" in result.stderr
    run(*unfinished, "--resume")  # what was done is still there


def test_other_model_is_refused(run: Any, unfinished: Any, tmp_path: Path) -> None:
    from strategies import make_tiny

    make_tiny(seed=1).save_pretrained(tmp_path / "other")
    result = run("embed", tmp_path / "other", *unfinished[2:], "--resume", code=1)
    assert "model=" in result.stderr


def test_other_input_is_refused(run: Any, unfinished: Any, long_text: Path) -> None:
    lines = long_text.read_text(encoding="utf-8").splitlines()
    lines[25] += " changed"
    long_text.write_text("\n".join(lines), encoding="utf-8")
    assert "lines 21..40" in run(*unfinished, "--resume", code=1).stderr


def test_longer_input_is_continued(run: Any, unfinished: Any, long_text: Path) -> None:
    with long_text.open("a") as file:
        file.write("one more\n")
    assert f"{NUM_LINES + 1} lines" in run(*unfinished, "--resume").stderr


def test_damaged_block_is_computed_again(run: Any, unfinished: Any, long_text: Path) -> None:
    block = long_text.with_name("out.h5.partial") / f"{WINDOW_LINES:012d}.npz"
    block.write_bytes(block.read_bytes()[:100])
    assert f"continued after {WINDOW_LINES} lines" in run(*unfinished, "--resume", "-v").stderr


def test_without_resume_work_is_discarded_and_said_so(run: Any, unfinished: Any) -> None:
    assert "discarded" in run(*unfinished).stderr


def test_files_of_others_stay(run: Any, unfinished: Any, long_text: Path) -> None:
    foreign = long_text.with_name("out.h5.partial") / "notes.txt"
    foreign.write_text("mine")
    run(*unfinished)
    assert [path.name for path in foreign.parent.iterdir()] == ["notes.txt"]


def test_run_of_the_version_before_continues_and_says_what_is_missing(
    run: Any, unfinished: Any, long_text: Path
) -> None:
    partial = long_text.with_name("out.h5.partial")
    settings = json.loads((partial / "meta.json").read_text())
    for name in ("elmokit", "sentences", "empty"):
        del settings[name]
    (partial / "meta.json").write_text(json.dumps(settings))
    for path in partial.glob("*.npz"):  # as it kept them
        with np.load(path) as file:
            arrays = dict(file)
        words = json.loads(arrays["words"].tobytes())
        del words["offsets"]
        arrays["words"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
        np.savez(path, **arrays)
    result = run(*unfinished, "--resume")
    assert f"lines 1..{3 * WINDOW_LINES} have no offsets" in result.stderr
    lines = list(read_vectors(long_text.with_name("out.h5")))
    assert len(lines) == NUM_LINES and all(line.tokens is not None for line in lines)
    has_offsets = [line.offsets is not None for line in lines]
    assert has_offsets == [i >= 3 * WINDOW_LINES for i in range(NUM_LINES)]


def test_second_process_is_refused(run: Any, model: Path, text: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    partial = text.with_name("out.npz.partial")
    partial.mkdir()
    with (partial / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run("embed", model, text, "-o", text.with_name("out.npz"), code=1)
    assert "another process" in result.stderr


def test_resume_needs_a_file_and_a_state_that_starts_anew(
    run: Any, model: Path, text: Path
) -> None:
    assert "-o OUT" in run("embed", model, text, "--resume", code=1).stderr
    output = text.with_name("out.h5")
    result = run("embed", model, text, "-o", output, "--resume", "--state", "carry", code=1)
    assert "carry" in result.stderr
    run("embed", model, text, "-o", output, "--resume")  # nothing to continue: from the start
