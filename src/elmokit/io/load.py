"""One entry to every format: look at what is there, and read it as what it is."""

import logging
import lzma
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ..builtin import builtin_folder, builtin_names
from ..errors import FileError, FormatError
from .checkpoint import Checkpoint
from .hub import download, looks_like_hub_id
from .manylangs import read_manylangs
from .native import read_native
from .official import SOFTMAX, TOKENS, WEIGHTS, kind_of_hdf5, read_official
from .tf_checkpoint import find_prefix, read_tf_checkpoint
from .tf_hub import is_tf_hub, read_tf_hub

log = logging.getLogger(__name__)

MAX_UNZIPPED_BYTES = 16 * 2**30

_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError,
    struct.error,
)  # fmt: skip
"""What zipfile and its decompressors raise for damaged archives."""

EXPECTED = (
    "an elmokit folder (config.json + model.safetensors), an official pair (options.json + *.hdf5),"
    " a TensorFlow checkpoint (*.index + options.json), a TensorFlow Hub module"
    " (variables/variables.index), an ELMoForManyLangs folder (encoder.pkl +"
    " token_embedder.pkl), or a .zip of one of these"
)


def read_checkpoint(source: str | Path, revision: str | None = None) -> Checkpoint:
    """The model at `source`: the name of one in the box, a folder, a file, a .zip, or a Hub id."""
    path = model_path(source, revision)
    checkpoint = _read_file(path) if path.is_file() else _read_folder(path)
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
    raise FileError(f"{source!s:.200}: no such folder or file; expected {names}{EXPECTED}")


def _local_path(source: str | Path) -> Path | None:
    try:
        path = Path(source).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, or of no user's home
        return None


def _read_folder(folder: Path) -> Checkpoint:
    def has(*patterns: str) -> bool:
        return all(any(folder.glob(pattern)) for pattern in patterns)

    if has("config.json", "model.safetensors"):
        return read_native(folder)
    if has("encoder.pkl") or has("token_embedder.pkl"):
        return read_manylangs(folder)
    if has("*.index"):
        return read_tf_checkpoint(find_prefix(folder))
    if is_tf_hub(folder):
        return read_tf_hub(folder)
    if has("*options.json", "*.hdf5"):
        return _read_official_folder(folder)
    if has("config.json"):
        raise FileError(f"{folder}: there is a config.json, but no model.safetensors beside it")
    raise FileError(f"{folder}: no ELMo model found; expected {EXPECTED}")


def _read_official_folder(folder: Path, weights: Path | None = None) -> Checkpoint:
    kinds = {path: kind_of_hdf5(path) for path in sorted(folder.glob("*.hdf5"))}

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
    """The model in a .zip, unpacked flat to a temporary folder (no path of the archive is used)."""
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            members = [info for info in archive.infolist() if not info.is_dir()]
            members = [i for i in members if not PurePosixPath(i.filename).name.startswith(".")]
            if sum(info.file_size for info in members) > MAX_UNZIPPED_BYTES:
                raise FormatError(f"{path}: more than {MAX_UNZIPPED_BYTES >> 30} GiB when unpacked")
            _unpack_model(archive, members, Path(folder), path)
            checkpoint = _read_folder(Path(folder))
    except FileError as e:
        raise FileError(str(e).replace(str(folder), str(path))) from e
    except FormatError as e:
        raise FormatError(str(e).replace(str(folder), str(path))) from e
    except _ZIP_ERRORS as e:
        reason = f"{type(e).__name__}: {e!s:.200}"
        raise FormatError(f"{path} is not a readable .zip ({reason}); download it again") from e
    checkpoint.format += " in a .zip"
    return checkpoint


def _unpack_model(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], folder: Path, path: Path
) -> None:
    parents = {PurePosixPath(info.filename).parent for info in members}
    marks = ("options.json", "encoder.pkl", "model.safetensors")
    models = {p for p in parents if any(
        PurePosixPath(i.filename).parent == p and i.filename.endswith(marks) for i in members
    )}  # fmt: skip
    if len(models) != 1:
        raise FormatError(f"{path}: expected one model in the archive, found {len(models)}")
    for info in members:
        name = PurePosixPath(info.filename)
        if name.parent in models:
            with archive.open(info) as packed, (folder / name.name).open("wb") as unpacked:
                while block := packed.read(1 << 20):
                    unpacked.write(block)
