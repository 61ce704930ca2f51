"""Models in the box are found by their names."""

import logging
import sys
from pathlib import Path

import pytest
from strategies import assert_refused, make_tiny

from elmokit import Elmo
from elmokit.errors import MissingExtra
from elmokit.formats.catalogue import entries


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A box with one tiny model, and a working folder beside it."""
    make_tiny().save_pretrained(tmp_path / "box" / "xx")
    (tmp_path / "box" / "yy").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setattr(entries, "_BUILTIN", tmp_path / "box")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "box"


def test_a_name_is_a_model(box: Path) -> None:
    assert entries.builtin_names() == ["xx"]
    assert Elmo.from_pretrained("xx").embed("one text").shape[0] == 2


def test_the_box_comes_before_a_folder_of_the_same_name(
    box: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("xx").mkdir()
    with caplog.at_level(logging.WARNING):
        Elmo.from_pretrained("xx")
    assert "say ./xx" in caplog.text
    assert_refused(lambda: Elmo.from_pretrained("./xx"), "no ELMo model found")
    assert_refused(lambda: Elmo.from_pretrained(Path("xx")), "no ELMo model found")


def test_another_name_says_which_there_are(box: Path) -> None:
    assert_refused(lambda: Elmo.from_pretrained("zz"), "no such model", "expected 'xx',")
    assert_refused(lambda: Elmo.from_pretrained("../box/yy"), "no ELMo model found")


def test_korean_without_kiwi_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    with pytest.raises(MissingExtra, match=r"pip install 'elmokit\[ko\]'"):
        Elmo.from_pretrained("ko")
