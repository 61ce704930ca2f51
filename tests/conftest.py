"""Fixtures that all tests share: a tiny model of random weights, and the shared material."""

import os
from pathlib import Path

import pytest

if os.environ.get("ELMOKIT_CHECK_SHAPES", "1") == "1":
    # Before the first import of elmokit: checks the annotated shapes of nn/ at every call.
    from jaxtyping import install_import_hook

    install_import_hook("elmokit.nn", "beartype.beartype")

import torch

from elmokit import Elmo, ElmoConfig
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of reference activations; the test skips where it is absent."""
    folder = SHARED / "fixtures"
    if not folder.is_dir():
        pytest.skip(f"reference activations are not at {folder}")
    return folder


def tiny_config(**changes: object) -> ElmoConfig:
    """A model of 16 values a direction, as small as a test wants it."""
    cnn = CharCnnConfig(dim=4, filters=((1, 4), (2, 8), (3, 16)))
    values = {
        "encoder": EncoderConfig(char_cnn=cnn),
        "lstm": LstmConfig(dim=32, projection_dim=16),
        **changes,
    }
    return ElmoConfig(**values)  # type: ignore[arg-type]


@pytest.fixture
def tiny() -> Elmo:
    """A tiny model of random weights that are strong enough to make context matter."""
    return make_tiny()


def make_tiny(config: ElmoConfig | None = None, seed: int = 0) -> Elmo:
    torch.manual_seed(seed)
    elmo = Elmo(config or tiny_config()).eval()
    with torch.no_grad():
        for parameter in elmo.bilm.parameters():
            parameter.mul_(1.5)
    return elmo
