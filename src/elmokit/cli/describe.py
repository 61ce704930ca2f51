"""A model as plain facts."""

from pathlib import Path
from typing import Any

import torch

from ..engine import native
from ..formats.checkpoint import Checkpoint
from ..formats.load import model_path, read_checkpoint
from ..pretraining.status import is_run, run_status

FIRST_WORDS = 10


def describe(source: str) -> dict[str, Any]:
    """What `elmokit info --json` prints: everything about the model at `source` but its weights."""
    path = model_path(source)
    run = {"run": run_status(path)} if is_run(path) else {}
    if run and not (path / "model.safetensors").exists():
        return {"source": source, **run}
    checkpoint = read_checkpoint(path)
    config, vocab = checkpoint.config, checkpoint.vocab
    return {
        "source": source,
        **run,
        "format": checkpoint.format,
        "size_on_disk": _size(path),
        "dim": config.dim,
        "layers": config.num_layers,
        "parameters": {part: _count(checkpoint, f"{part}.") for part in ("bilm", "softmax")},
        "encoder": config.encoder.to_dict(),
        "lstm": config.lstm.to_dict(),
        "tokenizer": config.tokenizer,
        "normalization": config.normalization,
        "state": config.state,
        "has_warm_state": "warm_h" in checkpoint.tensors,
        "engine": f"native ({isa})" if (isa := native.chosen()) else "torch",
        "mixes": _mixes(checkpoint),
        "vocabulary": vocab and {"size": len(vocab), "first": list(vocab[:FIRST_WORDS])},
        "warnings": [*checkpoint.notes, *_problems(checkpoint)],
    }


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder and the folders in it."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _count(checkpoint: Checkpoint, prefix: str) -> int:
    return sum(t.numel() for name, t in checkpoint.tensors.items() if name.startswith(prefix))


def _mixes(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "weights": torch.softmax(checkpoint.tensors[f"mixes.{name}.scalars"], 0).tolist(),
            "gamma": checkpoint.tensors[f"mixes.{name}.gamma"].item(),
            **mix.to_dict(),
        }
        for name, mix in checkpoint.config.mixes.items()
    }


def _problems(checkpoint: Checkpoint) -> list[str]:
    """Weights that cannot be meant."""
    problems = []
    for name, tensor in checkpoint.tensors.items():
        if not tensor.isfinite().all():
            number = int((~tensor.isfinite()).sum())
            problems.append(f"{name}: {number:,} of {tensor.numel():,} weights are NaN or infinite")
        # Biases, mixes and warm states may be zero; a matrix is not after any training.
        elif tensor.ndim > 1 and name.startswith(("bilm.", "softmax.")) and not tensor.any():
            problems.append(f"{name}: all weights are zero")
    return problems
