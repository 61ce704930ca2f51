"""Ctrl-C and SIGTERM in `elmokit train`: what was learned stays, and the command resumes it."""

import inspect
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from task_data import write_data

from elmokit.cli.train import train_cli

# Each step says so, and ends when the test says so.
SLOW = """
import os
from elmokit.tasks.runs.trainer import WeightAverage
update = WeightAverage.update
def slow(self):
    update(self)
    print("step", flush=True)
    os.read(0, 1)
WeightAverage.update = slow
from elmokit.cli import main
main()
"""
SETTINGS = [
    word
    for setting in (
        "lstm_dim=8", "lstm_layers=1", "words.dim=6", "words.char_filters=8", "train.batch_size=4",
        "train.epochs=3", "train.ema=0.9", "train.lr=0.01",
    )
    for word in ("--set", setting)
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with tags, in a folder whose name a shell would take apart."""
    folder = tmp_path_factory.mktemp("data") / "it's here"
    folder.mkdir()
    return write_data(folder)[0]


@pytest.fixture(scope="module")
def whole(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    subprocess.run([sys.executable, "-m", "elmokit", *arguments(model, data, out)], check=True)
    return out


def arguments(model: Path, data: Path, out: Path) -> list[str]:
    files = ["--train", str(data), "--dev", str(data), "--model", str(model), "-o", str(out)]
    return ["train", "ner", *files, *SETTINGS, "--device", "cpu", "--quiet"]


def facts(out: Path) -> Iterator[Any]:
    """Scores and log, without times."""
    metrics = json.loads((out / "metrics.json").read_text())
    for seed in metrics["seeds"]:
        del seed["seconds"]
    yield metrics
    for line in (out / "seed-1/log.jsonl").read_text().splitlines():
        row = json.loads(line)
        del row["seconds"]
        yield row


@pytest.mark.parametrize(
    ("number", "steps"),
    [(signal.SIGINT, 2), pytest.param(signal.SIGTERM, 8, marks=pytest.mark.long)],
)
def test_a_signal_keeps_what_was_learned(
    number: signal.Signals,
    steps: int,
    run: Any,
    model: Path,
    data: Path,
    whole: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments(model, data, out)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    for step in range(1, steps + 1):
        assert process.stdout.readline() == b"step\n"
        if step == steps:
            process.send_signal(number)
        process.stdin.write(b".")
        process.stdin.flush()
    output, errors = process.communicate()
    said = errors.decode()
    assert (process.returncode, output) == (130, b"")
    epoch, batch = divmod(steps - 1, 5)
    start = (
        f"elmokit: interrupted; seed 1, epoch {epoch + 1}, batch {batch + 1} of 5 is saved; "
        "resume with: "
    )
    assert said.startswith(start) and said.count("\n") == 1
    program, *words = shlex.split(said.removeprefix(start))
    assert program == "elmokit" and "--resume" in words
    refused = run(*arguments(model, data, out), code=1).stderr
    assert "already holds a task run; use --resume, replace it with --force" in refused
    done = subprocess.run(
        [sys.executable, "-m", "elmokit", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"{out}: dev f1" in done.stdout
    assert list(facts(out)) == list(facts(whole))
    for file in ("model", "checkpoint"):
        first, second = (load_file(f / f"seed-1/{file}.safetensors") for f in (out, whole))
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_command_has_every_option_that_was_given(
    run: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def interrupted(*args: Any, **kwargs: Any) -> None:
        calls.append((args, kwargs))
        raise KeyboardInterrupt("seed 1, epoch 1 is saved")

    monkeypatch.setattr("elmokit.tasks.runs.train.train_task", interrupted)
    monkeypatch.setattr("elmokit.tasks.runs.files.holds_run", lambda folder: True)
    (tmp_path / "a b.toml").write_text("lstm_dim = 7\n")
    given = {
        "train": ("--train", data),
        "dev": ("--dev", data),
        "model": ("--model", "my model"),
        "output": ("-o", tmp_path / "$HOME"),
        "elmo": ("--elmo", "both"),
        "elmo_layers": ("--elmo-layers", "top"),
        "static": ("--static", "-odd name.txt"),
        "tokenizer": ("--tokenizer", "whitespace"),
        "config": ("--config", tmp_path / "a b.toml"),
        "settings": ("--set", "train.lr=0.5", "--set", "words.dim=9"),
        "seeds": ("--seeds", 3),
        "finetune": ("--finetune-bilm",),
        "device": ("--device", "cpu"),
        "quiet": ("--quiet",),
        "verbose": ("--verbose",),
    }
    names = inspect.signature(train_cli).parameters.keys()
    of_one_task = {"head", "method", "train_target", "dev_target"}
    assert names == given.keys() | {"context", "task", "resume", "force"} | of_one_task
    words = [str(word) for option in given.values() for word in option]
    said = run("train", "ner", *words, code=130).stderr
    command = shlex.split(said.partition("resume with: ")[2])
    assert sorted(command) == sorted(["elmokit", "train", "ner", "--resume", *words])
    again = run(*command[1:], code=130).stderr
    assert again == said
    assert calls[0][1].pop("resume") is False and calls[1][1].pop("resume") is True
    assert calls[0][1].pop("on_stage") is not calls[1][1].pop("on_stage")
    assert calls[0] == calls[1]
    short = [str(word) for name in ("train", "dev", "model", "output") for word in given[name]]
    said = run("train", "classify", *short, "--head", "linear", code=130).stderr
    assert "--head linear" in said


def test_options_at_their_defaults_are_left_out(
    run: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.tasks.runs.train.train_task", interrupted)
    words = ["train", "ner", "--train", "a", "--dev", "b", "-o", str(tmp_path / "run")]
    said = run(*words, code=130).stderr
    assert said == "elmokit: interrupted; nothing was learned yet; run the same command again\n"
    monkeypatch.setattr("elmokit.tasks.runs.files.holds_run", lambda folder: True)
    said = run(*words, code=130).stderr
    command = shlex.join(["elmokit", *words, "--resume"])
    assert said == f"elmokit: interrupted; resume with: {command}\n"
