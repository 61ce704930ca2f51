"""Settings that come from a file."""

import tomllib
from pathlib import Path
from typing import Any

from ..errors import FormatError


def apply_file(values: dict[str, Any], path: str) -> None:
    """Put the settings of a TOML or JSON file on top of `values`."""
    _merge(values, _read(Path(path)))


def _read(path: Path) -> dict[str, Any]:
    from ..files.read import MAX_JSON_BYTES, check_readable, read_json

    if path.suffix != ".toml":
        return read_json(path)
    check_readable(path, MAX_JSON_BYTES)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise FormatError(f"{path} is not TOML: {e}") from e


def _merge(values: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value
