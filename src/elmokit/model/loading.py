"""From a checkpoint to an `Elmo` that is ready to compute."""

import logging
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import torch

from ..config import Normalization, StateMode
from ..engine import EngineName, Precision
from ..errors import ConfigError, quoted
from ..formats.checkpoint import OPTIONAL, Checkpoint
from ..nn import ScalarMix
from ..text.tokenize import TokenizerFunction

if TYPE_CHECKING:
    from .elmo import Elmo

log = logging.getLogger(__name__)

Device: TypeAlias = str | torch.device | None
DType: TypeAlias = Literal["float64", "float32", "float16", "bfloat16"] | torch.dtype
AnyElmo = TypeVar("AnyElmo", bound="Elmo")

CACHE_WORDS = 50_000
"""Words remembered by default: 26 MB for the small published model, 102 MB for the original."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """Where and how a model computes; nothing of it is saved with the model.

    Attributes:
        device: Any torch device; by default CUDA where there is one, else the CPU.
        dtype: Type of the weights and of the arithmetic.
        requires_grad: Whether the biLM is to be trained, too.
        engine: `native`, `torch`, `plain` or `auto`.
        precision: `float32`, or `int8` for 8-bit products in the LSTMs.
        cache_words: Words whose token vectors are remembered from call to call.
    """

    device: Device = None
    dtype: DType = "float32"
    requires_grad: bool = False
    engine: EngineName = "auto"
    precision: Precision = "float32"
    cache_words: int = CACHE_WORDS

    def __post_init__(self) -> None:
        find_dtype(self.dtype)

    def apply(self, elmo: AnyElmo) -> AnyElmo:
        """The model on its device, with its type, ready for inference."""
        where, kind = find_device(self.device), find_dtype(self.dtype)
        if where.type == "mps" and kind == torch.float64:
            raise ConfigError(
                "dtype='float64': MPS has no float64; expected float32 or device='cpu'"
            )
        if where.type != "cpu" and self.precision == "int8":
            raise ConfigError(
                f"precision='int8': runs on the CPU only; expected float32 or device='cpu', "
                f"not {str(where)!r}"
            )
        return elmo.to(device=where, dtype=kind).eval()


def find_device(device: Device) -> torch.device:
    """The device of that name; for `auto` and None, CUDA where there is one, else the CPU.

    MPS has to be asked for by name, because elmokit has not been tested on it.
    """
    if device is not None and device != "auto":
        return _named(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        _mention_mps()
    return torch.device("cpu")


def _named(device: str | torch.device) -> torch.device:
    try:
        found = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as e:
        raise ConfigError(
            f"device={quoted(device)}: torch has no such device here ({e!s:.60}…); "
            "expected auto, cpu, cuda, cuda:1, mps or another that torch knows"
        ) from e
    if found.type == "meta":
        raise ConfigError("device='meta' holds no values, so there is nothing to compute with")
    return found


@cache
def _mention_mps() -> None:
    """Say once per process that there is a GPU to try."""
    log.warning(
        "elmokit computes on the CPU; device='mps' uses this Mac's GPU, on which it is untested"
    )


def find_dtype(dtype: DType) -> torch.dtype:
    """The type of that name."""
    named = {
        "float64": torch.float64,
        "float32": torch.float32,
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
    }
    for name, value in named.items():
        if dtype in (name, value):
            return value
    raise ConfigError(f"dtype={quoted(dtype)}: expected one of {', '.join(named)}")


def reading(
    checkpoint: Checkpoint,
    *,
    state: StateMode | None,
    tokenizer: str | TokenizerFunction | None,
    normalization: Normalization | Literal["as saved"] | None,
) -> TokenizerFunction | None:
    """Let a checkpoint read text in another way than it was saved with.

    Returns:
        A tokenizer that is a function, which a configuration cannot hold.
    """
    changes: dict[str, Any] = {} if state is None else {"state": state}
    function = None
    if isinstance(tokenizer, str):
        changes["tokenizer"] = tokenizer
    elif tokenizer is not None:
        changes["tokenizer"], function = None, tokenizer
    if normalization != "as saved":
        changes["normalization"] = normalization
    checkpoint.config = replace(checkpoint.config, **changes)
    return function


def fill(elmo: "Elmo", checkpoint: Checkpoint) -> None:
    """Give a model the tensors of a checkpoint, which it takes over."""
    tensors = dict(checkpoint.tensors)
    warm = [tensors.pop(name, None) for name in OPTIONAL]
    if not checkpoint.config.mixes:
        fresh = ScalarMix(elmo.num_layers).state_dict()
        tensors |= {f"mixes.default.{name}": value for name, value in fresh.items()}
    with torch.no_grad():
        elmo.load_state_dict(tensors, strict=True, assign=True)
    elmo.warm_h, elmo.warm_c = warm
    elmo.format, elmo.notes = checkpoint.format, checkpoint.notes
