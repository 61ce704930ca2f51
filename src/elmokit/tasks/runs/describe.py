"""What a task run is, without loading its models: what `elmokit info RUN --json` prints."""

from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...files.read import is_there, json_field, read_json
from ..registry import find_task
from . import files


def describe_run(run: str | Path) -> dict[str, Any]:
    """Task, data, settings that are not the defaults, biLM, scores of the seeds, and size.

    Scores are those on the development data; None of a run or a seed that is not finished.
    """
    folder = Path(run)
    record = files.read_task_json(folder)
    config = record["config"]
    metrics = _metrics(folder)
    return {
        "source": str(run),
        "task": record["task"],
        "train": record["train"],
        "dev": record["dev"],
        "labels": record["facts"],
        "model": record["model"],
        "tokenizer": config.get("tokenizer"),
        "static": record.get("static"),
        "settings": _changed_settings(record["task"], config),
        "metric": metrics.get("metric"),
        "mean": metrics.get("mean"),
        "deviation": metrics.get("deviation"),
        "best_seed": metrics.get("best_seed"),
        "seeds": [
            _seed(folder, number, metrics.get("metric")) for number in files.seed_numbers(folder)
        ],
        "size_on_disk": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
    }


def _metrics(folder: Path) -> dict[str, Any]:
    """What all finished seeds came to, checked; empty before the first has finished."""
    path = folder / "metrics.json"
    if not is_there(path):
        return {}
    values = read_json(path)
    json_field(values, "metric", str, where=str(path))
    json_field(values, "best_seed", int, where=str(path))
    for name in ("mean", "deviation"):
        json_field(values, name, int, float, where=str(path))
    return values


def _seed(folder: Path, number: int, metric: str | None) -> dict[str, Any]:
    """How a seed came out, or that it is not finished."""
    path = files.seed_folder(folder, number) / "metrics.json"
    if not is_there(path):
        return {"seed": number, "is_finished": False, "score": None, "epoch": None, "epochs": None}
    values, where = read_json(path), str(path)
    score = json_field(values, f"dev.{metric}", int, float, where=where) if metric else None
    epochs = {name: json_field(values, name, int, where=where) for name in ("epoch", "epochs")}
    return {"seed": number, "is_finished": True, "score": score, **epochs}


def _changed_settings(task: str, config: dict[str, Any]) -> dict[str, Any]:
    """The settings by their dotted names that are not the task's defaults.

    All of them, where the task is not installed and nobody knows its defaults.
    """
    settings = files.flat(config)
    settings.pop("tokenizer", None)  # a run records what it uses
    try:
        defaults = files.flat(find_task(task).config_class().to_dict())
    except ConfigError:
        return settings
    return {k: v for k, v in settings.items() if k not in defaults or defaults[k] != v}
