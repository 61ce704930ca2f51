"""The biLM of an options file and a weight file on this machine."""

import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import FileError
from ...model import Elmo as Model
from .bilm import ElmoBiLm


def load_bilm(
    options_file: str | Path | None,
    weight_file: str | Path | None,
    *,
    requires_grad: bool = False,
    vocab_to_cache: Sequence[str] | None = None,
) -> ElmoBiLm:
    """The biLM of two local files."""
    options, weights = _local(options_file, "options_file"), _local(weight_file, "weight_file")
    model = Model.from_files(
        options, weights, device="cpu", normalization=None, requires_grad=requires_grad
    )
    return ElmoBiLm(model.bilm, vocab_to_cache)


def _local(file: str | Path | None, name: str) -> Path:
    if file is None or re.match(r"(?:https?|s3|hf)://", str(file)):
        raise FileError(
            f"{name}={file and str(file)!r}: expected a file on this machine; AllenNLP "
            "downloaded it, here download options and weights first and give their paths"
        )
    return Path(file).expanduser()
