"""Two processes are one with the joint batch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch.distributed import is_available

from elmokit import Elmo
from elmokit.train.config import PretrainConfig
from elmokit.train.logs import read_log


def train(processes: int, corpus: Path, config: PretrainConfig, run: Path) -> None:
    path = run.with_suffix(".json")
    path.write_text(json.dumps(config.to_dict()))
    arguments = ["pretrain", str(corpus), "-o", str(run), "--config", str(path)]
    start = [sys.executable, "-m", "elmokit"]
    if processes > 1:
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        start = [sys.executable, "-m", *torchrun, "-m", "elmokit"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*start, *arguments, "--device", "cpu", "--resume"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not is_available(), reason="this torch has no torch.distributed")
@pytest.mark.parametrize("reading", ["sentences", "lanes"])
def test_two_processes_equal_one(
    reading: str, corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    config = config.override(
        f"data.reading={reading}", "train.dropout=0", "train.max_steps=8", "data.reset=0.3"
    )
    train(1, corpus, config, tmp_path / "one")
    train(2, corpus, config, tmp_path / "two")
    rows = [[r["loss"] for r in read_log(tmp_path / n / "log.jsonl")] for n in ("one", "two")]
    np.testing.assert_allclose(*rows, rtol=1e-5)
    one, two = (Elmo.from_pretrained(tmp_path / n, device="cpu") for n in ("one", "two"))
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=2e-3, atol=2e-4, err_msg=name)
    # It goes on after its end as after any other stop.
    train(2, corpus, config.override("train.max_steps=10"), tmp_path / "two")
    assert len(read_log(tmp_path / "two" / "log.jsonl")) >= 10
