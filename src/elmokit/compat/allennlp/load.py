"""The biLM of an options file and a weight file on this machine."""

import re
from dataclasses import replace
from pathlib import Path

from ...errors import FileError
from ...formats.catalogue.install import local_copy
from ...formats.official import read_official
from ...model import Elmo as Model
from ...model import Execution
from ...nn import BiLm


def load_bilm(
    options_file: str | Path | None, weight_file: str | Path | None, requires_grad: bool = False
) -> BiLm:
    """The biLM of two local files, with the forget bias inside its biases, as AllenNLP has it."""
    checkpoint = read_official(
        local_file(options_file, "options_file"), local_file(weight_file, "weight_file")
    )
    lstm = checkpoint.config.lstm
    for name in list(checkpoint.tensors):
        if re.fullmatch(r"bilm\.(?:for|back)ward_lm\.layers\.\d+\.bias", name):
            bias = checkpoint.tensors[name].clone()
            bias[lstm.dim : 2 * lstm.dim] += lstm.forget_bias
            checkpoint.tensors[name] = bias
    checkpoint.config = replace(checkpoint.config, lstm=replace(lstm, forget_bias=0.0))
    return Model.from_checkpoint(
        checkpoint, Execution(device="cpu", requires_grad=requires_grad)
    ).bilm


def local_file(file: str | Path | None, name: str) -> Path:
    """The path; the file at an address is downloaded once, as AllenNLP does."""
    if file is None:
        raise FileError(f"{name}=None: expected a file or its address")
    return local_copy(file)
