"""`elmokit reproduce` prints the table that it writes, and fails in one line."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from reproduce_data import SIZES, write_layout

SETTINGS = [part for setting in SIZES for part in ("--set", setting)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_layout(tmp_path_factory.mktemp("data"))


def test_figure2_and_the_command_in_it(run: Any, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--tasks", "ner", "--seeds", 1, "--epochs", 1, *SETTINGS)
    result = run("reproduce", "figure2", "--data", data, "--model", model, "-o", out, *options)
    assert result.stdout == (out / "figure2.md").read_text(encoding="utf-8")
    assert (out / "figure2.png").is_file() and (out / "figure2.json").is_file()
    assert "run 1 of 1: ner-both-mix-0.1\n" in result.stderr and "epoch 1" in result.stderr
    assert f"written to {out / 'figure2.md'}" in result.stderr
    # The command in the report is the one that made it.
    command = shlex.split(result.stdout.split("```")[1])
    assert command[0] == "elmokit"
    again = run(*command[1:], "--resume", "-q")
    assert again.stdout == result.stdout and again.stderr == ""
    refused = run(*command[1:], code=1)
    assert "--resume" in refused.stderr and "--force" in refused.stderr
    replaced = run(*command[1:], "--force")
    assert "epoch 1" in replaced.stderr
    (out / "notes.txt").write_text("mine")
    assert "holds other files" in run(*command[1:], "--force", code=1).stderr


def test_probe_has_no_runs(run: Any, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("reproduce", "table5", "--data", data, "--model", model, "-o", out, "-q")
    assert "| first sense | 0.0 | 0.0 | *65.9* |" in result.stdout and result.stderr == ""
    assert sorted(path.name for path in out.iterdir()) == ["table5.json", "table5.md"]


@pytest.mark.parametrize(
    ("name", "options", "mention"),
    [
        ("table9", (), "expected one of table1"),
        ("ner", ("--max-sentences", 3), "does not read max_sentences"),
        ("figure1", ("--fractions", "0.1,all"), "0.1,all"),
        ("table1", ("--tasks", "ner,parsing"), "'parsing'"),
        ("table2", ("--tasks", "snli"), "snli/train.jsonl"),
        ("ner", ("--set", "lstm=3"), "lstm_dim"),
    ],
)
def test_failure_is_one_line(
    run: Any, model: Path, data: Path, tmp_path: Path, name: str, options: Any, mention: str
) -> None:
    where = ("--data", data, "--model", model, "-o", tmp_path / "out")
    result = run("reproduce", name, *where, *options, "-q", code=1)
    assert mention in result.stderr and result.stderr.count("\n") == 1 and result.stdout == ""


def test_help_fits_a_terminal(run: Any) -> None:
    lines = run("reproduce", "--help").stdout.splitlines()
    assert any("--fractions" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
