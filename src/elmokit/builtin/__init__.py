"""The bundled models: `Elmo.from_pretrained("en")`, without a download.

Each is a folder here, in our own format (config.json, model.safetensors, vocab.txt), with its card
in README.md.
"""

from pathlib import Path

_HERE = Path(__file__).parent


def builtin_names() -> list[str]:
    """The names of the bundled models."""
    return sorted(path.parent.name for path in _HERE.glob("*/model.safetensors"))


def builtin_folder(name: str) -> Path | None:
    """The folder of the model of that name; None if there is no such model."""
    return _HERE / name if name in builtin_names() else None
