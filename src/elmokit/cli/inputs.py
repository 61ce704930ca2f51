"""Models, layers and texts as a command line names them."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..config import StateMode
from ..errors import ConfigError
from ..io.files import read_lines

if TYPE_CHECKING:
    from ..layers import Layers
    from ..model import Elmo


def load_model(
    source: str, device: str, tokenizer: str | None = None, state: StateMode | None = None
) -> "Elmo":
    """The model at `source`, ready to embed."""
    import torch

    from ..model import Elmo

    if device != "auto":
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as e:
            raise ConfigError(
                f"device={device!r}: torch has no such device here ({e!s:.60}…); "
                "expected auto, cpu, cuda, cuda:1, mps or another that torch knows"
            ) from e
    return Elmo.from_pretrained(source, device=device, tokenizer=tokenizer, state=state)


def parse_layers(text: str) -> "Layers":
    """`2` as a number, everything else as it is."""
    return int(text) if text.isascii() and text.isdigit() else text


def check_text(source: str) -> None:
    """Fail for a text that cannot be read before a model is loaded for it."""
    if source != "-" and not Path(source).is_fifo():
        next(read_lines(source), None)
