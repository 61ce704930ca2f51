"""A published model in a folder: from the cache, from another program's cache, or downloaded."""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from ...errors import ConfigError, FileError, FormatError, quoted
from ...files.folders import check_output_folder, is_incomplete, whole_folder
from ...files.read import check_readable, is_there, list_folder, read_json
from ...files.write import whole_file, write_errors, write_json
from ..archive import is_archive, unpack_model
from .entries import (
    SOURCE,
    ModelEntry,
    ModelFile,
    cache_folder,
    check_recorded_hash,
    close_names,
    copies,
    find_file,
    find_model,
    is_complete,
    is_offline,
    lock,
    model_folder,
    module_copies,
)
from .fetch import discard, fetch, hash_file, wrong_contents

log = logging.getLogger(__name__)

_RECORDED = ("name", "publisher", "licence", "tokens", "tokenizer", "note")
"""What `source.json` says of a model."""


def download_model(
    name: str,
    folder: str | Path | None = None,
    *,
    unverified: bool = False,
    force: bool = False,
) -> Path:
    """The folder of a published model, downloaded unless it is there already.

    Args:
        name: A name from `list_models()`.
        folder: Where to put it; by default the cache, from where `Elmo.from_pretrained(name)`
            loads it.
        unverified: Try a model even if nobody has checked its address.
        force: Replace a model that was downloaded to `folder` before.
    """
    entry = find_model(name)
    if entry is None:
        close = close_names(name)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ConfigError(f"{quoted(name)} is not a published model{hint} (see: elmokit models)")
    if entry.status == "bundled":
        raise ConfigError(f"{entry.name} is a bundled model: there is nothing to download")
    if folder is None:
        return install(entry, unverified=unverified)
    begun = is_incomplete(Path(folder))
    is_ours = begun or is_there(Path(folder) / SOURCE)
    target = check_output_folder(
        folder, "downloaded model", is_ours=is_ours, can_resume=False, force=force or begun
    )
    cached = model_folder(entry)
    if not is_complete(cached):
        _check_status(entry, unverified)
    with lock(entry.name, target):
        if is_complete(cached):
            _copy_model(cached, target)
        else:
            _assemble(entry, target)
    return target


def install(entry: ModelEntry, *, unverified: bool = False) -> Path:
    """The folder of a model in the cache, complete."""
    folder = model_folder(entry)
    if is_complete(folder):
        return folder
    if entry.status == "manual" and folder.is_dir() and (files := list_folder(folder)):
        with lock(entry.name, folder), whole_file(folder / SOURCE) as temporary:
            _write_source(entry, [f for f in files if f.is_file() and f.name != SOURCE], temporary)
        return folder  # put there by hand
    _check_status(entry, unverified)
    with lock(entry.name, folder):
        if not is_complete(folder):
            _assemble(entry, folder)
    return folder


def fetch_address(url: str) -> Path:
    """The file at an address, through the cache; of a published model with all that is known of it.

    `s3://` and `hf://` addresses are those that AllenNLP accepts.
    """
    url = _web_address(url)
    found = find_file(url)
    name = PurePosixPath(urlsplit(url).path).name or "file"
    file, what = ModelFile(name=name, urls=(url,)), url
    urls: Sequence[str] = file.urls
    if found is not None:
        entry, file = found
        what = f"{entry.name}/{file.name}"
        if is_complete(folder := model_folder(entry)) and (folder / file.name).is_file():
            return folder / file.name
        # The address that the script names, then the others.
        urls = _addresses(entry, file, (url, *(other for other in file.urls if other != url)))
    key = hashlib.sha256(url.encode()).hexdigest()[:16]
    path = cache_folder() / "files" / key / file.name
    if is_there(path):
        check_readable(path)
        return path
    with lock(key, path):
        if not is_there(path):
            _move(_obtain(file, urls, path, what).path, path)
    return path


def local_copy(source: str | Path) -> Path:
    """A path as it is; the file at an address through the cache."""
    return fetch_address(str(source)) if is_address(source) else Path(source).expanduser()


def is_address(source: object) -> bool:
    """Whether a source is an address rather than a path."""
    return re.match(r"(?:https?|s3|hf)://", str(source)) is not None


def _web_address(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if scheme == "s3":
        bucket, _, key = rest.partition("/")
        return f"https://{bucket}.s3.amazonaws.com/{key}"
    if scheme == "hf":
        owner, name, file = (*rest.split("/", 2), "", "")[:3]
        if not file:
            raise ConfigError(f"{quoted(url)}: expected hf://OWNER/NAME/FILE")
        return f"https://huggingface.co/{owner}/{name}/resolve/main/{file}"
    return url


def _check_status(entry: ModelEntry, unverified: bool) -> None:
    """Refuse a model that cannot be had or that nobody has checked."""
    if entry.status == "listed" or (entry.status == "unverified" and unverified):
        return
    what = f"{entry.name}: {entry.reason}"
    address = entry.files[0].urls[0]
    if entry.status == "unverified":
        raise FileError(
            f"{what}; to try it anyway: elmokit download {entry.name} --unverified (from {address})"
        )
    if entry.status == "manual":
        raise FileError(
            f"{what}. Fetch {address} in a browser and put the files into {model_folder(entry)}"
        )
    raise FileError(what)


def _assemble(entry: ModelEntry, folder: Path) -> None:
    """Fill `folder` with the files of a model; it holds all of them afterwards, or is unchanged."""
    with whole_folder(folder, drop=_downloaded(folder)) as temporary:
        downloads: dict[str, dict[str, object]] = {}
        if module := next(module_copies(entry), None):
            log.info("%s: found in TensorFlow Hub's cache, %s", entry.name, module)
            shutil.copytree(module / "variables", temporary / "variables")
        else:
            downloads = {file.name: _add(entry, file, temporary) for file in entry.files}
        unpacked = sorted(path for path in temporary.rglob("*") if path.is_file())
        _write_source(entry, unpacked, temporary / SOURCE, downloads)


def _write_source(
    entry: ModelEntry,
    files: Sequence[Path],
    path: Path,
    downloads: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> None:
    """Write what is known about a model beside its files."""
    sizes = {f.relative_to(path.parent).as_posix(): {"size": f.stat().st_size} for f in files}
    source = {name: getattr(entry, name) for name in _RECORDED}
    write_json(path, source | {"downloads": dict(downloads), "files": sizes})


def _copy_model(cached: Path, folder: Path) -> None:
    """A copy of a complete model of the cache."""
    with whole_folder(folder, drop=_downloaded(folder)) as temporary:
        for name in (*read_json(cached / SOURCE)["files"], SOURCE):
            (temporary / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(cached / name, temporary / name)


def _downloaded(folder: Path) -> set[str]:
    """What an earlier download has left in a folder."""
    if not is_there(folder / SOURCE):
        return set()
    try:
        files = read_json(folder / SOURCE).get("files")
    except FormatError:
        return set()
    listed = {name.split("/")[0] for name in files} if isinstance(files, dict) else set()
    # Only what is there: the names are those of a file, which may say anything.
    return listed & {path.name for path in list_folder(folder)}


def _addresses(entry: ModelEntry, file: ModelFile, urls: Sequence[str]) -> Sequence[str]:
    """Where to fetch a file of a model: from the mirror if there is one, or else from `urls`."""
    if mirror := os.environ.get("ELMOKIT_MIRROR"):
        return (f"{mirror.rstrip('/')}/{entry.name}/{file.name}",)
    return urls


def _add(entry: ModelEntry, file: ModelFile, temporary: Path) -> dict[str, object]:
    """Put a file of a model, or what its archive holds, into `temporary`."""
    what = f"{entry.name}/{file.name}"
    urls = _addresses(entry, file, file.urls)
    path, url, sha256 = _obtain(file, urls, model_folder(entry) / file.name, what)
    try:
        if is_archive(file.name):
            unpack_model(path, temporary, disk_variable="ELMOKIT_CACHE")
        elif _is_part(path) or temporary.is_relative_to(cache_folder()):
            _link(path, temporary / file.name)
        else:  # another program's file, in a folder where a user may edit it
            shutil.copyfile(path, temporary / file.name)
    except (FileError, FormatError) as e:
        name = what if _is_part(path) else str(path)
        raise type(e)(str(e).replace(str(path), name)) from e
    finally:
        if _is_part(path):
            discard(path)
    return {"sha256": sha256, "url": url}


class _Copy(NamedTuple):
    """A checked copy of a file, where it comes from, and its hash."""

    path: Path
    source: str
    sha256: str


def _obtain(file: ModelFile, urls: Sequence[str], by_hand: Path, what: str) -> _Copy:
    """A checked copy of a file, from this machine or else from the network."""
    for path in (by_hand, *copies(file)):
        if is_there(path) and path.is_file():
            problem = wrong_contents(path, file)
            if problem is None:
                sha256 = _checked_hash(path, file, what)
                log.info("%s: found as %s", what, path)
                return _Copy(path, str(path), sha256)
            if path == by_hand:
                raise FileError(f"{path}: {problem}; remove the file")
    advice = f"fetch {urls[0]} by hand and put it into {by_hand.parent}"
    name = file.name if what in urls else what
    if is_offline() and is_address(urls[0]):
        raise FileError(f"{name} is not in the cache, and ELMOKIT_OFFLINE is set; {advice}")
    try:
        part, url = fetch(file, urls, _parts(), what)
    except FileError as e:
        if str(cache_folder()) in str(e):  # no room, or no permission
            raise
        raise FileError(f"{name} could not be downloaded; {advice} ({e})") from e
    try:
        return _Copy(part, url, _checked_hash(part, file, what))
    except FileError:
        discard(part)
        raise


def _checked_hash(path: Path, file: ModelFile, what: str) -> str:
    """The SHA-256 of a file, compared with the recorded one where none is published."""
    sha256 = file.sha256 or hash_file(path, "sha256")["sha256"]
    if not (file.sha256 or file.sha1 or file.md5):
        check_recorded_hash(what, sha256)
    return sha256


def _parts() -> Path:
    """Where downloads under way are."""
    return cache_folder() / "parts"


def _is_part(path: Path) -> bool:
    return path.parent == _parts()


def _link(path: Path, target: Path) -> None:
    """`target` as another name of the same file, or as a copy on another disk."""
    with write_errors(target):
        try:
            os.link(path.resolve(), target)
        except OSError:
            shutil.copyfile(path, target)


def _move(path: Path, target: Path) -> None:
    with whole_file(target) as temporary:
        _link(path, temporary)
    if _is_part(path):
        discard(path)
