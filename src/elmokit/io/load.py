"""One entry to every format: look at what is there, and read it as what it is."""

import fnmatch
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from ..builtin import builtin_folder, builtin_names
from ..errors import MAX_VALUE, FileError, FormatError, shortened
from .arrays import ZIP_ERRORS
from .checkpoint import Checkpoint
from .files import MAX_JSON_BYTES, MAX_WORDS_BYTES, check_readable, list_folder, unreadable
from .hub import MODEL_FILES, download, looks_like_hub_id
from .manylangs import read_manylangs
from .native import read_native
from .official import SOFTMAX, TOKENS, WEIGHTS, hdf5_files, kind_of_hdf5, read_official
from .tf_checkpoint import find_prefix, read_tf_checkpoint
from .tf_hub import is_tf_hub, read_tf_hub

log = logging.getLogger(__name__)

MAX_UNZIPPED_BYTES, MAX_RATIO = 16 * 2**30, 100
"""Bytes of an unpacked .zip: in all, and for each of its own."""

EXPECTED = (
    "an elmokit folder (config.json + model.safetensors), an official pair (options.json + *.hdf5),"
    " a TensorFlow checkpoint (*.index + options.json), a TensorFlow Hub module"
    " (variables/variables.index), an ELMoForManyLangs folder (encoder.pkl +"
    " token_embedder.pkl), or a .zip of one of these"
)


def read_checkpoint(source: str | Path, revision: str | None = None) -> Checkpoint:
    """The model at `source`: the name of one in the box, a folder, a file, a .zip, or a Hub id."""
    path = model_path(source, revision)
    checkpoint = _read_folder(path) if path.is_dir() else _read_file(path)
    log.info("%s: %s", source, checkpoint.format)
    for note in checkpoint.notes:
        log.warning("%s: %s", source, note)
    return checkpoint


def model_path(source: str | Path, revision: str | None = None) -> Path:
    """Where the files of a model are; those of a Hub model are downloaded."""
    local = _local_path(source)
    boxed = builtin_folder(source) if isinstance(source, str) else None
    if boxed is not None:
        if local is not None:
            log.warning("%s is the model in the box; for the folder, say ./%s", source, source)
        return boxed
    if local is not None:
        return local
    if looks_like_hub_id(str(source)):
        return download(str(source), revision)
    names = "".join(f"{name!r}, " for name in builtin_names())
    name = shortened(str(source), MAX_VALUE)
    raise FileError(f"{name}: no such folder or file; expected {names}{EXPECTED}")


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
    if path.suffix == ".zip":
        return _read_zip(path)
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


def _read_zip(path: Path) -> Checkpoint:
    """The model in a .zip, unpacked to a temporary folder (no path of the archive is used)."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                _unpack(archive, _members(archive, path), Path(folder), path)
            checkpoint = _read_folder(Path(folder))
        except FileError as e:
            raise FileError(str(e).replace(str(folder), str(path))) from e
        except FormatError as e:
            raise FormatError(str(e).replace(str(folder), str(path))) from e
        except ZIP_ERRORS as e:
            reason = f"{type(e).__name__}: {e!s:.80}"
            raise FormatError(f"{path} is not a readable .zip ({reason}); download it again") from e
    checkpoint.format += " in a .zip"
    return checkpoint


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The files of the one model in an archive, by the names under which they are unpacked."""
    marks = ("options.json", "encoder.pkl", "model.safetensors")
    files = {PurePosixPath(i.filename): i for i in archive.infolist() if not i.is_dir()}
    models = {name.parent for name in files if name.name.endswith(marks) and name.name[0] != "."}
    models |= {n.parent.parent for n in files if n.parts[-2:] == ("variables", "variables.index")}
    if len(models) != 1:
        raise FormatError(f"{path}: expected one model in the archive, found {len(models)}")
    (model,) = models
    found: dict[str, zipfile.ZipInfo] = {}
    for name, info in files.items():
        is_ours = any(fnmatch.fnmatchcase(name.name, pattern) for pattern in MODEL_FILES)
        if is_ours and name.name[0] != "." and name.parent == model:
            found[name.name] = info
        elif is_ours and name.parent == model / "variables" and name.name.startswith("variables."):
            found[f"variables/{name.name}"] = info
    _check_sizes(found, path)
    return found


def _check_sizes(members: Mapping[str, zipfile.ZipInfo], path: Path) -> None:
    """Refuse what would fill the disk or the memory, by the sizes that the archive declares."""
    for name, info in members.items():
        limit = {".json": MAX_JSON_BYTES, ".txt": MAX_WORDS_BYTES, ".dic": MAX_WORDS_BYTES}.get(
            PurePosixPath(name).suffix, MAX_UNZIPPED_BYTES
        )
        if info.file_size > limit:
            raise FormatError(
                f"{path}: {shortened(name, MAX_VALUE)} has {info.file_size:,} bytes when unpacked; "
                f"expected at most {limit:,}"
            )
    total = sum(info.file_size for info in members.values())
    # Weights hardly compress: an archive that does holds something else.
    limit = min(MAX_UNZIPPED_BYTES, MAX_RATIO * path.stat().st_size)
    if total > limit:
        raise FormatError(
            f"{path}: {total:,} bytes when unpacked; expected at most {limit:,} of a model"
        )


def _unpack(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], folder: Path, path: Path
) -> None:
    total = sum(info.file_size for info in members.values())
    if total > shutil.disk_usage(folder).free:
        raise FileError(
            f"{path} cannot be unpacked: it needs {total / 1e6:,.1f} MB in {folder.parent}; free "
            "some space, or set TMPDIR to a folder on another disk"
        )
    for name, info in members.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        left = info.file_size
        with archive.open(info) as packed, target.open("wb") as unpacked:
            while block := packed.read(1 << 20):
                left -= len(block)
                if left < 0:
                    raise FormatError(f"{path}: {name} is larger than the archive says")
                try:
                    unpacked.write(block)
                except OSError as e:
                    reason = e.strerror or e
                    raise FileError(f"{path} cannot be unpacked: {reason} (TMPDIR)") from e
