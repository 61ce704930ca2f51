"""The code of the README runs and prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks() -> list[tuple[str, str]]:
    """The language and the text of each code block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def test_python_blocks_run_and_print_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {
        "texts": ["One text .", "And another ."],
        "lines": ["a b", "c"],
        "batch_of_token_lists": [["a", "b"], ["c"]],
        "task_loss": lambda features: features.sum(),
    }
    found = blocks()
    num_run = num_checked = 0
    for (language, code), (_, after) in zip(found, [*found[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        scope = dict(names) if "compat" in code else names
        with contextlib.redirect_stdout(printed):
            exec(compile(code, README.name, "exec"), scope)
        num_run += 1
        if printed.getvalue():
            assert printed.getvalue() == after
            num_checked += 1
    assert num_run >= 4 and num_checked >= 1


def test_commands_exist() -> None:
    from typer.testing import CliRunner

    from elmokit.cli import app

    commands = {
        c.split()[1] for _, text in blocks() for c in re.findall(r"^elmokit .*", text, re.M)
    }
    assert {"info", "convert", "embed", "similar"} <= commands
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
