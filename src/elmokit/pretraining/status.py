"""How a run is doing, from its files alone."""

from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from ..errors import ConfigError, FileError, FormatError
from ..files.read import json_field, read_json
from .checkpoint import newest_progress
from .config import PretrainConfig
from .logs import read_log


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a pre-training run."""
    return (folder / "run.json").is_file()


def is_model(folder: Path) -> bool:
    """Whether a run has exported its model."""
    return (folder / "model.safetensors").is_file()


def read_facts(folder: Path) -> dict[str, Any]:
    """What `run.json` says, its fields checked; those of older versions are filled in."""
    path = folder / "run.json"
    values = read_json(path)
    get = partial(json_field, values, where=str(path))
    has_checkpoint = get("has_checkpoint", bool, default=None)
    try:
        config = PretrainConfig.from_dict(get("config", dict), "config").to_dict()
    except ConfigError as e:
        raise FormatError(f"{path}: {e}") from e
    if has_checkpoint is None:  # written before November 2026
        last = max((row["step"] for row in read_log(folder / "log.jsonl")), default=0)
        has_checkpoint = last >= config["train"]["checkpoint_every"]
    vectors = get("vectors", dict, NoneType, default=None)
    if vectors is not None:
        get("vectors.source", str)
        get("vectors.coverage", float, int, default=None)
    return {
        "corpus": get("corpus", str),
        "fingerprint": get("fingerprint", str),
        "source": get("source", str, NoneType),
        "vectors": vectors,
        "is_new_softmax": get("is_new_softmax", bool, default=True),
        "has_checkpoint": has_checkpoint,
        "config": config,
    }


def run_status(folder: Path) -> dict[str, Any]:
    """The newest facts about a run: JSON data."""
    facts = read_facts(folder)
    rows = read_log(folder / "log.jsonl")
    tested = [row for row in rows if "valid_mean" in row]
    best = min(tested, key=lambda row: float(row["valid_mean"]), default=None)
    last = rows[-1] if rows else {}
    return {
        "corpus": facts["corpus"],
        "source": facts["source"],
        "is_finished": _last_result(folder) == last.get("step", 0),
        "step": last.get("step", 0),
        "tokens": last.get("tokens", 0),
        "epochs": last.get("epochs", 0.0),
        "share": last.get("share", 0.0),
        "seconds": last.get("seconds", 0.0),
        "eta_seconds": last.get("eta_seconds"),
        "tokens_per_s": last.get("tokens_per_s"),
        "loss": last.get("loss"),
        "is_sampled": facts["config"]["softmax"]["loss"] == "sampled",
        "vectors": facts["vectors"],
        **_checkpoint(folder / "checkpoints"),
        "best": best
        and {
            "step": best["step"],
            **{k.removeprefix("valid_"): v for k, v in best.items() if k.startswith("valid_")},
        },
    }


def _last_result(folder: Path) -> int | None:
    """The step after which the run came to its end; None if it has not yet."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    return int(json_field(read_json(path), "step", int, where=str(path)))


def _checkpoint(folder: Path) -> dict[str, Any]:
    """Where `--resume` would continue, or why it cannot."""
    try:
        progress = newest_progress(folder)
    except (FileError, FormatError) as e:
        return {"checkpoint": None, "checkpoint_problem": str(e)}
    found = progress and {"step": progress.step, "tokens": progress.tokens}
    return {"checkpoint": found, "checkpoint_problem": None}
