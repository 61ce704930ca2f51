"""`elmokit models`, `download` and `info NAME`."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from strategies import make_tiny

from elmokit import list_models
from elmokit.formats.catalogue import download_model, find_model
from elmokit.formats.save import write_checkpoint


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    for name in ("HOME", "ALLENNLP_CACHE_ROOT", "CACHED_PATH_CACHE_ROOT", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def test_all_models_are_listed(run: Any) -> None:
    lines = run("models").stdout.splitlines()
    assert lines[0].split() == [
        "name", "language", "dim", "size", "state", "tokens", "text", "licence",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:]] == [entry.name for entry in list_models()]
    original = next(line for line in lines if line.startswith("elmo-original "))
    assert "English" in original and "1024" in original and "374 MB" in original
    assert "bundled" in lines[1]


def test_models_of_a_language(run: Any) -> None:
    lines = run("models", "--language", "ja").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        "elmo-ja-exawizards", "manylangs-ja", "ja-stockmark",
    ]  # fmt: skip
    assert "manual" in lines[-1]
    assert "did you mean" in run("models", "--language", "japanesse", code=1).stderr


def test_models_as_json(run: Any) -> None:
    facts = json.loads(run("models", "--json").stdout)
    assert facts[0]["name"] == "en" and facts[0]["is_cached"] is False
    small = next(entry for entry in facts if entry["name"] == "elmo-small")
    assert small["files"][0]["sha256"] and "md5" not in small["files"][0]


def test_info_of_a_published_model_downloads_nothing(run: Any) -> None:
    table = run("info", "seqvec").stdout
    assert "not downloaded" in table and "amino acids" in table and "MIT" in table
    assert "seqvec.zip" in table
    lines = run("info", "elmo-original").stdout.splitlines()
    for file in find_model("elmo-original").files:
        assert {f"  {url}" for url in file.urls} <= set(lines), "an address is one line, to copy"
        assert f"  sha256 {file.sha256}" in lines
    assert "unverified: community model" in run("info", "pl-dadas").stdout
    assert json.loads(run("info", "seqvec", "--json").stdout)["language"] == "protein"


def test_a_downloaded_model_is_listed_as_such_and_keeps_its_licence(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(make_tiny().to_checkpoint(), tmp_path / "tiny", "official")
    (tmp_path / "mirror" / "seqvec").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "mirror" / "seqvec" / "seqvec.zip", "w") as archive:
        for path in (tmp_path / "tiny").iterdir():
            archive.write(path, path.name)
    monkeypatch.setenv("ELMOKIT_MIRROR", str(tmp_path / "mirror"))
    download_model("seqvec")
    lines = run("models").stdout.splitlines()
    assert [line.split()[0] for line in lines if "  cached  " in line] == ["seqvec"]
    table = run("info", "seqvec").stdout
    assert "official HDF5 pair" in table and "UniRef50" in table and "MIT" in table
    assert json.loads(run("info", "seqvec", "--json").stdout)["published"]["licence"] == "MIT"


def test_download_says_what_is_wrong(run: Any, tmp_path: Path) -> None:
    assert "ELMOKIT_OFFLINE is set" in run("download", "elmo-small", code=1).stderr
    assert "did you mean elmo-small" in run("download", "elmo-smal", code=1).stderr
    assert "it is a Transformer" in run("download", "transformer-elmo", code=1).stderr
    assert "bundled model" in run("download", "en", code=1).stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    refused = run("download", "elmo-small", "-o", tmp_path / "full", code=1)
    assert "holds other files" in refused.stderr
    assert not list((tmp_path / "cache").rglob("*.partial"))
