"""One entry to every format: look at what is there, and read it as what it is."""

import fnmatch
import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..builtin import builtin_folder, builtin_names
from ..errors import MAX_VALUE, FileError, FormatError, shortened
from ..files.files import check_readable, is_there, json_field, list_folder, read_json, unreadable
from ..files.replace import check_whole
from .archive import ARCHIVES, is_archive, unpack_model
from .catalogue.caches import SOURCE, is_offline
from .catalogue.entries import close_names, find_model
from .catalogue.install import fetch_address, install, is_address
from .checkpoint import Checkpoint
from .hub import download, looks_like_hub_id
from .manylangs import read_manylangs
from .native import read_native
from .official import SOFTMAX, TOKENS, WEIGHTS, hdf5_files, kind_of_hdf5, read_official
from .tf_checkpoint import find_prefix, read_tf_checkpoint
from .tf_hub import is_tf_hub, read_tf_hub

log = logging.getLogger(__name__)

EXPECTED = (
    "an elmokit folder (config.json + model.safetensors), an official pair (options.json + *.hdf5),"
    " a TensorFlow checkpoint (*.index + options.json), a TensorFlow Hub module"
    " (variables/variables.index), an ELMoForManyLangs folder (encoder.pkl +"
    " token_embedder.pkl), or an archive of one of these"
)


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
    boxed = builtin_folder(source) if isinstance(source, str) else None
    entry = find_model(source) if isinstance(source, str) else None
    if local is not None and (boxed or entry):
        kind = "bundled" if boxed else "published"
        log.warning("%s is the %s model; for the folder, say ./%s", source, kind, source)
    if boxed is not None:
        return boxed
    if entry is not None:
        return install(entry)
    if local is not None:
        return local
    if isinstance(source, str) and is_address(source):
        return fetch_address(source)
    if looks_like_hub_id(str(source)):
        return download(str(source), revision, offline=is_offline())
    name = shortened(str(source), MAX_VALUE)
    if close := close_names(str(source)[:MAX_VALUE]):
        raise FileError(
            f"{name}: no such model, folder or file; did you mean {' or '.join(close)}? "
            "(elmokit models lists the published ones)"
        )
    names = "".join(f"{name!r}, " for name in builtin_names())
    raise FileError(
        f"{name}: no such model, folder or file; expected {names}the name of a published model "
        f"(elmokit models), {EXPECTED}"
    )


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

    def has(*patterns: str) -> bool:
        return all(fnmatch.filter(names, pattern) for pattern in patterns)

    if has("config.json", "model.safetensors"):
        return read_native(folder)
    if has("encoder.pkl") or has("token_embedder.pkl"):
        return read_manylangs(folder)
    if has("*.index"):
        return read_tf_checkpoint(find_prefix(folder))
    if is_tf_hub(folder):
        return read_tf_hub(folder)
    if has("*options.json") and (has("*.hdf5") or has("*.h5")):
        return _read_official_folder(folder)
    if has("config.json"):
        raise FileError(f"{folder}: there is a config.json, but no model.safetensors beside it")
    raise FileError(f"{folder}: no ELMo model found; expected {EXPECTED}")


def _read_official_folder(folder: Path, weights: Path | None = None) -> Checkpoint:
    kinds = {path: kind_of_hdf5(path) for path in hdf5_files(folder, ".hdf5")}
    if WEIGHTS not in kinds.values():  # `.h5` is the suffix of embeddings, but of some weights too
        kinds |= {path: kind_of_hdf5(path) for path in hdf5_files(folder, ".h5")}

    def only(what: str, found: list[Path]) -> Path:
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise FileError(
                f"{folder}: expected one {what}, found {names}; "
                "name both files: Elmo.from_files(options, weights)"
            )
        return found[0]

    def of_kind(kind: str) -> list[Path]:
        return [path for path in kinds if kinds[path] == kind]

    options = only("*options.json", sorted(folder.glob("*options.json")))
    weights = weights or only("HDF5 file of biLM weights", of_kind(WEIGHTS))
    vocabularies, softmax = sorted(folder.glob("*vocab*.txt")), of_kind(SOFTMAX)
    vocab = vocabularies[0] if len(vocabularies) == len(softmax) == 1 else None
    checkpoint = read_official(options, weights, vocab=vocab, softmax=softmax[0] if vocab else None)
    if of_kind(TOKENS):
        names = ", ".join(path.name for path in of_kind(TOKENS))
        checkpoint.notes.append(
            f"cached token embeddings ({names}) are there and not used; the character CNN gives "
            "the same vectors (or: Elmo.from_files(…, token_embeddings=, vocab=))"
        )
    return checkpoint


def _read_file(path: Path) -> Checkpoint:
    check_readable(path)
    if is_archive(path):
        return _read_archive(path)
    check_whole(path.parent)
    if path.suffix in (".hdf5", ".h5"):
        return _read_official_folder(path.parent, weights=path)
    if path.suffix == ".index":
        return read_tf_checkpoint(path.with_suffix(""))
    readers: dict[str, Callable[[Path], Checkpoint]] = {
        "model.safetensors": read_native, "config.json": _read_folder,
        "encoder.pkl": read_manylangs, "token_embedder.pkl": read_manylangs,
    }  # fmt: skip
    if path.name.endswith("options.json"):
        return _read_folder(path.parent)
    if path.name in readers:
        return readers[path.name](path.parent)
    raise FormatError(f"{path}: not a file of a model; expected {EXPECTED}")


def _read_archive(path: Path) -> Checkpoint:
    """The model in an archive, unpacked to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack_model(path, Path(folder))
            checkpoint = _read_folder(Path(folder))
        except FileError as e:
            raise FileError(str(e).replace(str(folder), str(path))) from e
        except FormatError as e:
            raise FormatError(str(e).replace(str(folder), str(path))) from e
    checkpoint.format += f" in a {next(end for end in ARCHIVES if path.name.endswith(end))}"
    return checkpoint
