"""Two processes are one with the joint batch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch.distributed import is_available

from elmokit import Elmo
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.records import read_log

pytestmark = pytest.mark.skipif(not is_available(), reason="this torch has no torch.distributed")

KILLED = """
import os, signal
from elmokit.pretraining.loop import Loop

step = Loop.step

def until_killed(self, share):
    if os.environ["RANK"] == "1" and self.progress.step == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, share)

Loop.step = until_killed
from elmokit.cli import main
main()
"""
"""`elmokit`, whose second process dies after seven steps."""


def start(
    processes: int,
    corpus: Path,
    config: PretrainConfig,
    run: Path,
    program: tuple[str, ...],
    *options: str,
) -> subprocess.CompletedProcess[str]:
    path = run.with_suffix(".json")
    path.write_text(json.dumps(config.to_dict()))
    arguments = ["pretrain", str(corpus), "-o", str(run), "--config", str(path)]
    command = [sys.executable, *program]
    if processes > 1:
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, "-m", *torchrun, *program]
    return subprocess.run(
        [*command, *arguments, "--device", "cpu", "--resume", *options],
        capture_output=True, text=True,
    )  # fmt: skip


def train(processes: int, corpus: Path, config: PretrainConfig, run: Path, *options: str) -> None:
    done = start(processes, corpus, config, run, ("-m", "elmokit"), *options)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("reading", [pytest.param("sentences", marks=pytest.mark.long), "lanes"])
def test_two_processes_equal_one(
    reading: str, corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    config = config.override(
        f"data.reading={reading}", "train.dropout=0", "train.max_steps=8", "data.reset=0.3"
    )
    options = ("--vectors", str(tmp_path / "vectors.txt")) if reading == "lanes" else ()
    if options:
        (tmp_path / "vectors.txt").write_text("bal 1 2 3\ndam 3 1 2\ngon 2 2 1\nkur 0 1 1\n")
        config = config.override("train.vector_steps=9")
    train(1, corpus, config, tmp_path / "one", *options)
    train(2, corpus, config, tmp_path / "two", *options)
    rows = [[r["loss"] for r in read_log(tmp_path / n / "log.jsonl")] for n in ("one", "two")]
    np.testing.assert_allclose(*rows, rtol=1e-5)
    one, two = (Elmo.from_pretrained(tmp_path / n, device="cpu") for n in ("one", "two"))
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=2e-3, atol=2e-4, err_msg=name)
    # It goes on after its end as after any other stop.
    train(2, corpus, config.override("train.max_steps=10"), tmp_path / "two")
    assert len(read_log(tmp_path / "two" / "log.jsonl")) >= 10


def test_a_killed_process_costs_the_steps_since_the_last_checkpoint(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    done = start(2, corpus, config, broken, (str(program),))
    assert done.returncode != 0
    assert not (broken / "result.json").exists()
    train(2, corpus, config, broken)
    train(2, corpus, config, whole)
    losses = [[r["loss"] for r in read_log(run / "log.jsonl")] for run in (broken, whole)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == config.train.max_steps
