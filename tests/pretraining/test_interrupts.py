"""Ctrl-C and SIGTERM end a run with a checkpoint of its last step."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from elmokit.pretraining.checkpoint import checkpoints
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.interrupts import interrupts
from elmokit.pretraining.records import read_log
from elmokit.pretraining.run import pretrain

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def losses(run: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in read_log(run / "log.jsonl")]


def stop_at(step: int, number: int) -> Any:
    """Sends this process a signal when a step is logged, in the middle of its work."""

    def on_row(row: dict[str, Any]) -> None:
        if row["step"] == step:
            os.kill(os.getpid(), number)

    return on_row


@BOTH
def test_a_stopped_run_keeps_its_last_step(
    number: int, corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    config = config.override("train.checkpoint_every=1000")
    pretrain(corpus, tmp_path / "whole", config, device="cpu")
    with pytest.raises(KeyboardInterrupt, match="step 4 is saved"):
        pretrain(corpus, tmp_path / "run", config, device="cpu", on_row=stop_at(4, number))
    assert [path.name for path in checkpoints(tmp_path / "run" / "checkpoints")] == [
        "step-00000004"
    ]
    pretrain(corpus, tmp_path / "run", config, device="cpu", resume=True)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_run_that_is_done_anyway_ends_as_usual(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    pretrain(corpus, tmp_path, config, device="cpu", on_row=stop_at(12, signal.SIGINT))
    assert (tmp_path / "result.json").is_file()


def test_signals_stop_at_once_where_nothing_is_lost(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    def on_stage(name: str, share: float) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        pretrain(corpus, tmp_path, config, device="cpu", on_stage=on_stage)
    assert not (tmp_path / "result.json").exists()
    pretrain(corpus, tmp_path, config, device="cpu", resume=True)
    assert (tmp_path / "result.json").is_file() and losses(tmp_path)[-1][0] == 12


def test_the_second_signal_stops_at_once() -> None:
    with interrupts() as signals, signals.deferred():
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.is_requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_put_back_and_ignored_signals_stay_ignored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts() as signals:
            os.kill(os.getpid(), signal.SIGINT)
            assert not signals.is_requested
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_in_another_thread_leaves_signals_alone(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    small = config.override("train.max_steps=2")
    thread = threading.Thread(target=pretrain, args=(corpus, tmp_path / "run", small))
    thread.start()
    thread.join()
    assert (tmp_path / "run" / "result.json").is_file()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_the_command_that_is_printed_resumes_the_run(
    number: int, corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    path, run = tmp_path / "config.json", tmp_path / "a run"
    config = config.override("train.max_steps=1000000", "train.checkpoint_every=100000")
    path.write_text(json.dumps(config.to_dict()))
    command = [sys.executable, "-m", "elmokit", "pretrain", str(corpus), "-o", str(run)]
    command += ["--config", str(path), "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(read_log(run / "log.jsonl")) < 5:
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 130
    last = errors.splitlines()[-1]
    assert "interrupted; step " in last and "is saved; resume with: elmokit pretrain " in last
    step = losses(run)[-1][0]
    arguments = shlex.split(last.partition("resume with: elmokit ")[2])
    assert arguments[-3:] == ["--resume", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "elmokit", *arguments, "--set", f"train.max_steps={step + 2}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "held-out perplexity" in done.stdout
    assert [number for number, _ in losses(run)] == list(range(1, step + 3))
