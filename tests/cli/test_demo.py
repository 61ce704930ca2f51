"""`elmokit demo`: what it prints and draws, and which files it leaves alone."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import pytest

from elmokit import Elmo
from elmokit.cli import demo
from elmokit.errors import MissingExtra


def width(line: str) -> int:
    """The columns of a line on a terminal."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.slow
def test_the_demo_shows_both_languages_and_can_run_again(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kiwipiepy")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    printed = run("demo").stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "   He has a [gift] for music\n" in printed and "   [배]가 고프다\n" in printed
    # Nearest to a play in a theatre is a line of `play.txt` about another one.
    assert "She wrote a play about two brothers and a farm." in printed
    assert "기수는 말을 타고 들판을 달렸다." in printed
    assert "released, " in printed and "the clearest first: demo.png\n" in printed
    assert max(map(width, printed.splitlines())) <= 80
    assert run("demo").stdout == printed
    assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]


@pytest.mark.slow
def test_without_kiwi_and_matplotlib_the_demo_is_english_and_names_the_extras(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Elmo.from_pretrained

    def without_kiwi(source: str, **options: Any) -> Elmo:
        if source == "ko":
            raise MissingExtra("ko", "kiwipiepy")
        return load(source, **options)

    monkeypatch.setattr(Elmo, "from_pretrained", without_kiwi)
    monkeypatch.setattr(
        demo, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name)
    )
    monkeypatch.chdir(tmp_path)
    printed = run("demo").stdout
    assert "elmokit[ko]" in printed and "elmokit[plot]" in printed
    assert "[gift]" in printed and "배" not in printed
    assert not list(tmp_path.iterdir())


@pytest.fixture
def unloadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model is a failure: what is refused is refused before that."""

    def fail(*arguments: object, **options: object) -> Elmo:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Elmo, "from_pretrained", fail)


@pytest.mark.usefixtures("unloadable")
@pytest.mark.parametrize(
    ("name", "mention"),
    [("demo.png", "--force"), ("folder.png", "folder"), ("demo.pdf", ".png")],
)
def test_the_demo_replaces_nothing_but_its_own_picture(
    run: Any, tmp_path: Path, name: str, mention: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "demo.png").write_bytes(b"\x89PNG of somebody else")
    result = run("demo", "-o", tmp_path / name, code=1)
    assert mention in result.stderr and result.stderr.count("\n") == 1
    assert (tmp_path / "demo.png").read_bytes() == b"\x89PNG of somebody else"


def test_the_example_sentences_are_in_the_package() -> None:
    names = {path.name for path in demo.EXAMPLES.iterdir()}
    assert names == {"en_homographs.tsv", "ko_homographs.tsv", "play.txt", "tutorials.tsv"}
