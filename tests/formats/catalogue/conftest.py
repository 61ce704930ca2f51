"""A web server with bad habits, a catalogue that points to it, and an empty cache."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from strategies import make_tiny, tiny_config
from web_server import Server, running_server

from elmokit.formats.catalogue import entries, fetch
from elmokit.formats.save import write_checkpoint


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine, without pages."""
    with running_server() as server:
        yield server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no other program's caches, no pauses."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "ALLENNLP_CACHE_ROOT", "CACHED_PATH_CACHE_ROOT", "HF_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(home / "tfhub"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    for name in ("HF_HUB_CACHE", "ELMOKIT_OFFLINE", "ELMOKIT_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
    monkeypatch.setattr(fetch, "RECEIVED", 100)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as an official HDF5 pair."""
    folder = tmp_path_factory.mktemp("official") / "model"
    write_checkpoint(make_tiny(tiny_config()).to_checkpoint(), folder, "official")
    return folder


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Replaces the published models by rows of TOML."""
    head = """
[hosts]
[languages]
en = "English"
[tokens]
words = { tokenizer = "regex" }
lemmas = { tokenizer = "whitespace", note = "reads lemmas" }
[test]
language = "en"
publisher = "us"
format = "official HDF5 pair"
tokens = "words"
text = "none"
licence = "none"
"""

    def replace(rows: str) -> None:
        path = tmp_path / "models.toml"
        path.write_text(head + rows, encoding="utf-8")
        monkeypatch.setattr(entries, "_DATA", path)
        entries._catalogue.cache_clear()

    yield replace
    monkeypatch.undo()
    entries._catalogue.cache_clear()
