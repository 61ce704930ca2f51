"""A file from one of several addresses: resumed where it broke off, and checked."""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tqdm.auto import tqdm

from ... import __version__
from ...errors import FileError
from ...files.read import check_readable
from ...files.write import write_errors
from .entries import ModelFile

if TYPE_CHECKING:
    import requests

log = logging.getLogger(__name__)

USER_AGENT = f"Mozilla/5.0 (compatible; elmokit/{__version__})"
"""Some servers answer 406 to anything that does not call itself Mozilla."""
TIMEOUT = (15.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes."""
TRIES, CONNECT_TRIES, PAUSE = 5, 2, 1.0
"""Tries of an address in a row without a new byte, or without any answer; seconds between them."""

RECEIVED = 1 << 16
"""Bytes that are taken from the network at a time."""

_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_BLOCK = 1 << 20
_MAX_MD5_BYTES = 4096
_HASHES = ("sha256", "sha1", "md5")
_BEGINNINGS = {
    ".hdf5": b"\x89HDF", ".zip": b"PK", ".tar.gz": b"\x1f\x8b", ".tgz": b"\x1f\x8b",
    ".tar.bz2": b"BZh",
}  # fmt: skip


class _Refused(Exception):
    """The address will not give the file."""


class _Interrupted(Exception):
    """The transfer broke off; another try may continue it."""


class _NoAnswer(_Interrupted):
    """There was no answer at all."""


def fetch(file: ModelFile, urls: Sequence[str], parts: Path, what: str) -> tuple[Path, str]:
    """Download a file from the first of the `urls`, or local paths, that gives it.

    `parts` is the folder for downloads under way; an interrupted one is continued from there.
    Returns the path of the complete file in it, and its address. `what` is its name in messages.
    """
    problems: dict[str, list[str]] = {}
    for url in urls:
        part = parts / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.part"
        try:
            etag = _get(url, part, what, is_checked=file.sha256 is not None)
            _check(part, file, etag, url, what)
        except _Refused as e:
            problems.setdefault(str(e), []).append(urlsplit(url).hostname or url)
            log.info("%s: %s", url, e)
            continue
        return part, url
    reasons = [f"{', '.join(dict.fromkeys(hosts))}: {why}" for why, hosts in problems.items()]
    raise FileError("; ".join(reasons) or f"{what}: no address is known")


def hash_file(path: Path, *kinds: str) -> dict[str, str]:
    """The hashes of a file, by their kinds; without kinds it is not read."""
    if not kinds:
        return {}
    hashes = [hashlib.new(kind) for kind in kinds]
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            for each in hashes:
                each.update(block)
    return {each.name: each.hexdigest() for each in hashes}


def wrong_contents(path: Path, file: ModelFile, md5: str | None = None) -> str | None:
    """Why a file is not the one meant, by its hashes and its first bytes; None if it may be.

    `md5` is a hash that the publisher's server has, beside those that the list has.
    """
    known = {kind: value for kind in _HASHES if (value := getattr(file, kind)) is not None}
    known |= {"md5": md5} if md5 else {}
    found = hash_file(path, *known)
    for kind, value in known.items():
        if found[kind] != value:
            return f"wrong contents: its {kind} is {found[kind][:16]}…, expected {value[:16]}…"
    with path.open("rb") as stream:
        head = stream.read(8)
    begin = next((b for end, b in _BEGINNINGS.items() if file.name.endswith(end)), b"")
    if not head.startswith(begin):
        return f"it does not begin as a {Path(file.name).suffix} file does ({head!r})"
    return None


def discard(part: Path) -> None:
    """Remove a download that is of no use any more."""
    part.unlink(missing_ok=True)
    _metadata_path(part).unlink(missing_ok=True)


def _metadata_path(part: Path) -> Path:
    """The file that says which version of the file the part belongs to."""
    return part.with_suffix(".json")


def _get(url: str, part: Path, what: str, *, is_checked: bool) -> str | None:
    """Make `part` the file at `url`; returns its ETag."""
    with write_errors(part):
        part.parent.mkdir(parents=True, exist_ok=True)
        if urlsplit(url).scheme not in ("http", "https"):
            source = Path(url.removeprefix("file://"))
            try:
                check_readable(source)
                shutil.copyfile(source, part)
            except FileError as e:
                raise _Refused(str(e)) from e
            return None
    tries, before = 0, -1
    while True:
        try:
            return _transfer(url, part, what, is_checked=is_checked)
        except _Interrupted as e:
            size = _size(part)
            tries = 0 if size > before >= 0 else tries + 1
            before = size
            if tries >= (CONNECT_TRIES if isinstance(e, _NoAnswer) else TRIES):
                raise _Refused(str(e)) from e
            pause = PAUSE * 2 ** max(tries - 1, 0)
            log.info("%s: %s; trying again in %.0f s", url, e, pause)
            time.sleep(pause)


def _transfer(url: str, part: Path, what: str, *, is_checked: bool) -> str | None:
    """One request: the whole file, or what is missing of it."""
    import requests

    size = _size(part)
    metadata = _read_metadata(part)
    validator = metadata.get("etag") or metadata.get("last_modified")
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}
    if size and (validator or is_checked):
        headers["Range"] = f"bytes={size}-"
        if validator:
            headers["If-Range"] = validator
    try:
        response = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except (requests.exceptions.ProxyError, requests.exceptions.SSLError) as e:
        raise _Refused(_summary(e)) from e
    except (requests.ConnectionError, requests.Timeout) as e:
        raise _NoAnswer(_summary(e)) from e
    except requests.RequestException as e:  # too many redirects, an address that is none …
        raise _Refused(_summary(e)) from e
    with response:
        if response.status_code == 416:
            if response.headers.get("Content-Range", "").endswith(f"/{size}"):
                return metadata.get("etag")  # complete; the process was killed before it could say
            discard(part)
            raise _Interrupted("the server cannot continue the download")
        _check_status(response)
        start = _start(response, size)
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        _check_space(part, what, total, start)
        etag = response.headers.get("ETag")
        if etag is not None and etag.startswith("W/"):
            etag = None  # a weak one does not identify bytes
        with write_errors(part):
            modified = response.headers.get("Last-Modified")
            text = json.dumps({"url": url, "etag": etag, "last_modified": modified})
            _metadata_path(part).write_text(text, encoding="utf-8")
            _write(response, part, what, start, total)
        return etag


def _check_status(response: "requests.Response") -> None:
    code = response.status_code
    if code in _TRANSIENT:
        raise _Interrupted(f"the server answered {code} {response.reason}")
    if code not in (200, 206):
        raise _Refused(f"the server answered {code} {response.reason}")
    if response.headers.get("Content-Type", "").startswith("text/html"):
        raise _Refused("the server sent a web page instead of the file")


def _start(response: "requests.Response", size: int) -> int:
    """Where the answer begins in the file; a server may ignore the wish for the rest."""
    if response.status_code == 200:
        return 0
    given = response.headers.get("Content-Range", "")
    if not given.startswith(f"bytes {size}-"):
        raise _Refused(f"the server sent another part of the file ({given[:40]!r})")
    return size


def _check_space(part: Path, what: str, total: int | None, start: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if total is not None and total - start > free:
        raise FileError(
            f"{what} needs {(total - start) / 1e6:,.0f} MB, and the disk of {part.parent} has "
            f"{free / 1e6:,.0f} MB left; free some space, or set ELMOKIT_CACHE to another disk"
        )


def _write(
    response: "requests.Response", part: Path, what: str, start: int, total: int | None
) -> None:
    bar: Any = tqdm(
        desc=what, total=total, initial=start, unit="B", unit_scale=True, leave=False,
        disable=None if log.isEnabledFor(logging.WARNING) else True,
    )  # fmt: skip
    size = start
    with bar, part.open("r+b" if start else "wb") as stream:
        stream.seek(start)
        for block in _blocks(response):
            stream.write(block)
            size += len(block)
            bar.update(len(block))
        stream.truncate()
    if total is not None and size != total:
        raise _Interrupted(f"the connection broke off at {size:,} of {total:,} bytes")


def _blocks(response: "requests.Response") -> Iterator[bytes]:
    """The body of an answer; what breaks off within a block is lost, so they are small."""
    import requests

    try:
        yield from response.iter_content(RECEIVED)
    except requests.RequestException as e:
        raise _Interrupted(_summary(e)) from e


def _check(part: Path, file: ModelFile, etag: str | None, url: str, what: str) -> None:
    """Refuse a file that is not the one the list means."""
    is_publishers = url in file.urls  # and not that of a mirror, which may be all we can reach
    md5 = _remote_md5(file.md5_url) if is_publishers and file.md5_url else None
    if problem := wrong_contents(part, file, md5):
        discard(part)
        raise _Refused(problem)
    if is_publishers and file.etag_sha256 and etag:
        if hashlib.sha256(etag.encode()).hexdigest() != file.etag_sha256:
            log.warning("%s: %s is another version than the one that is listed", what, url)
    elif file.size not in (None, _size(part)):
        log.warning("%s: %s bytes, expected about %s", what, f"{_size(part):,}", f"{file.size:,}")


def _remote_md5(url: str) -> str | None:
    """The MD5 in a small file on a server; None if it cannot be had."""
    import requests

    try:
        answer = requests.get(url, headers={"User-Agent": USER_AGENT}, stream=True, timeout=TIMEOUT)
        with answer:
            answer.raise_for_status()
            text = answer.raw.read(_MAX_MD5_BYTES, decode_content=True).decode("ascii", "replace")
    except requests.RequestException as e:
        log.info("%s: %s", url, _summary(e))
        return None
    words = text.lower().split()
    return next((w for w in words if len(w) == 32 and set(w) <= set("0123456789abcdef")), None)


def _read_metadata(part: Path) -> dict[str, str]:
    try:
        values = json.loads(_metadata_path(part).read_text(encoding="utf-8"))
        return {key: value for key, value in values.items() if isinstance(value, str)}
    except (OSError, ValueError, AttributeError):
        return {}  # nothing is lost: the download starts anew


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _summary(e: Exception) -> str:
    """What went wrong, without the nested objects that requests prints."""
    import requests

    if isinstance(e, requests.exceptions.ProxyError):
        return "the proxy cannot be reached"
    if isinstance(e, requests.exceptions.SSLError):
        return "the certificate of the server cannot be verified"
    if isinstance(e, requests.Timeout):
        return "no answer in time"
    if isinstance(e, (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        return "no connection, or it broke off"
    return f"{type(e).__name__}: {e!s:.80}"
