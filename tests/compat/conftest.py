"""What the tests of the old signatures share: a tiny official pair of files."""

import json
from pathlib import Path

import pytest
from strategies import make_tiny

from elmokit.io.save import write_checkpoint


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
