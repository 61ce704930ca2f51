"""The old scripts in `examples/` run, with a model and without one."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(script: str) -> str:
    """What the script prints in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / script],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def run_here(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: Path) -> None:
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    monkeypatch.syspath_prepend(EXAMPLES)
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")


def test_allennlp_script() -> None:
    printed = run("allennlp_script.py")
    assert "random weights" in printed
    assert "layer 0: 1.000" in printed
    found = re.search(r"(\d+) of (\d+) tokens right", printed)
    # Even random characters tell a year from a word.
    assert found is not None and int(found[1]) > int(found[2]) * 0.7


def test_simple_elmo_script() -> None:
    printed = run("simple_elmo_script.py")
    assert "random weights" in printed and "(8, 3, 8, 128)" in printed


def test_scripts_with_a_model(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(monkeypatch, "allennlp_script.py", *pair)
    run_here(monkeypatch, "simple_elmo_script.py", pair[0].parent)
    printed = capsys.readouterr().out
    assert "random weights" not in printed
    assert "tokens right" in printed and "3 layers of 32 values" in printed
