"""The list of formats, and one entry to all of them: find a model's files, and read what they are.

A new format is one file with a `Format`, and one line in `FORMATS`.
"""

import fnmatch
import logging
import re
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ..errors import MAX_VALUE, ConfigError, FileError, FormatError, MissingExtra, quoted, shortened
from ..files.folders import check_whole
from ..files.read import check_readable, is_there, json_field, list_folder, read_json, unreadable
from .archive import ARCHIVES, is_archive, unpack_model
from .catalogue.entries import (
    SOURCE,
    builtin_folder,
    builtin_names,
    close_names,
    find_model,
    is_offline,
)
from .catalogue.install import fetch_address, install, is_address
from .checkpoint import Checkpoint, Format
from .elmokit_folder import ELMOKIT
from .manylangs import MANYLANGS
from .official import OFFICIAL
from .tensorflow import TF_CHECKPOINT, TF_HUB

log = logging.getLogger(__name__)

FORMATS: tuple[Format, ...] = (ELMOKIT, MANYLANGS, TF_CHECKPOINT, TF_HUB, OFFICIAL)
"""Every checkpoint format, in the order in which a folder is tried."""
UNKNOWN = ("config.json", "*.safetensors")
"""Files that tell of a model of a format that elmokit does not know."""


def read_checkpoint(source: str | Path, revision: str | None = None) -> Checkpoint:
    """The model at `source`: a name, a folder, a file, an archive, an address, or a Hub id."""
    path = model_path(source, revision)
    checkpoint = _read_folder(path) if path.is_dir() else _read_file(path)
    if path.is_dir() and is_there(path / SOURCE):
        _apply_source(checkpoint, path / SOURCE)
    log.info("%s: %s", source, checkpoint.format)
    for note in checkpoint.notes:
        log.warning("%s", note if note.startswith(f"{source} ") else f"{source}: {note}")
    return checkpoint


def model_path(source: str | Path, revision: str | None = None) -> Path:
    """Where the files of a model are; published models and Hub models are downloaded."""
    local = _local_path(source)
    bundled = builtin_folder(source) if isinstance(source, str) else None
    entry = find_model(source) if isinstance(source, str) else None
    if local is not None and (bundled or entry):
        kind = "bundled" if bundled else "published"
        log.warning("%s is the %s model; for the folder, say ./%s", source, kind, source)
    if bundled is not None:
        return bundled
    if entry is not None:
        return install(entry)
    if local is not None:
        return local
    if isinstance(source, str) and is_address(source):
        return fetch_address(source)
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", str(source)):
        return _download(str(source), revision)
    name = shortened(str(source), MAX_VALUE)
    if close := close_names(str(source)[:MAX_VALUE]):
        raise FileError(
            f"{name}: no such model, folder or file; did you mean {' or '.join(close)}? "
            "(elmokit models lists the published ones)"
        )
    names = "".join(f"{name!r}, " for name in builtin_names())
    raise FileError(
        f"{name}: no such model, folder or file; expected {names}the name of a published model "
        f"(elmokit models), {_expected()}"
    )


def writable() -> list[Format]:
    """The formats that can be written."""
    return [format for format in FORMATS if format.write is not None]


def find_format(name: str) -> Format:
    """The format to write that has this name."""
    for format in writable():
        if name in (format.name, *format.aliases):
            return format
    names = ", ".join(format.name for format in writable())
    raise ConfigError(f"format={quoted(name)}: expected one of {names}")


def model_files() -> list[str]:
    """Patterns for the names of the files that a model of any format may need."""
    return list(dict.fromkeys(pattern for format in FORMATS for pattern in format.files))


def format_in(folder: Path) -> Format | Literal["unknown"] | None:
    """The format of the model in a folder, or of what remains of one; None if there is none."""
    if not is_there(folder):
        return None
    if not folder.is_dir():
        raise FileError(f"{folder}: a file is in the way of the folder to be written")
    names = [path.name for path in list_folder(folder)]

    def has_any(patterns: Collection[str]) -> bool:
        return any(fnmatch.filter(names, pattern) for pattern in patterns)

    if "config.json" in names and "format_version" in read_json(folder / "config.json"):
        return ELMOKIT
    marked = next((format for format in FORMATS if has_any(format.marks)), None)
    return marked or ("unknown" if has_any(UNKNOWN) else None)


def upload(folder: Path, repo_id: str, *, private: bool = False) -> str:
    """Put the files of `folder` into a Hub model, made if need be; returns its address."""
    hub = _import_hub(f"{repo_id}: an upload needs")
    api = hub.HfApi()
    try:
        url = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder)
    except Exception as e:
        reason = str(e).strip().split("\n")[0]
        raise FileError(f"{repo_id}: upload failed ({type(e).__name__}: {reason})") from e
    return str(url)


def _expected() -> str:
    """What can be loaded, in words for people."""
    formats = (
        f"{'an' if format.label[0].lower() in 'aeiou' else 'a'} {format.label} ({format.layout})"
        for format in FORMATS
    )
    return f"{', '.join(formats)}, or an archive of one of these"


def _apply_source(checkpoint: Checkpoint, path: Path) -> None:
    """What `elmokit download` knew about a model and its files do not say."""
    source = read_json(path)
    tokenizer = json_field(source, "tokenizer", str, type(None), where=str(path), default=None)
    note = json_field(source, "note", str, where=str(path), default="")
    checkpoint.config = replace(checkpoint.config, tokenizer=tokenizer)
    if note:
        name = json_field(source, "name", str, where=str(path))
        checkpoint.notes.append(f"{name} {note}")


def _local_path(source: str | Path) -> Path | None:
    try:
        path = Path(source).expanduser()
        path.stat()
    except PermissionError as e:
        raise unreadable(path, e) from e
    except (OSError, RuntimeError, ValueError):  # not there, too long, or of no user's home
        return None
    return path


def _read_folder(folder: Path) -> Checkpoint:
    check_whole(folder)
    names = [path.name for path in list_folder(folder)]
    for format in FORMATS:
        if format.is_in(folder, names):
            return format.read(folder)
    if "config.json" in names:
        raise FileError(f"{folder}: there is a config.json, but no model.safetensors beside it")
    raise FileError(f"{folder}: no ELMo model found; expected {_expected()}")


def _read_file(path: Path) -> Checkpoint:
    """The model that a file is part of."""
    check_readable(path)
    if is_archive(path.name):
        return _read_archive(path)
    check_whole(path.parent)
    for format in FORMATS:
        if format.is_named_by(path):
            return format.read(path)
    if any(fnmatch.fnmatchcase(path.name, format.settings or "") for format in FORMATS):
        return _read_folder(path.parent)
    raise FormatError(f"{path}: not a file of a model; expected {_expected()}")


def _read_archive(path: Path) -> Checkpoint:
    """The model in an archive, unpacked to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack_model(path, Path(folder))
            checkpoint = _read_folder(Path(folder))
        except (FileError, FormatError) as e:
            raise type(e)(str(e).replace(folder, str(path))) from e
    checkpoint.format += f" in a {next(end for end in ARCHIVES if path.name.endswith(end))}"
    return checkpoint


def _download(repo_id: str, revision: str | None) -> Path:
    """The local folder of a Hub model, downloaded unless it is in the cache."""
    hub = _import_hub(f"{repo_id}: no such folder or file; as the name of a Hub model it needs")
    offline = is_offline()
    try:
        return Path(
            hub.snapshot_download(
                repo_id,
                revision=revision,
                allow_patterns=model_files(),
                local_files_only=offline,
            )
        )
    except Exception as e:  # network, authorisation, name: the hub has an error for each
        if offline:
            raise FileError(
                f"{repo_id}: no such folder or file; as the name of a Hub model it is not in the "
                "cache of Hugging Face, and ELMOKIT_OFFLINE is set"
            ) from e
        reason = str(e).strip().split("\n")[0]
        raise FileError(
            f"{repo_id}: no such folder or file, and no model of that name could be fetched "
            f"from the Hub ({type(e).__name__}: {reason})"
        ) from e


def _import_hub(needs: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as e:
        raise MissingExtra("hub", f"{needs} huggingface_hub, which") from e
    return huggingface_hub
