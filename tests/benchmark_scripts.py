"""The scripts of `benchmarks/` as modules, for their tests."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def load_script(name: str) -> ModuleType:
    """`benchmarks/<name>.py`; the test module skips where there is none (a source archive)."""
    path = BENCHMARKS / f"{name}.py"
    if not path.exists():
        pytest.skip(f"{path} is not here", allow_module_level=True)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
