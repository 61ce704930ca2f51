"""elmokit and its wheels on other systems: nothing they lack is needed to import it."""

import subprocess
import sys
from pathlib import Path

import pytest

from elmokit import bench
from elmokit.pretraining import checkpoint

IMPORT_ALL = """
import sys
for name in ("resource", "fcntl"):
    sys.modules[name] = None  # what Windows does not have
import importlib, pkgutil, elmokit
names = [m.name for m in pkgutil.walk_packages(elmokit.__path__, "elmokit.")]
for name in names:
    if not name.endswith(("__main__", "_kernel")):  # a command, and a library without Python
        importlib.import_module(name)
print(len(names))
"""


def test_no_module_needs_what_windows_does_not_have() -> None:
    result = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 150


def test_peak_memory_is_known() -> None:
    assert 10 < bench.peak_memory_mb() < 1e6


def test_a_folder_that_cannot_be_opened_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    opened = checkpoint.os.open

    def windows_open(path: Path, flags: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags)

    monkeypatch.setattr(checkpoint.os, "open", windows_open)
    checkpoint._to_disk(file)
    checkpoint._to_disk(tmp_path)
    with pytest.raises(OSError):
        checkpoint._to_disk(tmp_path / "missing")


def test_the_workflow_builds_a_wheel_for_every_system() -> None:
    path = Path(__file__).parents[1] / ".github" / "workflows" / "wheels.yml"
    if not path.exists():
        pytest.skip("an sdist has no workflows")
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    systems = jobs["wheel"]["strategy"]["matrix"]["os"]
    assert {system.split("-")[0] for system in systems} == {"ubuntu", "macos", "windows"}
    assert any(system.startswith("ubuntu") and system.endswith("arm") for system in systems)
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert any("pypa/cibuildwheel@v" in step.get("uses", "") for step in steps)
