"""A task run in words, for the table of `elmokit info RUN`."""

from typing import Any

from .report import in_bytes


def task_run_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """What `describe_run` found, for a table of two columns."""
    settings = "\n".join(f"{name}={value}" for name, value in record["settings"].items())
    labels = "\n".join(f"{name}: {', '.join(of)}" for name, of in record["labels"].items())
    optional = [("static vectors", record["static"]), ("labels", labels)]
    return [
        ("run", record["source"]),
        ("task", record["task"]),
        ("score", _score(record)),
        *(("", _seed(seed, record)) for seed in record["seeds"]),
        ("training data", _data(record["train"])),
        ("dev data", _data(record["dev"])),
        ("biLM", _bilm(record["model"])),
        ("tokenizer", record["tokenizer"] or "regex"),
        *((name, value) for name, value in optional if value),
        ("settings", settings or "the defaults"),
        ("size on disk", in_bytes(record["size_on_disk"])),
    ]


def _score(record: dict[str, Any]) -> str:
    if record["metric"] is None:
        return "none yet: no seed has finished; continue with: elmokit train … --resume"
    number = sum(seed["is_finished"] for seed in record["seeds"])
    deviation = f" ± {record['deviation']:.4f} over {number} seeds" if number > 1 else ""
    return f"dev {record['metric']} {record['mean']:.4f}{deviation}"


def _seed(seed: dict[str, Any], record: dict[str, Any]) -> str:
    if not seed["is_finished"]:
        return f"seed {seed['seed']}: not finished"
    best = ", the best" if seed["seed"] == record["best_seed"] and len(record["seeds"]) > 1 else ""
    score = "" if seed["score"] is None else f"{record['metric']} {seed['score']:.4f}, "
    return f"seed {seed['seed']}: {score}epoch {seed['epoch']} of {seed['epochs']}{best}"


def _data(data: dict[str, Any]) -> str:
    return f"{data['path']}, {data['examples']:,} examples"


def _bilm(model: dict[str, Any] | None) -> str:
    if model is None:
        return "none (the baseline)"
    source = model["source"] or "given in memory"
    return f"{source}, {model['num_layers']} layers of {model['dim']} values"
