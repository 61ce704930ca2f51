"""Fixtures that all tests share: a tiny model of random weights, and the shared material."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

if os.environ.get("ELMOKIT_CHECK_SHAPES", "1") == "1":
    # Before the first import of elmokit: checks the annotated shapes of nn/ at every call.
    from jaxtyping import install_import_hook

    install_import_hook("elmokit.nn", "beartype.beartype")

import torch
from hypothesis import settings
from strategies import make_tiny

from elmokit import Elmo

# Examples share one machine with everything else: a slow one is not a bug.
settings.register_profile("elmokit", deadline=None)
settings.load_profile("elmokit")
# Tiny matrices gain nothing from threads, and test processes share the cores.
torch.set_num_threads(1)
# A shell starts background jobs with Ctrl-C ignored; the tests of interrupts need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of reference activations; the test skips where it is absent."""
    folder = SHARED / "fixtures"
    if not folder.is_dir():
        pytest.skip(f"reference activations are not at {folder}")
    return folder


@pytest.fixture
def tiny() -> Elmo:
    """A tiny model of random weights that are strong enough to make context matter."""
    return make_tiny()


@pytest.fixture
def num_threads() -> Iterator[None]:
    """Lets a test set torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
