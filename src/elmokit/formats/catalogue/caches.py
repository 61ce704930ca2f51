"""Where downloaded files are: our own cache, and those of AllenNLP, TensorFlow Hub and the Hub.

CACHE/models/NAME/      a model, complete when its source.json is there
CACHE/files/KEY/FILE    a file that was asked for by its address
CACHE/parts/            downloads under way
CACHE/locks/            one lock per model
CACHE/hashes.json       hashes of files for which nobody has published one, from the first use
"""

import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ...errors import FileError, FormatError
from ...files.files import is_there, read_json, whole_file, write_errors, write_json
from ...files.lock import locked
from ...files.replace import is_incomplete
from .entries import ModelEntry, ModelFile, list_models

log = logging.getLogger(__name__)

SOURCE = "source.json"
"""The file of a downloaded model that says where it comes from."""


def cache_folder() -> Path:
    """`ELMOKIT_CACHE`, or the folder that the system has for such things."""
    if given := os.environ.get("ELMOKIT_CACHE"):
        return Path(given).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("elmokit", appauthor=False)


def is_offline() -> bool:
    """Whether `ELMOKIT_OFFLINE` forbids downloads."""
    return os.environ.get("ELMOKIT_OFFLINE", "").lower() not in ("", "0", "false", "no")


def model_folder(entry: ModelEntry) -> Path:
    """Where the cache keeps a model, whether it is there or not."""
    return cache_folder() / "models" / entry.name


@contextmanager
def lock(name: str, output: Path) -> Iterator[None]:
    """Keep other processes from writing `output` meanwhile; wait for one that does."""
    folder = cache_folder() / "locks"
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f"{name}.lock", output, wait=True):
        yield


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a downloaded model with all of its files."""
    if is_incomplete(folder) or not is_there(folder / SOURCE):
        return False
    try:
        files = read_json(folder / SOURCE)["files"]
        sizes = {folder / name: about["size"] for name, about in files.items()}
    except (FormatError, KeyError, TypeError, AttributeError):
        return False  # damaged; the model is put together again
    return all(path.is_file() and path.stat().st_size == size for path, size in sizes.items())


def check_recorded_hash(key: str, sha256: str, what: str) -> None:
    """Compare a file for which no hash is published with the one that was seen first."""
    path = cache_folder() / "hashes.json"
    with lock("hashes", path):
        known = read_json(path) if is_there(path) else {}
        if key not in known:
            with whole_file(path) as temporary:
                write_json(temporary, known | {key: sha256})
            log.warning(
                "%s: no hash of it is published; recorded this one, which later downloads have "
                "to match", what
            )  # fmt: skip
        elif known[key] != sha256:
            raise FileError(
                f"{what}: its sha256 is {sha256}, but it was {known[key]} when first downloaded; "
                f"if the publisher has replaced the file, remove {key!r} from {path}"
            )


def copies(file: ModelFile) -> Iterator[Path]:
    """Files on this machine that may be the one meant, by the names that other programs use."""
    for entry in list_models():
        for other in entry.files:
            if other.urls[0] == file.urls[0] and is_complete(model_folder(entry)):
                yield model_folder(entry) / other.name
    for url in file.urls:
        yield from _allennlp_copies(url)
        yield from _hugging_face_copies(url)


def module_copies(entry: ModelEntry) -> Iterator[Path]:
    """Folders of TensorFlow Hub's cache that hold the module, by the SHA-1 of its address."""
    root = os.environ.get("TFHUB_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "tfhub_modules")
    for handle in (*entry.also, *(url for file in entry.files for url in file.urls)):
        folder = Path(root) / hashlib.sha1(handle.encode()).hexdigest()
        if (folder / "variables" / "variables.index").is_file():
            yield folder


def _allennlp_copies(url: str) -> Iterator[Path]:
    """Files in the caches of AllenNLP and cached_path: SHA-256 of the address, then of the ETag."""
    home = Path.home()
    roots = [
        Path(os.environ.get("ALLENNLP_CACHE_ROOT") or home / ".allennlp") / "cache",
        Path(os.environ.get("CACHED_PATH_CACHE_ROOT") or home / ".cache" / "cached_path"),
        home / ".allennlp" / "datasets",
    ]
    prefix = hashlib.sha256(url.encode()).hexdigest()
    for root in roots:
        # The .json beside it is written last, when the file is complete.
        for about in sorted(root.glob(f"{prefix}*.json")):
            if (file := about.with_suffix("")).is_file():
                yield file


def _hugging_face_copies(url: str) -> Iterator[Path]:
    match = re.fullmatch(r"https://huggingface\.co/([^/]+)/([^/]+)/resolve/[^/]+/(.+)", url)
    if match is None:
        return
    owner, name, file = match.groups()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    root = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    for copy in sorted((root / f"models--{owner}--{name}" / "snapshots").glob(f"*/{file}")):
        if copy.is_file():
            yield copy


def describe_source(
    entry: ModelEntry,
    files: Mapping[str, Mapping[str, object]],
    downloads: Mapping[str, Mapping[str, object]],
) -> str:
    """The text of `source.json`.

    Args:
        entry: The model.
        files: Its files by name, with their sizes.
        downloads: What was downloaded, by name, with addresses and hashes.
    """
    facts = {
        "name": entry.name, "publisher": entry.publisher, "licence": entry.licence,
        "tokens": entry.tokens, "tokenizer": entry.tokenizer, "note": entry.note,
        "downloads": dict(downloads), "files": files,
    }  # fmt: skip
    return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
