"""The biLM that a task run reads: loaded, and known again by its weights."""

import hashlib
from pathlib import Path

from ..errors import ConfigError, ElmoError, FileError
from ..model import Elmo


def load_bilm(
    source: str | Path, *, tokenizer: str | None = None, device: str | None = None
) -> Elmo:
    """The model at `source`, frozen."""
    elmo = Elmo.from_pretrained(source, tokenizer=tokenizer, device=device)
    if elmo.config.state == "carry":
        raise ConfigError(
            f"{source} carries its state from sentence to sentence, so that a sentence has no "
            "layers of its own; save it with state 'zero' or 'warm'"
        )
    return elmo


def fingerprint(elmo: Elmo) -> str:
    """A few letters that change with the weights of the biLM."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(elmo.bilm.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def reload_bilm(
    run: Path, source: str, expected: str, tokenizer: str | None, device: str | None
) -> Elmo:
    """The model that a run was trained with.

    Raises:
        FileError: It is not there any more.
        ConfigError: Another model is there now.
    """
    try:
        elmo = load_bilm(source, tokenizer=tokenizer, device=device)
    except ElmoError as e:
        raise FileError(
            f"{run} was trained with the biLM {source}, which cannot be loaded ({e}); "
            "say where it is now with --model"
        ) from e
    if fingerprint(elmo) != expected:
        raise ConfigError(
            f"{source} is not the biLM that {run} was trained with: its weights differ; "
            "say where that one is with --model"
        )
    return elmo
