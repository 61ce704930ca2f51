"""What users do with task runs: other seeds, layers, pipes, and runs that went wrong."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from task_data import write_data

SIZES = ("dim=6", "words.dim=6", "words.min_count=1", "maxout_pieces=2")
TINY = [part for size in SIZES for part in ("--set", size)]


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, Path]:
    """Files with tags and with labels."""
    return write_data(tmp_path)


def test_scores_of_all_seeds_or_one(run: Any, data: tuple[Path, Path], tmp_path: Path) -> None:
    out, options = tmp_path / "run", ("--elmo", "none", "--set", "train.epochs=1", *TINY)
    arguments = ("train", "classify", "--train", data[1], "--dev", data[1], "-o", out, *options)
    run(*arguments, "--seeds", 2, "-q")
    rows = [json.loads(run("evaluate", out, data[1], "--json", "--seed", n).stdout) for n in (1, 2)]
    assert [row["seed"] for row in rows] == [1, 2]
    every = json.loads(run("evaluate", out, data[1], "--json", "--all-seeds").stdout)
    assert {row.pop("text") for row in rows} == {str(data[1])}
    assert every["seeds"] == rows and every["metric"] == "accuracy"
    assert every["mean"] == pytest.approx(sum(row["accuracy"] for row in rows) / 2)
    assert " ± " in run("evaluate", out, data[1], "--all-seeds").stdout
    other = tmp_path / f"other{data[1].suffix}"
    other.write_bytes(data[1].read_bytes())
    several = run("evaluate", out, data[1], other, "--json", "--all-seeds").stdout.splitlines()
    assert [json.loads(line) for line in several] == [
        {**every, "text": str(path)} for path in (data[1], other)
    ]
    printed = run("evaluate", out, data[1], other, "--seed", 1).stdout.splitlines()
    assert printed[0] == str(data[1]) and str(other) in printed
    wrong = run("evaluate", out, data[1], "--all-seeds", "--seed", 1, code=1).stderr
    assert "one of the two" in wrong
    one = json.loads(run("evaluate", out, data[1], "--json", "--seed", 2).stdout)
    assert one.keys() == {"text", *rows[1]}
    (out / "seed-2").rename(tmp_path / "aside")
    alone = json.loads(run("evaluate", out, data[1], "--json", "--all-seeds").stdout)
    assert alone.keys() == every.keys() == {"text", "metric", "mean", "deviation", "seeds"}
    assert alone["seeds"] == rows[:1] and alone["deviation"] == 0
    (tmp_path / "aside").rename(out / "seed-2")
    # A seed alone does not make the record forget the other.
    said = run(*arguments, "--seeds", 1, "--resume", "-q").stdout
    assert "±" not in said
    summary = json.loads((out / "metrics.json").read_text())
    assert [seed["seed"] for seed in summary["seeds"]] == [1, 2]


@pytest.mark.parametrize("layers", ["0", "top"])
def test_a_layer_by_its_number(
    run: Any, model: Path, data: tuple[Path, Path], tmp_path: Path, layers: str
) -> None:
    arguments = ("train", "classify", "--train", data[1], "--dev", data[1], "-q", *TINY)
    arguments += ("--model", model, "--set", "train.epochs=1")
    run(*arguments, "-o", tmp_path / "run", "--elmo-layers", layers)
    card = json.loads((tmp_path / "run" / "task.json").read_text())
    assert card["config"]["elmo"]["layers"] == layers
    wrong = run(*arguments, "-o", tmp_path / "other", "--elmo-layers", 7, code=1).stderr
    assert "layers=7" in wrong and "0..2" in wrong


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
@pytest.mark.parametrize("kind", ["trees", "jsonl", "tsv"])
def test_labelled_data_from_a_pipe(run: Any, tmp_path: Path, kind: str) -> None:
    lines = {
        "trees": ["(3 (2 a) (4 fine))", "(1 (2 no) (0 good))"],
        "jsonl": ['{"text": "a fine film", "label": "3"}', '{"text": "no", "label": "1"}'],
        "tsv": ["label\ttext", "3\ta fine film", "1\tno good"],
    }[kind]
    path = tmp_path / "data.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "run"
    run("train", "classify", "--train", path, "--dev", path, "-o", out, "--elmo", "none", "-q",
        "--set", "train.epochs=1", "--set", "train.batch_size=2", *TINY)  # fmt: skip
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, path.read_bytes())
        piped = json.loads(run("evaluate", out, pipe, "--json").stdout)
    assert piped == json.loads(run("evaluate", out, path, "--json").stdout) | {"text": str(pipe)}


def test_a_run_that_failed_before_its_first_model_can_be_started_again(
    run: Any, data: tuple[Path, Path], tmp_path: Path
) -> None:
    arguments = ("train", "classify", "--train", data[1], "--dev", data[1], "-o", tmp_path / "run",
                 "--elmo", "none", "-q", "--set", "train.epochs=1", "--set",
                 "train.batch_size=4", *TINY)  # fmt: skip
    assert "the loss is" in run(*arguments, "--set", "train.lr=1e30", code=1).stderr
    assert "dev accuracy" in run(*arguments).stdout
    assert "--resume" in run(*arguments, code=1).stderr


def test_labels_that_were_never_learned_are_named(
    run: Any, data: tuple[Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("label\ttext\nbad\tno good\nsuperb\tfine\n", encoding="utf-8")
    result = run("train", "classify", "--train", data[1], "--dev", other, "-o", tmp_path / "run",
                 "--elmo", "none", "--set", "train.epochs=1", *TINY)  # fmt: skip
    assert "never learned: superb (the model knows bad, good, so-so)" in result.stderr


def test_predictions_before_a_bad_line_are_not_lost(run: Any, tmp_path: Path) -> None:
    rows = [{"premise": "a b", "hypothesis": "c", "label": label} for label in "xy"]
    path, out = tmp_path / "pairs.jsonl", tmp_path / "run"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run("train", "snli", "--train", path, "--dev", path, "-o", out, "--elmo", "none", "-q",
        "--set", "dim=4", "--set", "train.epochs=1", "--set", "words.min_count=1")  # fmt: skip
    (tmp_path / "in.txt").write_text("a b\tc\nnothing\n")
    result = run("predict", out, tmp_path / "in.txt", code=1)
    assert len(result.stdout.splitlines()) == 1
    assert "in.txt, line 2: " in result.stderr and "a tab" in result.stderr


def test_a_missing_library_is_named_before_the_training(
    run: Any, data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "seqeval.metrics.sequence_labeling", None)
    out = tmp_path / "run"
    result = run("train", "ner", "--train", data[0], "--dev", data[0], "-o", out, "--elmo", "none",
                 code=1)  # fmt: skip
    assert "elmokit[tasks]" in result.stderr and "epoch" not in result.stderr
    assert not out.exists()
