"""The bundled and published models, and where their files may be on this machine.

`models.toml` lists all of them. A bundled one is a folder of `elmokit/builtin`, in our own format.

CACHE/models/NAME/      a model, complete when its source.json is there
CACHE/files/KEY/FILE    a file that was asked for by its address
CACHE/parts/            downloads under way
CACHE/locks/            one lock per model
CACHE/hashes.json       hashes of files for which nobody has published one, from the first use
"""

import difflib
import hashlib
import logging
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...errors import ConfigError, FileError, FormatError, quoted
from ...files.folders import is_incomplete, locked
from ...files.read import is_there, read_json
from ...files.write import whole_file, write_errors, write_json

log = logging.getLogger(__name__)

SOURCE = "source.json"
"""The file of a downloaded model that says where it comes from."""

Status: TypeAlias = Literal["bundled", "listed", "unverified", "dead", "unloadable", "manual"]

_DATA = Path(__file__).with_name("models.toml")
_BUILTIN = Path(__file__).parents[2] / "builtin"
_NOT_GROUPS = ("hosts", "tokens", "languages")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFile:
    """A file to download.

    Attributes:
        name: Its name in the model's folder, and on a mirror (`ELMOKIT_MIRROR`).
        urls: Addresses, tried in order.
        size: Bytes; some are predictions, so a different size is only a warning.
        sha256, sha1, md5: Its hashes, where they are known.
        md5_url: Address of a file that holds the MD5.
        etag_sha256: SHA-256 of the ETag that S3 sends, quotes included.
    """

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    sha1: str | None = None
    md5: str | None = None
    md5_url: str | None = None
    etag_sha256: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelEntry:
    """A published model.

    Attributes:
        name: What `Elmo.from_pretrained` calls it.
        language: Code of its language, which `language_name` says in English.
        text: What it was trained on.
        tokens: What it reads: words, lemmas, amino acids …
        licence: Licence of the weights, as far as it is stated.
        perplexity: On held-out text, as its publisher states it.
        dim: Length of a vector per layer.
        size: Bytes to download.
        status: `bundled`, `listed`, or why the model is refused; `reason` says it in words.
        tokenizer: Our tokenizer for its texts; None if nobody knows how they were tokenised.
        note: What a user has to do to a text first.
        also: Other names and addresses.
        page: Where a browser finds the model, too.
    """

    name: str
    language: str
    language_name: str
    publisher: str
    format: str
    text: str
    tokens: str
    licence: str
    files: tuple[ModelFile, ...]
    dim: int | None = None
    size: int | None = None
    status: Status = "listed"
    reason: str = ""
    tokenizer: str | None = None
    note: str = ""
    perplexity: str = ""
    also: tuple[str, ...] = ()
    page: str = ""


def list_models(language: str | None = None) -> list[ModelEntry]:
    """The published models, in the order of the list; `language` is a code or an English name.

    >>> [entry.name for entry in list_models("ja")]
    ['elmo-ja-exawizards', 'manylangs-ja', 'ja-stockmark']
    """
    entries = list(_catalogue().values())
    if language is None:
        return entries
    wanted = language.strip().lower()
    found = [e for e in entries if wanted in (e.language, e.language_name.lower())]
    known = {e.language for e in entries} | {e.language_name.lower() for e in entries}
    if not found and wanted not in known:
        close = difflib.get_close_matches(wanted, known, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ConfigError(f"no model for the language {quoted(language)}{hint}")
    return found


def find_model(source: str) -> ModelEntry | None:
    """The model with this name or address; None if there is none."""
    entries = _catalogue()
    if source in entries:
        return entries[source]
    return next((entry for entry in entries.values() if source in entry.also), None)


def find_file(url: str) -> tuple[ModelEntry, ModelFile] | None:
    """The file of a published model that has this address."""
    for entry in _catalogue().values():
        for file in entry.files:
            if url in file.urls:
                return entry, file
    return None


def builtin_names() -> list[str]:
    """The names of the bundled models."""
    return sorted(path.parent.name for path in _BUILTIN.glob("*/model.safetensors"))


def builtin_folder(name: str) -> Path | None:
    """The folder of the bundled model of that name; None if there is no such model."""
    return _BUILTIN / name if name in builtin_names() else None


def close_names(name: str) -> list[str]:
    """Names of models that resemble a misspelt one."""
    close = difflib.get_close_matches(name.lower(), _catalogue(), n=3, cutoff=0.6)
    parts = [other for other in _catalogue() if name.lower() in other.split("-")]
    return list(dict.fromkeys([*close, *parts]))[:3]


@cache
def _catalogue() -> dict[str, ModelEntry]:
    data = tomllib.loads(_DATA.read_text(encoding="utf-8"))
    entries = {}
    for name, group in data.items():
        if name not in _NOT_GROUPS:
            shared = {key: value for key, value in group.items() if key != "models"}
            for row in group["models"]:
                entry = _entry(shared | row, data)
                entries[entry.name] = entry
    return entries


def _entry(row: Mapping[str, Any], data: Mapping[str, Any]) -> ModelEntry:
    fields = data["hosts"] | {k: v for k, v in row.items() if isinstance(v, str)}

    def filled(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\{(\w+)\}", lambda match: fields[match[1]], value)
        return tuple(map(filled, value)) if isinstance(value, list) else value

    files = tuple(
        ModelFile(**{key: filled(value) for key, value in file.items()}) for file in row["files"]
    )
    known = {key: row[key] for key in row.keys() & set(ModelEntry.__slots__)}
    return ModelEntry(**known | {
        "files": files,
        "also": tuple(row.get("also", ())),
        "language_name": data["languages"][row["language"]],
        **data["tokens"][row["tokens"]],
    })  # fmt: skip


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


def check_recorded_hash(name: str, sha256: str) -> None:
    """Compare a file for which no hash is published with the one that was seen first."""
    path = cache_folder() / "hashes.json"
    with lock("hashes", path):
        known = read_json(path) if is_there(path) else {}
        if name not in known:
            with whole_file(path) as temporary:
                write_json(temporary, known | {name: sha256})
            log.warning(
                "%s: no hash of it is published; recorded this one, which later downloads have "
                "to match", name
            )  # fmt: skip
        elif known[name] != sha256:
            raise FileError(
                f"{name}: its sha256 is {sha256}, but it was {known[name]} when first downloaded; "
                f"if the publisher has replaced the file, remove {name!r} from {path}"
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
