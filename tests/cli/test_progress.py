"""Long work says on standard error what it does; standard output stays data."""

import json
from pathlib import Path
from typing import Any

import pytest
from task_data import write_data

import elmokit
from elmokit.cli.report import Progress

HOMOGRAPHS = Path(elmokit.__file__).parent / "builtin" / "examples" / "en_homographs.tsv"


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_first_figures_come_within_seconds_and_later_ones_are_rare(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    progress = Progress(quiet=False, clock=clock)
    progress.header("embedding", "3 files")
    for tenths in range(10_000):  # a thousand seconds
        clock.now = tenths / 10
        progress("reading", tenths, 10_000, "lines")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "elmokit: embedding: 3 files",
        "elmokit: reading: 10,000 lines",
        "elmokit: reading: 0%, 20 of 10,000 lines, left 0:16:38",
    ]
    assert 10 < len(lines) < 40


def test_a_new_stage_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress(quiet=False, clock=clock)
    progress("reading", 0, None, "bytes")
    clock.now = 3.0
    progress("reading", 5_000_000, None, "bytes")
    progress("evaluating", 0.0)
    assert capsys.readouterr().err.splitlines() == [
        "elmokit: reading", "elmokit: reading: 5 MB in 0:00:03", "elmokit: evaluating",
    ]  # fmt: skip


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(quiet=True)
    progress.header("embedding", "3 files")
    progress("reading", 1)
    with progress.alive("reading"):
        pass
    assert capsys.readouterr().err == ""


def test_embed_and_evaluate_begin_with_the_model(
    run: Any, model: Path, text: Path, tmp_path: Path
) -> None:
    options = ("embed", model, text)
    result = run(*options)
    header, work, *_ = result.stderr.splitlines()
    assert f"{model}: " in header and " parameters, " in header and header.endswith(" on cpu")
    assert work.startswith("elmokit: embedding ") and work.endswith(": 2 lines")
    assert [json.loads(line)["index"] for line in result.stdout.splitlines()] == [0, 1]
    quiet = run(*options, "-q")
    assert quiet.stderr == "" and quiet.stdout == result.stdout
    to_file = run(*options, "-o", tmp_path / "out.h5")
    assert to_file.stderr.splitlines()[:2] == [header, work]


def test_prepare_pretrain_and_evaluate_say_what_they_do(run: Any, tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_text("the cat sat\n배 가 떴 다\n" * 40, encoding="utf-8")
    corpus, out = tmp_path / "corpus", tmp_path / "run"
    prepare = ("prepare", text, "-o", corpus, "--workers", 1, "--valid-fraction", 0.2)
    result = run(*prepare)
    header, first, *_ = result.stderr.splitlines()
    assert header == f"elmokit: preparing {corpus}: 1 input, tokenizer regex, sentences auto"
    assert first == "elmokit: checking the text"
    assert "reading the text" in result.stderr
    pretrain = ("pretrain", corpus, "-o", out, "--preset", "tiny", "--device", "cpu")
    pretrain += ("--set", "train.max_steps=2", "--set", "train.epochs=null")
    result = run(*pretrain)
    (header,) = [line for line in result.stderr.splitlines() if "tokens of training text" in line]
    for mention in (f"{out}: ", "parameters", "on cpu", "2 steps"):
        assert mention in header
    assert "evaluating all held-out text" in result.stderr
    result = run("evaluate", out, text)
    assert "parameters" in result.stderr.splitlines()[0]
    assert result.stderr.splitlines()[1].startswith("elmokit: evaluating ")


def test_train_says_what_it_does(run: Any, model: Path, tmp_path: Path) -> None:
    data, _ = write_data(tmp_path)
    arguments = ("train", "ner", "--train", data, "--dev", data, "--model", model)
    arguments += ("-o", tmp_path / "run", "--device", "cpu")
    arguments += ("--set", "train.epochs=1", "--set", "lstm_dim=4", "--set", "lstm_layers=1")
    result = run(*arguments)
    assert "computing the layers of the frozen biLM" in result.stderr
    assert "training ner, seed" in result.stderr and "for development" in result.stderr
    assert "evaluating on the development data" in result.stderr
    assert result.stdout.count("\n") == 1
    assert run(*arguments, "--force", "-q").stderr == ""


def test_a_probe_says_what_it_measures(run: Any, model: Path) -> None:
    result = run("probe", "homographs", model, "--data", HOMOGRAPHS)
    header, work, *_ = result.stderr.splitlines()
    assert "parameters" in header and work == "elmokit: measuring homographs"
    assert run("probe", "homographs", model, "--data", HOMOGRAPHS, "-q").stderr == ""
