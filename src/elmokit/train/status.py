"""How a run is doing, from its files alone."""

from pathlib import Path
from typing import Any

from ..errors import FileError, FormatError
from ..io.files import read_json
from .checkpoint import newest_progress
from .logs import read_log


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a pre-training run."""
    return (folder / "run.json").is_file()


def run_status(folder: Path) -> dict[str, Any]:
    """The newest facts about a run: JSON data."""
    facts = read_json(folder / "run.json")
    rows = read_log(folder / "log.jsonl")
    tested = [row for row in rows if "valid_mean" in row]
    best = min(tested, key=lambda row: float(row["valid_mean"]), default=None)
    last = rows[-1] if rows else {}
    return {
        "corpus": facts["corpus"],
        "source": facts["source"],
        "is_finished": (folder / "result.json").is_file() and last.get("share") == 1.0,
        "step": last.get("step", 0),
        "tokens": last.get("tokens", 0),
        "epochs": last.get("epochs", 0.0),
        "share": last.get("share", 0.0),
        "seconds": last.get("seconds", 0.0),
        "eta_seconds": last.get("eta_seconds"),
        "tokens_per_s": last.get("tokens_per_s"),
        "loss": last.get("loss"),
        "is_sampled": facts["config"]["softmax"]["loss"] == "sampled",
        "vectors": facts.get("vectors"),
        **_checkpoint(folder / "checkpoints"),
        "best": best
        and {
            "step": best["step"],
            **{k.removeprefix("valid_"): v for k, v in best.items() if k.startswith("valid_")},
        },
    }


def _checkpoint(folder: Path) -> dict[str, Any]:
    """Where `--resume` would continue, or why it cannot."""
    try:
        progress = newest_progress(folder)
    except (FileError, FormatError) as e:
        return {"checkpoint": None, "checkpoint_problem": str(e)}
    found = progress and {"step": progress.step, "tokens": progress.tokens}
    return {"checkpoint": found, "checkpoint_problem": None}
