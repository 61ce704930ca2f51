"""What must not change when a run goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..files.read import json_field

_FREE = frozenset({"config.train.checkpoint_minutes"})
"""Settings that may change, or be missing: they have no say in what is learned."""


def check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on with something else; the same with more epochs is the same run."""
    epochs = json_field(before, "config.train.epochs", int, where=str(folder / "task.json"))
    now = now | {"config": now["config"] | {"train": dict(now["config"]["train"])}}
    if now["config"]["train"]["epochs"] > epochs:
        now["config"]["train"]["epochs"] = epochs
    if now["model"] and before.get("model"):  # the folder of the biLM may move
        now["model"] = now["model"] | {"source": before["model"]["source"]}
    there, here = _flat(before), _flat(now)
    skipped = {*_FREE, *_same_data(there, here)}
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


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """All values by their dotted names."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found
