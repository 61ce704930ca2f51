"""Downloads survive bad servers, are checked, and leave nothing partial behind."""

import hashlib
import io
import json
import logging
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from strategies import make_tiny
from tqdm import tqdm
from urllib3.util import connection
from web_server import Page, Server

from elmokit import Elmo, download_model
from elmokit.compat.allennlp import Elmo as AllenNlpElmo
from elmokit.errors import ConfigError, FileError, FormatError
from elmokit.files.folders import INCOMPLETE
from elmokit.formats.catalogue import entries, fetch
from elmokit.formats.catalogue import entries as caches
from elmokit.formats.catalogue.install import fetch_address
from elmokit.formats.save import write_checkpoint

Catalogue = Callable[[str], None]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def pair(server: Server, catalogue: Catalogue, official: Path) -> Path:
    """The published model `tiny`: two files with known hashes, each with a mirror."""
    rows = []
    for path in sorted(official.iterdir()):
        data = path.read_bytes()
        server.pages[f"/a/{path.name}"] = Page(data)
        server.pages[f"/b/{path.name}"] = Page(data)
        rows.append(
            f'{{ name = "{path.name}", sha256 = "{sha256(data)}", '
            f'urls = ["{server.url}/a/{path.name}", "{server.url}/b/{path.name}"] }}'
        )
    catalogue(f'[[test.models]]\nname = "tiny"\nfiles = [{", ".join(rows)}]')
    return official


@pytest.fixture
def unhashed(server: Server, catalogue: Catalogue, official: Path) -> Path:
    """The same model, without hashes, as a .zip."""
    data = zipped(official, server)
    server.pages["/tiny.zip"] = Page(data)
    catalogue(
        f'[[test.models]]\nname = "tiny"\ntokens = "lemmas"\n'
        f'files = [{{ name = "tiny.zip", urls = ["{server.url}/tiny.zip"], size = 5 }}]'
    )
    return official


def zipped(folder: Path, server: Server) -> bytes:
    path = folder.parent / f"{server.url.rpartition(':')[2]}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"inside/{file.name}")
    return path.read_bytes()


def same_vectors(one: Elmo, other: Elmo) -> None:
    sentence = [["A", "gift"]]
    np.testing.assert_array_equal(one.embed(sentence)[0], other.embed(sentence)[0])


def leftovers(cache: Path) -> list[str]:
    """Files of a download under way, and temporary folders."""
    return [p.name for p in cache.rglob("*") if p.suffix in (".part", ".partial")]


def test_a_name_downloads_once(pair: Path, server: Server, cache: Path) -> None:
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(pair))
    assert len(server.requests) == 2
    Elmo.from_pretrained("tiny")
    assert len(server.requests) == 2
    about = json.loads((cache / "models" / "tiny" / "source.json").read_text())
    assert about["licence"] == "none" and set(about["files"]) == {p.name for p in pair.iterdir()}
    assert not leftovers(cache)


def test_a_broken_download_continues(pair: Path, server: Server, cache: Path) -> None:
    size = (pair / "weights.hdf5").stat().st_size
    server.pages["/a/weights.hdf5"].drops = [5000, 20_000]
    download_model("tiny")
    ranges = [r for path, r in server.requests if path == "/a/weights.hdf5"]
    assert ranges == [None, "bytes=5000-", "bytes=25000-"]
    assert (cache / "models" / "tiny" / "weights.hdf5").stat().st_size == size


def test_a_killed_download_continues_in_the_next_process(
    pair: Path, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (pair / "weights.hdf5").stat().st_size
    for host in "ab":
        server.pages[f"/{host}/weights.hdf5"].drops = [1000] + [0] * 9
    with pytest.raises(FileError, match="could not be downloaded"):
        download_model("tiny")
    assert not caches.is_complete(cache / "models" / "tiny")
    server.requests.clear()
    for host in "ab":
        server.pages[f"/{host}/weights.hdf5"].drops = []
    download_model("tiny")
    assert server.requests[-1] == ("/a/weights.hdf5", "bytes=1000-")
    assert (cache / "models" / "tiny" / "weights.hdf5").stat().st_size == size


def test_a_complete_part_is_not_downloaded_again(pair: Path, server: Server, cache: Path) -> None:
    url = f"{server.url}/a/weights.hdf5"
    part = cache / "parts" / f"{sha256(url.encode())[:32]}.part"
    part.parent.mkdir(parents=True)
    shutil.copyfile(pair / "weights.hdf5", part)
    download_model("tiny")
    size = part.stat().st_size if part.exists() else (pair / "weights.hdf5").stat().st_size
    assert [r for path, r in server.requests if "weights" in path] == [f"bytes={size}-"]


def test_a_server_without_ranges_starts_over(pair: Path, server: Server) -> None:
    page = server.pages["/a/weights.hdf5"]
    page.ranges, page.drops = False, [1000]
    download_model("tiny")
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(pair))


def test_a_file_that_changes_meanwhile_starts_over(
    unhashed: Path, server: Server, cache: Path
) -> None:
    page = server.pages["/tiny.zip"]
    good, page.data, page.drops = page.data, b"PK" + bytes(9999), [1000] + [0] * 9
    with pytest.raises(FileError, match="broke off"):
        download_model("tiny")
    page.data, page.etag, page.drops = good, '"v2"', []
    download_model("tiny")
    assert server.requests[-1] == ("/tiny.zip", "bytes=1000-")  # refused by If-Range


@pytest.mark.parametrize("status", [403, 404, 406, 410, 500, 503])
def test_mirrors_are_tried_in_order(pair: Path, server: Server, status: int) -> None:
    server.pages["/a/weights.hdf5"].status = status
    download_model("tiny")
    assert server.requests[-1][0] == "/b/weights.hdf5"


def test_redirects_are_followed(pair: Path, server: Server) -> None:
    server.pages["/a/weights.hdf5"] = Page(redirect=f"{server.url}/b/weights.hdf5")
    download_model("tiny")
    server.pages["/a/options.json"] = Page(redirect="/a/options.json")  # for ever
    shutil.rmtree(caches.model_folder(caches.list_models()[0]))
    download_model("tiny")
    assert "/b/options.json" in [path for path, _ in server.requests]


def test_a_stalled_server_is_left(
    pair: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, stall = server.pages["/a/weights.hdf5"], threading.Event()
    page.stall = stall
    connect, get, connections = connection.create_connection, requests.get, []

    def recorded(*arguments: Any, **options: Any) -> Any:
        connections.append(connect(*arguments, **options))
        return connections[-1]

    def hurried(url: str, *, timeout: tuple[float, float], **options: Any) -> requests.Response:
        """Let the time-out pass at once, but only where the server has stalled."""
        assert timeout == fetch.TIMEOUT and max(timeout) <= 60
        was_due = url.endswith("/a/weights.hdf5") and page.stall is stall
        response = get(url, timeout=timeout, **options)
        if was_due:
            connections[-1].settimeout(0.01)
        return response

    monkeypatch.setattr(connection, "create_connection", recorded)
    monkeypatch.setattr(requests, "get", hurried)
    download_model("tiny")
    stall.set()
    assert [path for path, _ in server.requests].count("/a/weights.hdf5") == 2


def test_the_user_agent_is_one_that_servers_accept(pair: Path, server: Server) -> None:
    server.pages["/a/weights.hdf5"].needs = "Mozilla/5.0"
    download_model("tiny")
    assert "/b/weights.hdf5" not in [path for path, _ in server.requests]


def test_wrong_bytes_are_refused(pair: Path, server: Server, cache: Path) -> None:
    for host in "ab":
        page = server.pages[f"/{host}/weights.hdf5"]
        page.data = page.data[:-1] + b"?"
    with pytest.raises(FileError, match="wrong contents: its sha256 is"):
        download_model("tiny")
    assert not (cache / "models" / "tiny").exists() and not leftovers(cache)


def test_a_web_page_is_not_a_model(unhashed: Path, server: Server, cache: Path) -> None:
    server.pages["/tiny.zip"] = Page(b"<html>Are you human?", kind="text/html; charset=utf-8")
    with pytest.raises(FileError, match="a web page instead of the file"):
        download_model("tiny")
    server.pages["/tiny.zip"] = Page(b"Virus scan warning")
    with pytest.raises(FileError, match=r"does not begin as a \.zip file"):
        download_model("tiny")
    assert not leftovers(cache)


def test_the_error_says_what_to_do_by_hand(pair: Path, server: Server, cache: Path) -> None:
    for page in server.pages.values():
        page.status = 404
    with pytest.raises(FileError) as caught:
        download_model("tiny")
    message = str(caught.value)
    assert f"{server.url}/a/options.json" in message and f"{cache}/models/tiny" in message
    assert "404" in message and len(message) <= 500
    folder = cache / "models" / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    for path in pair.iterdir():
        shutil.copyfile(path, folder / path.name)
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(pair))


@pytest.mark.parametrize("problem", ["no answer in time", f"wrong contents: {'0' * 64}"])
def test_the_error_of_every_published_model_names_address_and_folder(
    problem: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise fetch._Refused(problem)

    monkeypatch.setattr(fetch, "_get", refuse)
    monkeypatch.setenv("ELMOKIT_CACHE", "elmokit-cache")
    monkeypatch.chdir(cache.parent)
    for entry in caches.list_models():
        if entry.status == "listed":
            with pytest.raises(FileError) as caught:
                download_model(entry.name)
            message = str(caught.value)
            assert f"fetch {entry.files[0].urls[0]} by hand" in message
            assert f"put it into {Path('elmokit-cache', 'models', entry.name)}" in message
            assert problem in message and len(message) < 500


def test_a_model_in_the_cache_that_is_half_written_is_written_again(
    pair: Path, cache: Path
) -> None:
    folder = download_model("tiny")
    (folder / INCOMPLETE).touch()
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(pair))
    assert not (folder / INCOMPLETE).exists()


def test_a_wrong_file_put_there_by_hand_is_refused(pair: Path, server: Server, cache: Path) -> None:
    folder = cache / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "options.json").write_text("{}")
    with pytest.raises(FileError, match=r"options\.json: wrong contents.*remove the file"):
        download_model("tiny")
    assert (folder / "options.json").read_text() == "{}"


def test_an_archive_is_unpacked_and_its_hash_is_recorded(
    unhashed: Path, server: Server, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(unhashed))
    assert "no hash of it is published" in caplog.text
    assert "expected about 5" in caplog.text, "a wrong size only warns"
    assert "tiny reads lemmas" in caplog.text and "tiny: tiny" not in caplog.text
    assert Elmo.from_pretrained("tiny").config.tokenizer == "whitespace"
    caplog.clear()
    shutil.rmtree(cache / "models" / "tiny")
    download_model("tiny")
    assert "no hash" not in caplog.text
    shutil.rmtree(cache / "models" / "tiny")
    page = server.pages["/tiny.zip"]
    page.data += b"\0"
    with pytest.raises(FileError, match=r"when first downloaded.*hashes\.json"):
        download_model("tiny")
    assert not (cache / "models" / "tiny").exists()


def test_damaged_records_of_hashes_are_not_overwritten(unhashed: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "hashes.json").write_text("{")
    with pytest.raises(FormatError, match=r"hashes\.json is not JSON"):
        download_model("tiny")
    assert (cache / "hashes.json").read_text() == "{"


def test_a_model_fetched_in_a_browser_says_what_it_reads(
    catalogue: Catalogue, official: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue(
        '[[test.models]]\nname = "tiny"\ntokens = "lemmas"\nstatus = "manual"\n'
        'reason = "it needs a browser"\n'
        'files = [{ name = "elmo.zip", urls = ["https://example.org/elmo.zip"] }]'
    )
    with pytest.raises(FileError, match="it needs a browser"):
        download_model("tiny")
    folder = cache / "models" / "tiny"
    folder.mkdir(parents=True)
    for path in official.iterdir():
        shutil.copyfile(path, folder / path.name)
    for _ in range(2):
        caplog.clear()
        elmo = Elmo.from_pretrained("tiny")
        assert "tiny reads lemmas" in caplog.text and elmo.config.tokenizer == "whitespace"
    assert caches.is_complete(folder)


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "tgz"])
def test_tar_archives(
    kind: str, server: Server, catalogue: Catalogue, official: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"tiny.{kind}"
    with tarfile.open(path, "w:bz2" if kind == "tar.bz2" else "w:gz") as archive:
        archive.add(official, "slovenian")
        evil = tarfile.TarInfo("../../evil.json")
        archive.addfile(evil)
        link = tarfile.TarInfo("slovenian/more.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    server.pages["/tiny"] = Page(path.read_bytes())
    catalogue(
        f'[[test.models]]\nname = "tiny"\n'
        f'files = [{{ name = "tiny.{kind}", urls = ["{server.url}/tiny"] }}]'
    )
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(path))
    files = {p.name for p in caches.model_folder(caches.list_models()[0]).iterdir()}
    assert files == {"options.json", "weights.hdf5", "source.json"}


def test_an_archive_that_would_fill_the_disk_is_refused(
    unhashed: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(fetch, "_check_space", lambda *_: None)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(FileError, match=r"tiny/tiny\.zip cannot be unpacked.*ELMOKIT_CACHE"):
        download_model("tiny")
    assert not leftovers(cache) and not (cache / "models" / "tiny").exists()


def test_md5_beside_the_file(
    server: Server, catalogue: Catalogue, official: Path, cache: Path
) -> None:
    data = zipped(official, server)
    server.pages["/t.zip"] = Page(data)
    catalogue(
        f'[[test.models]]\nname = "tiny"\nfiles = [{{ name = "t.zip", '
        f'urls = ["{server.url}/t.zip"], md5_url = "{server.url}/t.zip.md5" }}]'
    )
    server.pages["/t.zip.md5"] = Page(b"0" * 32 + b"  t.zip\n", kind="text/plain")
    with pytest.raises(FileError, match="wrong contents: its md5 is"):
        download_model("tiny")
    server.pages["/t.zip.md5"].data = hashlib.md5(data).hexdigest().encode()
    download_model("tiny")


def test_a_mirror_answers_for_the_publisher(
    server: Server, catalogue: Catalogue, official: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """No request for the publisher's MD5, and no comparison with the publisher's ETag."""
    server.pages["/elmo/tiny/t.zip"] = Page(zipped(official, server))
    catalogue(
        f'[[test.models]]\nname = "tiny"\nfiles = [{{ name = "t.zip", etag_sha256 = "{"0" * 64}", '
        f'urls = ["{server.url}/t.zip"], md5_url = "{server.url}/t.zip.md5" }}]'
    )
    monkeypatch.setenv("ELMOKIT_MIRROR", f"{server.url}/elmo")
    download_model("tiny")
    assert [path for path, _ in server.requests] == ["/elmo/tiny/t.zip"]
    assert "another version" not in caplog.text


@pytest.mark.parametrize("is_listed", [True, False])
def test_the_etag_of_the_publisher_is_compared(
    is_listed: bool, unhashed: Path, server: Server, catalogue: Catalogue,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    etag = sha256(b'"v1"' if is_listed else b'"v0"')
    catalogue(
        f'[[test.models]]\nname = "tiny"\nfiles = [{{ name = "tiny.zip", '
        f'etag_sha256 = "{etag}", urls = ["{server.url}/tiny.zip"] }}]'
    )
    download_model("tiny")
    assert ("is another version than the one that is listed" in caplog.text) is not is_listed


def test_offline(pair: Path, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    with pytest.raises(FileError, match="ELMOKIT_OFFLINE is set") as caught:
        Elmo.from_pretrained("tiny")
    assert f"fetch {server.url}/a/options.json by hand" in str(caught.value)
    assert f"put it into {cache}/models/tiny" in str(caught.value)
    assert not server.requests
    monkeypatch.setenv("ELMOKIT_OFFLINE", "0")
    Elmo.from_pretrained("tiny")
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    Elmo.from_pretrained("tiny")


def test_a_mirror_of_a_classroom(
    pair: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in pair.iterdir():
        server.pages[f"/elmo/tiny/{path.name}"] = Page(path.read_bytes())
    monkeypatch.setenv("ELMOKIT_MIRROR", f"{server.url}/elmo/")
    download_model("tiny")
    assert {path for path, _ in server.requests} == {
        "/elmo/tiny/options.json", "/elmo/tiny/weights.hdf5",
    }  # fmt: skip
    # A folder that `download -o` wrote is a mirror, too.
    download_model("tiny", tmp_path / "share" / "tiny")
    monkeypatch.setenv("ELMOKIT_MIRROR", str(tmp_path / "share"))
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "other"))
    server.requests.clear()
    Elmo.from_pretrained("tiny")
    assert not server.requests


def test_a_mirror_serves_the_addresses_of_old_scripts(
    pair: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in pair.iterdir():
        server.pages[f"/elmo/tiny/{path.name}"] = Page(path.read_bytes())
    monkeypatch.setenv("ELMOKIT_MIRROR", f"{server.url}/elmo")
    AllenNlpElmo(f"{server.url}/a/options.json", f"{server.url}/b/weights.hdf5", 1)
    assert {path for path, _ in server.requests} == {
        "/elmo/tiny/options.json", "/elmo/tiny/weights.hdf5",
    }  # fmt: skip


def test_a_folder_as_mirror_serves_offline(
    pair: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(pair, tmp_path / "share" / "tiny")
    monkeypatch.setenv("ELMOKIT_MIRROR", f"file://{tmp_path / 'share'}")
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(pair))
    assert not server.requests


def test_proxies_are_used(
    pair: Path, server: Server, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = "http://models.invalid"
    files = []
    for path in pair.iterdir():
        server.pages[f"{host}/{path.name}"] = Page(path.read_bytes())
        files.append(f'{{ name = "{path.name}", urls = ["{host}/{path.name}"] }}')
    catalogue(f'[[test.models]]\nname = "tiny"\nfiles = [{", ".join(files)}]')
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    download_model("tiny")
    assert {path for path, _ in server.requests} == {
        f"{host}/options.json", f"{host}/weights.hdf5",
    }  # fmt: skip


def test_a_bar_shows_the_bytes_and_continues_where_the_download_does(
    pair: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []

    class Bar(tqdm):  # type: ignore[type-arg]
        def __init__(self, **kwargs: Any) -> None:
            self.given = kwargs
            super().__init__(**kwargs | {"disable": False, "file": io.StringIO()})
            bars.append(self)

    monkeypatch.setattr(fetch, "tqdm", Bar)
    size = (pair / "weights.hdf5").stat().st_size
    server.pages["/a/weights.hdf5"].drops = [5000]
    download_model("tiny")
    first, second = (bar for bar in bars if bar.desc.startswith("tiny/weights.hdf5"))
    assert (first.initial, first.n, first.total) == (0, 5000, size)
    assert (second.initial, second.n, second.total) == (5000, size, size)
    assert first.given["disable"] is None, "a bar is for terminals"
    shutil.rmtree(caches.model_folder(caches.list_models()[0]))
    monkeypatch.setattr(fetch.log, "disabled", True)
    download_model("tiny")
    assert bars[-1].given["disable"] is True, "--quiet says nothing but errors"


@pytest.mark.parametrize("damage", ["{", "{}", '{"files": {"options.json": 3}}'])
def test_a_damaged_model_in_the_cache_is_repaired(damage: str, pair: Path) -> None:
    folder = download_model("tiny")
    (folder / "source.json").write_text(damage)
    assert not caches.is_complete(folder)
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(pair))
    assert caches.is_complete(folder)


def test_a_folder_of_ones_own(pair: Path, server: Server, tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "mine"
    assert download_model("tiny", folder) == folder
    assert not (cache / "models").exists()
    same_vectors(Elmo.from_pretrained(folder), Elmo.from_pretrained(pair))
    with pytest.raises(FileError, match="already holds a downloaded model"):
        download_model("tiny", folder)
    download_model("tiny", folder, force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("x")
    with pytest.raises(FileError, match="holds other files"):
        download_model("tiny", tmp_path / "other", force=True)
    with pytest.raises(ConfigError, match="not a published model"):
        download_model("en")


def test_a_folder_of_ones_own_is_filled_from_the_cache(
    unhashed: Path, server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = download_model("tiny")
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    folder = download_model("tiny", tmp_path / "mine")
    assert len(server.requests) == 1
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {
        p.name: p.read_bytes() for p in cached.iterdir()
    }
    # Whoever edits the copy does not edit the cache.
    assert not any(path.samefile(cached / path.name) for path in folder.iterdir())


def test_a_file_put_there_by_hand_serves_every_folder(
    unhashed: Path, server: Server, cache: Path, tmp_path: Path
) -> None:
    archive = server.pages["/tiny.zip"].data
    server.pages["/tiny.zip"].status = 404
    with pytest.raises(FileError) as caught:
        download_model("tiny", tmp_path / "mine")
    place = cache / "models" / "tiny"
    assert f"put it into {place}" in str(caught.value)
    place.mkdir(parents=True)
    (place / "tiny.zip").write_bytes(archive)
    folder = download_model("tiny", tmp_path / "mine")
    same_vectors(Elmo.from_pretrained(folder), Elmo.from_pretrained(unhashed))
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(unhashed))


@pytest.mark.parametrize("is_killed", [False, True])
def test_force_takes_nothing_of_another_model(
    server: Server, catalogue: Catalogue, official: Path, tmp_path: Path, is_killed: bool
) -> None:
    """Files of the same names, without a published hash, and files that the new model lacks."""
    write_checkpoint(make_tiny(seed=1).to_checkpoint(), tmp_path / "new", "official")
    rows = []
    for model, source in (("old", official), ("new", tmp_path / "new")):
        files = {path.name: path.read_bytes() for path in sorted(source.iterdir())}
        if model == "old":
            files["more-options.json"] = files["options.json"]
        for name, data in files.items():
            server.pages[f"/{model}/{name}"] = Page(data)
        listed = ", ".join(
            f'{{ name = "{name}", urls = ["{server.url}/{model}/{name}"] }}' for name in files
        )
        rows.append(f'[[test.models]]\nname = "{model}"\nfiles = [{listed}]\n')
    catalogue("".join(rows))
    folder = tmp_path / "mine"
    download_model("old", folder)
    if is_killed:
        (folder / INCOMPLETE).touch()
    download_model("new", folder, force=not is_killed)
    same_vectors(Elmo.from_pretrained(folder), make_tiny(seed=1))
    assert not (folder / "more-options.json").exists()


def test_a_local_folder_of_that_name_is_pointed_out(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    Elmo.from_pretrained("tiny")
    assert "for the folder, say ./tiny" in caplog.text


def test_a_full_disk_is_noticed_before(
    pair: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(FileError, match="set ELMOKIT_CACHE to another disk"):
        download_model("tiny")
    assert not leftovers(cache)


DOWNLOAD = """
import sys
from pathlib import Path
from elmokit.formats.catalogue import download_model, entries
entries._DATA = Path(sys.argv[1])
download_model("tiny")
"""


def test_two_processes_download_once(pair: Path, server: Server, cache: Path) -> None:
    stall = server.pages["/a/weights.hdf5"].stall = threading.Event()
    command = [sys.executable, "-c", DOWNLOAD, str(entries._DATA)]
    with subprocess.Popen(command) as first:
        while ("/a/weights.hdf5", None) not in server.requests:
            assert first.poll() is None
            time.sleep(0.01)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr is not None
            said = second.stderr.readline()
            stall.set()
    assert "waiting for another process" in said
    assert (first.returncode, second.returncode) == (0, 0)
    assert [path for path, _ in server.requests].count("/a/options.json") == 1


def test_files_in_other_caches_are_found(
    pair: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "home" / "cache"
    root.mkdir()
    for name in ("options.json", "weights.hdf5"):
        url = f"{server.url}/b/{name}"
        copy = root / f"{sha256(url.encode())}.{sha256(b'etag')}"
        shutil.copyfile(pair / name, copy)
        copy.with_name(f"{copy.name}.json").write_text("{}")
    same_vectors(Elmo.from_pretrained("tiny"), Elmo.from_pretrained(pair))
    assert not server.requests


def test_a_damaged_file_in_another_cache_is_not_used(
    pair: Path, server: Server, tmp_path: Path
) -> None:
    root = tmp_path / "home" / "cache"
    root.mkdir()
    url = f"{server.url}/a/weights.hdf5"
    copy = root / f"{sha256(url.encode())}.{sha256(b'etag')}"
    copy.write_bytes(b"half of it")
    copy.with_name(f"{copy.name}.json").write_text("{}")
    download_model("tiny")
    assert "/a/weights.hdf5" in [path for path, _ in server.requests]


def test_hugging_face_and_hub_caches(
    catalogue: Catalogue, official: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    snapshot = tmp_path / "home" / "hub" / "models--me--elmo" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    files = []
    for path in sorted(official.iterdir()):
        (snapshot / path.name).symlink_to(path)
        url = f"https://huggingface.co/me/elmo/resolve/main/{path.name}"
        files.append(f'{{ name = "{path.name}", urls = ["{url}"] }}')
    module = tmp_path / "home" / "tfhub" / hashlib.sha1(b"https://tfhub.dev/x/1").hexdigest()
    (module / "variables").mkdir(parents=True)
    (module / "variables" / "variables.index").write_bytes(b"x")
    catalogue(
        f'[[test.models]]\nname = "hf"\nfiles = [{", ".join(files)}]\n'
        '[[test.models]]\nname = "hub"\nalso = ["https://tfhub.dev/x/1"]\n'
        'files = [{ name = "1.tar.gz", urls = ["https://tfhub.dev/x/1?compressed"] }]'
    )
    same_vectors(Elmo.from_pretrained("hf"), Elmo.from_pretrained(official))
    assert (download_model("hub") / "variables" / "variables.index").read_bytes() == b"x"


def test_addresses_go_through_the_cache(pair: Path, server: Server, cache: Path) -> None:
    options, weights = (f"{server.url}/b/{name}" for name in ("options.json", "weights.hdf5"))
    elmo = Elmo.from_files(options, weights)
    same_vectors(elmo, Elmo.from_pretrained(pair))
    assert len(server.requests) == 2
    AllenNlpElmo(options, weights, 1)
    assert len(server.requests) == 2
    assert not leftovers(cache)


def test_an_address_of_an_archive_is_a_model(unhashed: Path, server: Server) -> None:
    same_vectors(Elmo.from_pretrained(f"{server.url}/tiny.zip"), Elmo.from_pretrained(unhashed))
    with pytest.raises(FileError, match="404"):
        Elmo.from_pretrained(f"{server.url}/nothing.zip")


def test_addresses_of_other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    with pytest.raises(FileError, match="ELMOKIT_OFFLINE"):
        fetch_address("s3://allennlp/models/elmo/options.json")
    with pytest.raises(ConfigError, match="expected hf://OWNER/NAME/FILE"):
        fetch_address("hf://lysandre/elmo")


def test_no_server_at_all(catalogue: Catalogue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    catalogue(
        '[[test.models]]\nname = "tiny"\n'
        'files = [{ name = "options.json", urls = ["http://127.0.0.1:9/options.json"] }]'
    )
    with pytest.raises(FileError, match="no connection"):
        download_model("tiny")
