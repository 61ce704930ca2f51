"""What is missing on other systems is not needed to import elmokit."""

import subprocess
import sys
from pathlib import Path

import pytest

from elmokit import bench
from elmokit.train import checkpoint

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
