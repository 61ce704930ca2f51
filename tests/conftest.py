"""Fixtures that all tests share: a tiny model of random weights, and the shared material."""

import os
import random
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

if os.environ.get("ELMOKIT_CHECK_SHAPES", "1") == "1":
    # Before the first import of elmokit: checks the annotated shapes of nn/ at every call.
    from jaxtyping import install_import_hook

    install_import_hook("elmokit.nn", "beartype.beartype")

# Before the first import of torch; processes that tests start inherit it.
THREADS = os.environ["OMP_NUM_THREADS"] = os.environ.get("ELMOKIT_TEST_THREADS", "1")

import numpy as np
import torch
from hypothesis import settings
from strategies import make_tiny

from elmokit import Elmo

# Examples share one machine with everything else: a slow one is not a bug. They are the same in
# every run; `--hypothesis-profile=explore` looks for new ones.
settings.register_profile("elmokit", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False)
settings.load_profile("elmokit")
# Tiny matrices gain nothing from threads, and test processes share the cores.
torch.set_num_threads(int(THREADS))
# A shell starts background jobs with Ctrl-C ignored; the tests of interrupts need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    _seed(fixturedef.argname)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    _seed(item.nodeid)


def _seed(name: str) -> None:
    """Give each fixture and each test random numbers that no other test has a part in."""
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


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
