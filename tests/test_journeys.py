"""The journeys of a new user, as a person can read and run them: `examples/journeys`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

JOURNEYS = Path(__file__).resolve().parents[1] / "examples" / "journeys"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "end"), [("english", "complete"), ("korean", "여기까지")])
def test_journey_gives_what_it_promises(name: str, end: str, tmp_path: Path) -> None:
    if name == "korean":
        pytest.importorskip("kiwipiepy", reason="the Korean model needs elmokit[ko]")
    bin_folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([bin_folder, os.environ["PATH"]])
    done = subprocess.run(
        ["bash", str(JOURNEYS / f"{name}.sh")],
        cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=540,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert end in done.stdout.splitlines()[-1]
