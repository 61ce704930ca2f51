"""The list of published models is complete and consistent."""

import re
from urllib.parse import urlsplit

import pytest

from elmokit import list_models
from elmokit.builtin import builtin_names
from elmokit.errors import ConfigError, FileError
from elmokit.io.catalogue.entries import close_names, find_file, find_model
from elmokit.io.load import model_path
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
