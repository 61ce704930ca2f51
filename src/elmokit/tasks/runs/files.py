"""The folder of a task run.

RUN/
    task.json                 task, resolved settings, biLM, data, what the model knows of them
    words.txt, words.safetensors    rows of the word table, and their vectors where static
    units.model, …            subword units, for tasks that write text
    metrics.json              scores of each seed on the development data, mean and deviation
    weights.json, weights.png       learned layer weights
    seed-1/model.safetensors  best model of a seed
    seed-1/bilm/              its biLM, where that was trained, too
    seed-1/metrics.json       its scores; there once it is finished
    seed-1/log.jsonl          its epochs
    seed-1/checkpoint.safetensors, best.json    to resume from, perhaps with more epochs

A checkpoint holds the weights, their averages, the optimiser's memory and, in the middle of an
epoch, the states of the random generators as tensors, and its `Progress` as metadata.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import ConfigError, FileError, FormatError, quoted
from ...files.arrays import load_tensors, open_tensors, save_tensors
from ...files.read import check_readable, is_there, json_field, read_json, read_words
from ...files.write import whole_file, write_json
from ..parts.embedding import WordTable
from ..registry import current_name

VERSION = 1
MAX_LEARNED_BYTES = 64 << 20
CHECKPOINT = "checkpoint.safetensors"
WRITTEN = (
    "words.txt", "words.safetensors", "metrics.json", "weights.json", "weights.png", "seed-*",
    "*units.model",
)  # fmt: skip
"""What a run writes beside `task.json`."""
RESUME_ADVICE = "restore it from a copy, or train in a new folder"
_COPY_ADVICE = "get a complete copy of the run"
_MAY_CHANGE = frozenset({"config.train.checkpoint_minutes"})
"""Settings that may change, or be missing: they do not change what is learned."""

_ADDED = {"config.head": "bcn"}
"""Settings that older runs do not name, and what they had in their place."""


def is_task_run(folder: str | Path) -> bool:
    """Whether a folder is that of a task run."""
    return (Path(folder) / "task.json").is_file()


def read_task_json(folder: Path) -> dict[str, Any]:
    """What `task.json` says, its fields checked for their types."""
    path = folder / "task.json"
    record = read_json(path)
    get = partial(json_field, record, where=str(path))
    version = get("format_version", int, default=None)
    if version != VERSION:
        raise FormatError(
            f"{path}: format_version={quoted(version)}, not {VERSION}; update elmokit"
        )
    record["task"] = current_name(get("task", str))
    get("config", dict)
    for name, labels in get("facts", dict).items():
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise FormatError(f"{path}: facts.{name:.40}={quoted(labels)}: expected a list of str")
    get("static", str, NoneType, default=None)
    if get("model", dict, NoneType) is not None:
        get("model.source", str, NoneType)  # unknown for a model that was given as an object
        get("model.fingerprint", str)
        for name in ("num_layers", "dim"):
            get(f"model.{name}", int)
    for side in ("train", "dev"):
        get(f"{side}.path", str)
        get(f"{side}.examples", int)
        get(f"{side}.sha256", str, NoneType, default=None)
    return record


def write_whole_json(path: Path, value: dict[str, Any]) -> None:
    """Write JSON data in place of what the file had, all of it or nothing."""
    with whole_file(path) as temporary:
        write_json(temporary, value)


def dev_score(seed: Path, metric: str) -> float | None:
    """The score of a finished seed on the development data, from the folder of that seed."""
    path = seed / "metrics.json"
    if not is_there(path):
        return None
    return float(json_field(read_json(path), f"dev.{metric}", int, float, where=str(path)))


@contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Make the folder of a run; a new one in which nothing has begun does not stay."""
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if is_new and not is_task_run(folder):
            shutil.rmtree(folder, ignore_errors=True)


def holds_run(folder: str | Path) -> bool:
    """Whether a task run has a model, or a checkpoint of one: something would be lost with it."""
    names = ("model.safetensors", CHECKPOINT)
    seeds = Path(folder).glob("seed-*")
    return is_task_run(folder) and any(is_there(seed / name) for seed in seeds for name in names)


def seed_numbers(run: Path) -> list[int]:
    """The seeds that have a folder, in their order."""
    names = (path.name.removeprefix("seed-") for path in run.glob("seed-*"))
    return sorted(int(name) for name in names if name.isdecimal())


def seed_folder(run: Path, seed: int) -> Path:
    """Where the results of one seed are."""
    return run / f"seed-{seed}"


def save_words(run: Path, table: WordTable | None) -> None:
    """Write the word table of a run."""
    for name in ("words.txt", "words.safetensors"):
        (run / name).unlink(missing_ok=True)
    if table is None:
        return
    with whole_file(run / "words.txt") as temporary:
        temporary.write_text("".join(f"{word}\n" for word in table.words), encoding="utf-8")
    if table.matrix is not None:
        with whole_file(run / "words.safetensors") as temporary:
            matrix = torch.from_numpy(np.ascontiguousarray(table.matrix))
            save_tensors(temporary, {"vectors": matrix})


def load_words(run: Path) -> WordTable | None:
    """The word table that `save_words` wrote."""
    if not is_there(run / "words.txt"):
        return None
    words = list(read_words(run / "words.txt"))
    vectors = run / "words.safetensors"
    if not is_there(vectors):
        return WordTable(words)
    matrix = load_tensors(vectors, _COPY_ADVICE).get("vectors")
    if matrix is None or matrix.dtype != torch.float32 or matrix.dim() != 2:
        raise FormatError(f"{vectors}: expected a matrix of float32 named vectors; {_COPY_ADVICE}")
    if len(matrix) != len(words):
        raise FormatError(f"{vectors} has {len(matrix)} vectors, but words.txt {len(words)} words")
    return WordTable(words, matrix.numpy())


def save_learned(run: Path, learned: Mapping[str, bytes]) -> None:
    """Write what a task has learned of its data before it has a model."""
    for name, data in learned.items():
        with whole_file(run / name) as temporary:
            temporary.write_bytes(data)


def load_learned(run: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the files that are there."""
    learned = {}
    for path in (run / name for name in names):
        if is_there(path):
            check_readable(path, MAX_LEARNED_BYTES)
            learned[path.name] = path.read_bytes()
    return learned


def save_weights(path: Path, model: nn.Module) -> None:
    """Write the weights of a task model."""
    tensors = {name: t.detach().cpu() for name, t in model.state_dict().items()}
    with whole_file(path) as temporary:
        save_tensors(temporary, tensors)


def check_weights(path: Path, model: nn.Module) -> None:
    """Refuse weights of other names or shapes than those of a model, before they are read."""
    expected = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    with open_tensors(path, _COPY_ADVICE) as file:
        found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise FormatError(
                f"{path} does not fit the settings in task.json: {name:.80} has shape "
                f"{found.get(name)}, not {expected.get(name)}"
            )


def load_weights(path: Path, model: nn.Module) -> None:
    """Read the weights that `save_weights` wrote and `check_weights` accepts."""
    model.load_state_dict(load_tensors(path, _COPY_ADVICE))


def check_unchanged(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to resume another run; only the number of epochs may grow."""
    epochs = json_field(before, "config.train.epochs", int, where=str(folder / "task.json"))
    now = now | {"config": now["config"] | {"train": dict(now["config"]["train"])}}
    if now["config"]["train"]["epochs"] > epochs:
        now["config"]["train"]["epochs"] = epochs
    if now["model"] and before.get("model"):  # the folder of the biLM may move
        now["model"] = now["model"] | {"source": before["model"]["source"]}
    here = flat(now)
    there = {name: value for name, value in _ADDED.items() if name in here} | flat(before)
    skipped = {*_MAY_CHANGE, *_same_data(there, here)}
    names = [name for name in {**there, **here} if name not in skipped]
    changed = [name for name in names if there.get(name) != here.get(name)]
    if any(name.startswith("model") for name in changed):
        source = (before.get("model") or {"source": "none"})["source"]
        raise ConfigError(
            f"{folder}: the run has another biLM ({source}); resume it with that, or choose "
            "another folder"
        )
    if changed:
        name = changed[0]
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise ConfigError(
            f"{folder}: {name.removeprefix('config.')} is {there.get(name)!r:.60} there and "
            f"{here.get(name)!r:.60} now{more}; resume a run as it was started "
            "(see its task.json; only train.epochs may grow), or choose another folder"
        )


def _same_data(there: dict[str, Any], here: dict[str, Any]) -> Iterator[str]:
    """What need not be compared: the path of equal data, and a hash that one side lacks."""
    for side in ("train", "dev"):
        before, now = there.get(f"{side}.sha256"), here.get(f"{side}.sha256")
        if before is None or now is None:  # an older version, or a stream
            yield f"{side}.sha256"
        elif before == now:
            yield f"{side}.path"


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """All values by their dotted names."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found


def hash_data(path: Path) -> str | None:
    """A hash of a file, or of all files below a folder; None for a stream, read only once."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        files = [path]
    else:
        return None
    sha = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as stream:
                sha.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as e:
            raise FileError(f"{file} cannot be read: {e.strerror or e}") from e
    return sha.hexdigest()


def is_same_data(path: Path, recorded: Mapping[str, Any]) -> bool:
    """Whether a file is one that `task.json` records.

    Runs of before November 2026 recorded the path alone; the file may still be there.
    """
    digest = recorded.get("sha256") or hash_data(Path(recorded["path"]))
    return digest is not None and digest == hash_data(path)


@dataclass(slots=True)
class Progress:
    """How far a training is, beside its tensors.

    Attributes:
        epoch: Epochs that are finished, with their evaluation.
        best: Best development score.
        best_epoch: Epoch that has it.
        since_best: Epochs since then.
        halvings: How often the learning rate was halved.
        seconds: Time spent on finished epochs.
        batch: Batches of the current epoch that are done.
        loss: Sum of the losses of their examples.
        epoch_seconds: Time spent on them.
    """

    epoch: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    since_best: int = 0
    halvings: int = 0
    seconds: float = 0.0
    batch: int = 0
    loss: float = 0.0
    epoch_seconds: float = 0.0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """The progress that `asdict` described, perhaps in an older elmokit with fewer fields.

        Raises:
            FileError: A newer elmokit wrote it.
            ValueError: A value cannot be right.
        """
        kinds = {f.name: type(f.default) for f in fields(cls)}
        unknown = sorted(values.keys() - kinds.keys())
        if unknown:
            raise FileError(
                f"written by a newer elmokit ({', '.join(unknown)}); upgrade elmokit to resume it"
            )
        if "epoch" not in values:
            raise ValueError("epoch is missing")
        for name, value in values.items():
            is_number = type(value) is int and abs(value) < 1 << 63
            is_number = is_number or (kinds[name] is float and type(value) is float)
            if not is_number or math.isnan(value) or (kinds[name] is int and value < 0):
                raise ValueError(f"{name}={quoted(value)}")
        return cls(**values)


def write_checkpoint(
    path: Path, progress: Progress, tensors: dict[str, Tensor], row: dict[str, Any] | None = None
) -> None:
    """Write a checkpoint in place of the one before it, with the row of the epoch that it ends."""
    metadata = {"state": json.dumps(asdict(progress))}
    if row is not None:
        metadata["row"] = json.dumps(row)
    with whole_file(path) as temporary:
        save_tensors(temporary, {name: t.detach().cpu() for name, t in tensors.items()}, metadata)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())  # the new one must be on disk before the old one is gone


def read_checkpoint(path: Path) -> tuple[Progress, dict[str, Tensor]]:
    """What `write_checkpoint` wrote.

    Raises:
        FileError: The file cannot be opened, or a newer elmokit wrote it.
        FormatError: It is damaged.
    """
    with open_tensors(path, RESUME_ADVICE) as file:
        return _progress(file, path), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def read_progress(path: Path) -> Progress:
    """The progress alone; raises what `read_checkpoint` would."""
    with open_tensors(path, RESUME_ADVICE) as file:
        return _progress(file, path)


def read_row(path: Path) -> str | None:
    """The row of the epoch that a checkpoint ends, as a line of the log; None if it ends none."""
    with open_tensors(path, RESUME_ADVICE) as file:
        row: str | None = (file.metadata() or {}).get("row")
        return row


def _progress(file: Any, path: Path) -> Progress:
    try:
        return Progress.from_dict(dict(json.loads((file.metadata() or {})["state"])))
    except FileError as e:
        raise FileError(f"{path}: {e}") from e
    except (KeyError, TypeError, ValueError, RecursionError) as e:
        raise FormatError(f"{path} is damaged ({e!s:.200}); {RESUME_ADVICE}") from e
