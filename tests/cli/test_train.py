"""`elmokit train`, `evaluate` and `predict`, from files to predictions by commands alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from task_data import write_data

SMALL = """
lstm_dim = 12
lstm_layers = 1
dropout = 0.0

[elmo]
dropout = 0.0

[words]
dim = 8
min_count = 1
char_filters = 16
dropout = 0.0

[train]
lr = 0.01
batch_size = 8
epochs = 25
"""


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, Path]:
    """Files with tags and with labels."""
    return write_data(tmp_path)


def test_ner_from_files_to_tags(
    run: Any, model: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    out = tmp_path / "run"
    arguments = ("train", "ner", "--train", data[0], "--dev", data[0], "--model", model, "-o", out)
    result = run(*arguments, "--config", tmp_path / "small.toml", "--elmo", "both")
    assert f"{out}: dev f1 1.0000\n" == result.stdout
    assert "seed 1  epoch 1  loss" in result.stderr and "(best)" in result.stderr
    card = json.loads((out / "task.json").read_text())
    assert card["config"]["lstm_dim"] == 12 and card["config"]["elmo"]["place"] == "both"
    metrics = json.loads(run("evaluate", out, data[0], "--json").stdout)
    assert metrics["f1"] == 1 and metrics["examples"] == 20
    assert metrics["labels"].keys() == {"LOC", "PER"}
    assert "f1            1.0000\n" in run("evaluate", out, data[0]).stdout
    assert "is a task run" in run("evaluate", out, data[0], "--streams", 2, code=1).stderr
    (tmp_path / "in.txt").write_text("Bob met Bob in Rome .\n\nBob\n", encoding="utf-8")
    printed = run("predict", out, tmp_path / "in.txt").stdout
    first, second = printed.split("\n\n\n")
    assert [line.split("\t")[0] for line in first.split("\n")] == [
        "Bob", "met", "Bob", "in", "Rome", ".",
    ]  # fmt: skip
    assert first.split("\n")[0] == "Bob\tB-PER" and second == "Bob\tB-PER\n\n"
    rows = [json.loads(line) for line in
            run("predict", out, tmp_path / "in.txt", "--json").stdout.splitlines()]  # fmt: skip
    assert rows[0]["tags"][0] == "B-PER" and rows[2]["tokens"] == ["Bob"]
    assert rows[1] == {"task": "ner", "text": "", "entities": [], "tokens": [], "tags": []}
    refused = run(*arguments, code=1)
    assert "--resume" in refused.stderr and refused.stderr.count("\n") == 1
    assert "1.0000" in run(*arguments, "--config", tmp_path / "small.toml", "--elmo", "both",
                           "--resume", "-q").stdout  # fmt: skip


def test_classify_baseline_needs_no_model(
    run: Any, data: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    sizes = ("dim=6", "train.epochs=2", "words.dim=6", "maxout_pieces=2")
    options = [part for size in sizes for part in ("--set", size)]
    result = run(
        "train", "classify", "--train", data[1], "--dev", data[1], "-o", out, "--elmo", "none",
        "--seeds", 2, "-q", *options,
    )  # fmt: skip
    assert "dev accuracy" in result.stdout and result.stderr == ""
    summary = json.loads((out / "metrics.json").read_text())
    best = max(seed["dev"]["accuracy"] for seed in summary["seeds"])
    metrics = json.loads(run("evaluate", out, data[1], "--json").stdout)
    assert (metrics["accuracy"], metrics["examples"]) == (best, 20)
    assert metrics["labels"].keys() == {"good", "bad", "so-so"}
    (tmp_path / "in.txt").write_text("a fine film !\n", encoding="utf-8")
    label, *shares = run("predict", out, tmp_path / "in.txt").stdout.rstrip("\n").split("\t")
    values = dict(share.split("=") for share in shares)
    assert values.keys() == {"good", "bad", "so-so"} and label in values
    row = json.loads(run("predict", out, tmp_path / "in.txt", "--json").stdout)
    assert row["label"] == label and sum(row["probabilities"].values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ((), "--elmo none"),
        (("--elmo", "inside"), "place='inside'"),
        (("--elmo-layers", "all"), "layers='all'"),
        (("--set", "lstm=3"), "lstm_dim"),
        (("--elmo", "none", "--static", "no.vec"), "no.vec"),
        (("--elmo", "none", "--finetune-bilm"), "no biLM to train"),
        (("--elmo", "none", "--device", "nowhere"), "device='nowhere'"),
    ],
)
def test_what_cannot_work(
    run: Any, data: tuple[Path, Path], tmp_path: Path, options: tuple[str, ...], mention: str
) -> None:
    out = tmp_path / "run"
    arguments = ("train", "ner", "--train", data[0], "--dev", data[0], "-o", out)
    result = run(*arguments, *options, code=1)
    assert mention in result.stderr and result.stderr.count("\n") == 1 and result.stdout == ""


def test_no_such_task_run_or_file(run: Any, data: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    wrong = run("train", "nre", "--train", data[0], "--dev", data[0], "-o", out, code=1)
    assert "expected one of ner, classify" in wrong.stderr
    assert "no task run" in run("predict", tmp_path, data[0], code=1).stderr
    lost = run("train", "ner", "--train", "no.conll", "--dev", data[0], "-o", out, "--elmo", "none",
               code=1)  # fmt: skip
    assert "no.conll" in lost.stderr and not (out / "task.json").exists()


def test_the_linear_head_from_files_to_labels(
    run: Any, model: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    files = ("--train", data[1], "--dev", data[1], "--model", model, "-o", out)
    result = run("train", "classify", *files, "--head", "linear")
    assert result.stdout.startswith(f"{out}: dev accuracy ")
    assert "epoch 1  loss" in result.stderr and "epoch 2" not in result.stderr
    assert "--head" not in result.stderr
    (tmp_path / "in.txt").write_text("a fine 영화 !\n", encoding="utf-8")
    assert run("predict", out, tmp_path / "in.txt").stdout.startswith("good\t")
    assert run("train", "classify", *files, "--set", "head=linear", "--resume").stdout == (
        result.stdout
    )
    assert "--head" in run("train", "ner", *files, "--head", "linear", code=1).stderr


def test_the_network_suggests_the_linear_head_on_few_texts(
    run: Any, model: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    files = ("--train", data[1], "--dev", data[1], "--model", model)
    small = ("--set", "train.epochs=1", "--set", "dim=4", "-o")
    said = run("train", "classify", *files, *small, tmp_path / "loud").stderr
    (advice,) = [line for line in said.splitlines() if "--head linear" in line]
    assert "20 texts" in advice
    assert run("train", "classify", *files, *small, tmp_path / "quiet", "-q").stderr == ""
