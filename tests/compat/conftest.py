"""What the tests of the old signatures share: a tiny official pair of files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strategies import make_tiny
from torch import nn

from elmokit.formats.save import write_checkpoint


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """`options.json` and `model.hdf5` of a tiny model."""
    folder = tmp_path_factory.mktemp("official")
    write_checkpoint(make_tiny().to_checkpoint(), folder / "model.hdf5")
    return folder / "options.json", folder / "model.hdf5"


@pytest.fixture(scope="session")
def allennlp_batches(fixtures: Path) -> list[list[list[str]]]:
    """The 10 batches of 3 sentences that the reference activations were computed from."""
    text = (fixtures / "allennlp-elmo" / "sentences.json").read_text(encoding="utf-8")
    rows = [[sentence.split() for sentence in row] for row in json.loads(text)]
    return [list(batch) for batch in zip(*rows, strict=True)]


@pytest.fixture
def replicate() -> Callable[[nn.Module], Any]:
    """What `nn.DataParallel` does for each GPU, without one."""
    return _replica


def _replica(module: nn.Module) -> Any:
    # Everything is copied, and gradients reach the original.
    copies = {m: m._replicate_for_data_parallel() for m in module.modules()}
    parameters = {p: p.clone() for p in module.parameters()}
    for original, copied in copies.items():
        copied._former_parameters = {}
        for name, child in original._modules.items():
            copied._modules[name] = copies.get(child)
        for name, parameter in original._parameters.items():
            if parameter is None:
                copied._parameters[name] = None
            else:
                setattr(copied, name, parameters[parameter])
                copied._former_parameters[name] = parameters[parameter]
    return copies[module]
