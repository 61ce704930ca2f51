"""A saved model, a text, and a way to run the command line inside the test."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from strategies import make_tiny, tiny_config
from typer.testing import CliRunner, Result

from elmokit import Elmo
from elmokit.cli import app

Run: TypeAlias = Callable[..., Result]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    make_tiny(tiny_config()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def elmo(model: Path) -> Elmo:
    """The same model in memory."""
    return Elmo.from_pretrained(model, device="cpu")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text of two lines, alone in its folder."""
    path = tmp_path / "in.txt"
    path.write_text("He has a gift for music.\nThe gift was wrapped.\n", encoding="utf-8")
    return path


@pytest.fixture
def run() -> Run:
    """Runs `elmokit ARGUMENTS…`; the exit code is checked, 0 unless said otherwise."""

    def invoke(*arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return invoke
