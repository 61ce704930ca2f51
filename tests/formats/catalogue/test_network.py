"""Tries every address of the catalogue: `pytest -m network tests/formats/catalogue`."""

import pytest
import requests

from elmokit import list_models
from elmokit.formats.catalogue.fetch import TIMEOUT, USER_AGENT

ADDRESSES = [
    pytest.param(entry.name, url, id=f"{entry.name} {url}")
    for entry in list_models()
    if entry.status in ("listed", "unverified")
    for file in entry.files
    for url in (*file.urls, *([file.md5_url] if file.md5_url else []))
]


@pytest.mark.network
@pytest.mark.parametrize(("name", "url"), ADDRESSES)
def test_address_answers(name: str, url: str) -> None:
    headers = {"User-Agent": USER_AGENT, "Range": "bytes=0-15"}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        assert answer.status_code in (200, 206), (name, answer.status_code)
        assert not answer.headers.get("Content-Type", "").startswith("text/html"), name


@pytest.mark.network
def test_the_test_model_downloads(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from elmokit import Elmo

    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path))
    assert Elmo.from_pretrained("elmo-tiny").dim == 32
