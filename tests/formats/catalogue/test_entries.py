"""The list of published models is complete and consistent."""

import hashlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from elmokit import list_models
from elmokit.errors import ConfigError, FileError
from elmokit.formats.catalogue.entries import (
    builtin_names,
    close_names,
    find_file,
    find_model,
    module_copies,
)
from elmokit.formats.load import model_path
from elmokit.text.tokenize import load_tokenizer


def test_every_row_can_be_used() -> None:
    entries = list_models()
    names = [entry.name for entry in entries]
    assert len(entries) > 100 and len(set(names)) == len(names)
    assert [e.name for e in entries if e.status == "bundled"] == builtin_names()
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", entry.name), "must also be a folder's name"
        assert entry.tokenizer is None or load_tokenizer(entry.tokenizer)
        assert bool(entry.files) == (entry.status != "bundled")
        assert bool(entry.reason) == (entry.status not in ("bundled", "listed")), entry.name
        assert len({file.name for file in entry.files}) == len(entry.files)
        for file in entry.files:
            assert "/" not in file.name and "{" not in file.name
            for url in file.urls:
                assert urlsplit(url).scheme in ("http", "https") and "{" not in url, url
            for kind, length in (("sha256", 64), ("sha1", 40), ("md5", 32), ("etag_sha256", 64)):
                value = getattr(file, kind)
                assert value is None or re.fullmatch(rf"[0-9a-f]{{{length}}}", value)


def test_models_by_language() -> None:
    japanese = [entry.name for entry in list_models("ja")]
    assert japanese == [entry.name for entry in list_models(" Japanese ")]
    assert "manylangs-ja" in japanese and "manylangs-ko" not in japanese
    with pytest.raises(ConfigError, match="did you mean japanese"):
        list_models("japanse")
    with pytest.raises(ConfigError, match="no model for the language 'xx'"):
        list_models("xx")


def test_models_by_name_and_address() -> None:
    original = find_model("elmo-original")
    assert original is not None and original.dim == 1024
    assert find_model("https://tfhub.dev/google/elmo/3") == find_model("tfhub-elmo-3")
    assert find_model("elmo-orignal") is None
    assert "elmo-original" in close_names("elmo-orignal")
    assert close_names("ja") and all("ja" in name.split("-") for name in close_names("ja"))
    assert find_file(original.files[1].urls[2]) == (original, original.files[1])
    assert find_file("https://example.org/weights.hdf5") is None
    assert find_model("xl-de") == find_model("schuster-de")


def test_models_whose_tokenisation_nobody_states_have_no_tokenizer() -> None:
    for entry in list_models():
        assert (entry.tokenizer is None) == ("tokenizer unknown" in entry.tokens), entry.name
        assert not (entry.tokenizer is None and entry.note), "the first string is the time to warn"


def test_other_names_are_unique() -> None:
    names = [name for entry in list_models() for name in (entry.name, *entry.also)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("version", "folder"), [(1, "0eadd30f"), (2, "9bb74bc8"), (3, "58051eb9")])
def test_the_cache_of_tensorflow_hub_is_named_as_users_report(
    version: int, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    address = f"https://tfhub.dev/google/elmo/{version}"
    module = tmp_path / hashlib.sha1(address.encode()).hexdigest()
    assert module.name.startswith(folder)
    (module / "variables").mkdir(parents=True)
    (module / "variables" / "variables.index").touch()
    entry = find_model(address)
    assert entry is not None and list(module_copies(entry)) == [module]


def test_a_misspelt_name_gets_suggestions() -> None:
    with pytest.raises(FileError, match="did you mean elmo-small"):
        model_path("elmo-smal")
    with pytest.raises(FileError, match="expected 'en', 'ko', the name of a published model"):
        model_path("no such thing at all")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("transformer-elmo", "it is a Transformer"),
        ("manylangs-zhs", "has not answered since"),
        ("ko-ratsgo", "put the files into .*models/ko-ratsgo"),
        ("pl-dadas", "elmokit download pl-dadas --unverified"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(FileError, match=why):
        model_path(name)
