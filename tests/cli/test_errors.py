"""Failures are one line and an exit code; usage errors exit with 2."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from strategies import assert_refused
from typer.testing import Result

import elmokit
from elmokit.cli import report
from elmokit.cli.options import apply_file
from elmokit.files.read import MAX_JSON_BYTES


def assert_one_line(result: Result, *mentions: str) -> None:
    assert result.stdout == ""
    assert result.stderr.startswith("elmokit: ") and result.stderr.count("\n") == 1, result.stderr
    assert len(result.stderr) <= len("elmokit: ") + 501
    for mention in mentions:
        assert mention in result.stderr


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        (("--layers", "7"), "0..2"),
        (("--layers", "second"), "layers='second'"),
        (("--layers", "mix:ner"), "mix:ner"),
        (("--layers", "all", "--level", "sentence"), "one vector"),
        (("--tokenizer", "nltk"), "tokenizer='nltk'"),
        (("--device", "abacus"), "device='abacus'"),
        (("--device", "meta"), "device='meta'"),
        (("--layers", "9" * 5000), "layers='999"),
        (("--layers", "x" * 100_000), "layers='xxx"),
        (("--tokenizer", "x" * 100_000), "tokenizer="),
        (("-o", "x" * 300 + ".h5"), "File name too long"),
        (("-o", "out.csv"), ".parquet"),
    ],
)
def test_bad_option_fails_in_one_line(
    run: Any, model: Path, text: Path, options: tuple[str, ...], mention: str
) -> None:
    assert_one_line(run("embed", model, text, *options, code=1), mention)
    assert [path.name for path in text.parent.iterdir()] == ["in.txt"]


def test_missing_files(run: Any, model: Path, text: Path) -> None:
    assert_one_line(run("embed", "no-such-model", text, code=1), "no-such-model: no such model")
    assert_one_line(run("embed", model, "no-such.txt", code=1), "no-such.txt")
    assert_one_line(run("embed", model, text.parent, code=1), "directory")
    assert_one_line(run("info", "no-such-model", code=1), "no-such-model")
    assert_one_line(run("convert", "no-such-model", text.parent / "x", code=1), "no-such-model")
    assert_one_line(run("similar", model, "no-such.txt", "[a]", code=1), "no-such.txt")


@pytest.mark.parametrize("name", ["settings.toml", "settings.json"])
def test_settings_from_a_pipe_are_not_waited_for(name: str, tmp_path: Path) -> None:
    def late(*_: object) -> None:
        raise AssertionError("it waits")

    os.mkfifo(tmp_path / name)
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        assert_refused(lambda: apply_file({}, str(tmp_path / name)), name, "a pipe")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["settings.toml", "settings.json"])
def test_hostile_settings_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text("x = " * name.endswith("toml") + "[" * 100_000)
    assert_refused(lambda: apply_file({}, str(path)), name, "is not")
    monkeypatch.setattr(Path, "read_text", None)
    os.truncate(path, MAX_JSON_BYTES + 1)
    assert_refused(lambda: apply_file({}, str(path)), name, "expected at most")
    path.unlink()
    assert_refused(lambda: apply_file({}, str(path)), name, "no such file")


def test_bytes_that_are_not_utf8_name_their_line(run: Any, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"fine\ncaf\xe9\n")
    output = tmp_path / "out.h5"
    assert_one_line(run("embed", model, tmp_path / "in.txt", "-o", output, code=1), "line 2")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_damaged_archives(run: Any, model: Path, tmp_path: Path) -> None:
    import gzip

    packed = bytearray(gzip.compress(bytes(range(97, 123)) * 1000))
    packed[30] ^= 0xFF
    (tmp_path / "in.gz").write_bytes(packed)
    assert_one_line(run("embed", model, tmp_path / "in.gz", code=1), "in.gz")


@pytest.mark.parametrize(
    "arguments",
    [
        ("embed", "M"),
        ("embed", "M", "I", "--level", "word"),
        ("embed", "M", "I", "--pooling", "sum"),
        ("embed", "M", "I", "--state", "frozen"),
        ("embed", "M", "I", "--batch-size", "0"),
        ("convert", "M", "D", "--to", "onnx"),
        ("similar", "M", "C", "[q]", "-k", "0"),
        ("embody",),
    ],
)
def test_wrong_usage_exits_with_2(run: Any, arguments: tuple[str, ...]) -> None:
    assert "Usage: " in run(*arguments, code=2).stderr


def test_traceback_only_when_verbose(run: Any, model: Path) -> None:
    assert "Traceback" not in run("embed", model, "no-such.txt", code=1).output
    assert "Traceback" in run("embed", model, "no-such.txt", "-v", code=1).stderr


@pytest.mark.parametrize(
    ("error", "mention"),
    [
        (ZeroDivisionError("oh\nno"), "unexpected ZeroDivisionError: oh no"),
        (KeyError("x" * 338_000), "unexpected KeyError: 'xxx"),
        (OSError(36, "File name too long", "x" * 5000), "File name too long"),
        (MemoryError(), "--batch-size"),
        (RuntimeError("CUDA out of memory. Tried"), "--batch-size"),
        (OSError(28, "No space left on device", "x.h5"), "x.h5: No space left on device"),
    ],
)
def test_unforeseen_errors_are_one_line_too(
    run: Any, model: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, mention: str
) -> None:
    def fail(source: str) -> None:
        raise error

    monkeypatch.setattr("elmokit.cli.info.describe", fail)
    assert_one_line(run("info", model, code=1), mention)


def test_version_and_help(run: Any) -> None:
    assert run("--version").stdout == f"elmokit {elmokit.__version__}\n"
    listed = run("-h").stdout
    for verb in (
        "embed", "info", "convert", "similar", "bench", "prepare", "pretrain", "evaluate",
        "substitutes", "train", "predict", "probe",
    ):  # fmt: skip
        assert f"\n  {verb} " in listed
        assert all(len(line) <= 80 for line in run(verb, "--help").stdout.splitlines())


def test_colour_is_for_terminals_that_want_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report.say("trouble", error=True)
    assert capfd.readouterr().err == "elmokit: trouble\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    report.say("trouble", error=True)
    assert capfd.readouterr().err == "elmokit: trouble\n"
    monkeypatch.delenv("NO_COLOR")
    report.say("trouble", error=True)
    assert "\x1b[31m" in capfd.readouterr().err


def test_bar_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not report.shows_bar(no_progress=False, quiet=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert report.shows_bar(no_progress=False, quiet=False)
    assert not report.shows_bar(no_progress=True, quiet=False)
    assert not report.shows_bar(no_progress=False, quiet=True)
