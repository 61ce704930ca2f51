"""The list of published models, as `models.toml` holds it."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...errors import ConfigError, quoted

Status: TypeAlias = Literal["bundled", "listed", "unverified", "dead", "unloadable", "manual"]

_DATA = Path(__file__).with_name("models.toml")
_NOT_GROUPS = ("hosts", "tokens", "languages")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFile:
    """A file to download.

    Attributes:
        name: Its name in the model's folder, and on a mirror (`ELMOKIT_MIRROR`).
        urls: Addresses, tried in order.
        size: Bytes; some are predictions, so a different size is only a warning.
        sha256: Its hash, where one is known.
        sha1: Likewise.
        md5: Likewise.
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

    @property
    def is_archive(self) -> bool:
        """Whether the file holds the model's files."""
        return self.name.endswith((".zip", ".tar.gz", ".tgz", ".tar.bz2"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelEntry:
    """A published model.

    Attributes:
        name: What `Elmo.from_pretrained` calls it.
        language: Code of its language.
        language_name: The language in English.
        publisher: Who made it.
        format: Format of its files.
        text: What it was trained on.
        tokens: What it reads: words, lemmas, amino acids …
        licence: Licence of the weights, as far as it is stated.
        files: What is downloaded.
        dim: Length of a vector per layer, if known.
        size: Bytes to download, if known.
        status: `bundled`, `listed`, or why the model is refused.
        reason: The same in words.
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
    also: tuple[str, ...] = field(default=())
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
