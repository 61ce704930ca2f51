"""Run folders: what is in them, that they repeat, go on, and find their biLM again."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from strategies import assert_refused, make_tiny
from task_data import TRAIN, WORDS, bcn_config, ner_config, write_data

from elmokit.files.arrays import load_tensors, save_tensors
from elmokit.tasks.runs.files import load_words, read_progress
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.runs.trainer import Row
from elmokit.tasks.srl import SrlConfig

SHORT = {"epochs": 3}
OLD_RUN = Path(__file__).parent / "old_run"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A biLM and files."""
    folder = tmp_path_factory.mktemp("data")
    make_tiny().save_pretrained(folder / "bilm")
    tagged, labelled = write_data(folder)
    (folder / "static.txt").write_text("met 1 0 0\nin 0 1 0\nparis 0 0 1\nBob 1 1 0\n")
    return {"bilm": folder / "bilm", "ner": tagged, "classify": labelled,
            "static": folder / "static.txt"}  # fmt: skip


def start(data: dict[str, Path], out: Path, config: Any, task: str = "ner", **more: Any) -> Any:
    model = None if config.elmo.place == "none" else data["bilm"]
    return train_task(task, data[task], data[task], model, out, config, device="cpu", **more)


def assert_equal_models(a: Path, b: Path) -> None:
    first, second = load_file(a / "model.safetensors"), load_file(b / "model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_folder_and_summary(data: dict[str, Path], tmp_path: Path) -> None:
    rows: list[Row] = []
    config = ner_config(SHORT, place="both")
    summary = start(data, tmp_path / "run", config, seeds=2, on_row=rows.append)
    assert [(row["seed"], row["epoch"]) for row in rows] == [
        (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3),
    ]  # fmt: skip
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == summary
    scores = [seed["dev"]["f1"] for seed in summary["seeds"]]
    assert summary["mean"] == pytest.approx(sum(scores) / 2)
    assert summary["deviation"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    card = json.loads((tmp_path / "run" / "task.json").read_text())
    assert card["config"]["elmo"]["place"] == "both" and card["config"]["tokenizer"] == "regex"
    assert card["facts"] == {"types": ["LOC", "PER"]} and card["train"]["examples"] == 20
    weights = json.loads((tmp_path / "run" / "weights.json").read_text())
    assert weights["seed-2"].keys() == {"input", "output"}
    assert (tmp_path / "run" / "weights.png").read_bytes()[:4] == b"\x89PNG"
    assert_refused(
        lambda: start(data, tmp_path / "run", config), "already holds a task run", "--resume"
    )


@pytest.mark.parametrize("task", ["ner", "classify"])
def test_a_loaded_model_scores_as_trained(task: str, data: dict[str, Path], tmp_path: Path) -> None:
    make = ner_config if task == "ner" else bcn_config
    summary = start(data, tmp_path / "run", make(SHORT), task, static=data["static"])
    trained = load_task(tmp_path / "run", device="cpu")
    metrics = trained.evaluate(data[task])
    assert metrics.pop("examples") == 20
    assert metrics == summary["seeds"][0]["dev"]
    assert trained.read.table is not None and trained.read.table.num_rows == 2 + 4
    assert "embedding.table.weight" not in load_file(tmp_path / "run/seed-1/model.safetensors")
    (_, nothing), (example, found) = trained.predict_texts(["", "Bob met Anna ."])
    assert nothing is None and example.tokens == ("Bob", "met", "Anna", ".")
    assert len(found) == (4 if task == "ner" else 2)


def test_seeds_repeat(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config(SHORT, dropout=0.5)
    for name in ("a", "b"):
        torch.manual_seed(len(name) + ord(name))  # chance around a run has no say in it
        start(data, tmp_path / name, config)
    assert_equal_models(tmp_path / "a/seed-1", tmp_path / "b/seed-1")
    other = replace(config, train=replace(config.train, seed=2))
    start(data, tmp_path / "c", other)
    first, third = (load_file(next((tmp_path / n).glob("seed-*/model.safetensors"))) for n in "ac")
    assert not torch.equal(first["scores.weight"], third["scores.weight"])


@pytest.mark.parametrize("finetune", [False, True])
def test_resumed_equals_unbroken(finetune: bool, data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 4, "halve_after": 1}, dropout=0.5, finetune=finetune)
    start(data, tmp_path / "whole", config, seeds=2)

    def interrupt(row: Row) -> None:
        if (row["seed"], row["epoch"]) == (2, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(data, tmp_path / "broken", config, seeds=2, on_row=interrupt)
    assert (tmp_path / "broken/seed-2/checkpoint.safetensors").is_file()
    rows: list[Row] = []
    start(data, tmp_path / "broken", config, seeds=2, resume=True, on_row=rows.append)
    assert [(row["seed"], row["epoch"]) for row in rows] == [(2, 3), (2, 4)]
    for seed in ("seed-1", "seed-2"):
        assert_equal_models(tmp_path / "whole" / seed, tmp_path / "broken" / seed)
        if finetune:
            assert_equal_models(
                tmp_path / "whole" / seed / "bilm", tmp_path / "broken" / seed / "bilm"
            )
        logs = [(tmp_path / n / seed / "log.jsonl").read_text() for n in ("whole", "broken")]
        losses = [[json.loads(line)["loss"] for line in log.splitlines()] for log in logs]
        assert losses[0] == losses[1] and len(losses[0]) == 4


@pytest.mark.parametrize("finetune", [False, True])
def test_more_epochs_equal_so_many_from_the_start(
    finetune: bool, data: dict[str, Path], tmp_path: Path
) -> None:
    config = ner_config({"epochs": 5, "halve_after": 1}, dropout=0.5, finetune=finetune)
    less = replace(config, train=replace(config.train, epochs=2))
    whole = start(data, tmp_path / "whole", config)
    start(data, tmp_path / "grown", less)
    rows: list[Row] = []
    grown = start(data, tmp_path / "grown", config, resume=True, on_row=rows.append)
    assert [row["epoch"] for row in rows] == [3, 4, 5]
    assert_equal_models(tmp_path / "whole/seed-1", tmp_path / "grown/seed-1")
    expected = {name: whole["seeds"][0][name] for name in ("dev", "mixes", "epoch", "epochs")}
    assert expected.items() <= grown["seeds"][0].items()
    assert grown["mean"] == whole["mean"]
    card = json.loads((tmp_path / "grown/task.json").read_text())
    assert card["config"]["train"]["epochs"] == 5
    assert_refused(
        lambda: start(data, tmp_path / "grown", less, resume=True), "train.epochs is", "grow"
    )


def test_finished_seeds_are_left_alone(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 50, "patience": 1, "lr": 1e-9}, place="none")
    start(data, tmp_path / "run", config)
    (tmp_path / "run/seed-1/checkpoint.safetensors").unlink()
    rows: list[Row] = []
    start(data, tmp_path / "run", config, resume=True, on_row=rows.append)
    assert not rows
    short = ner_config({"epochs": 1}, place="none")
    start(data, tmp_path / "short", short)
    (tmp_path / "short/seed-1/checkpoint.safetensors").unlink()
    longer = ner_config({"epochs": 2}, place="none")
    assert_refused(
        lambda: start(data, tmp_path / "short", longer, resume=True),
        "finished after epoch 1", "checkpoint.safetensors is gone",
    )  # fmt: skip
    start(data, tmp_path / "short", short, resume=True)


def test_finetuning_changes_the_bilm_of_the_run_only(data: dict[str, Path], tmp_path: Path) -> None:
    before = load_file(data["bilm"] / "model.safetensors")
    summary = start(data, tmp_path / "run", ner_config(SHORT, finetune=True))
    tuned = load_file(tmp_path / "run/seed-1/bilm/model.safetensors")
    after = load_file(data["bilm"] / "model.safetensors")
    name = "bilm.forward_lm.layers.0.bias"
    assert torch.equal(before[name], after[name]) and not torch.equal(before[name], tuned[name])
    metrics = load_task(tmp_path / "run", device="cpu").evaluate(data["ner"])
    assert metrics["f1"] == pytest.approx(summary["mean"], abs=0.02)


def test_resume_wants_the_same_run(data: dict[str, Path], tmp_path: Path) -> None:
    start(data, tmp_path / "run", ner_config({"epochs": 1}, place="none"))
    other = ner_config({"epochs": 1, "lr": 0.5}, place="none")
    assert_refused(
        lambda: start(data, tmp_path / "run", other, resume=True), " there and ", "task.json"
    )


def test_bilm_that_is_gone_or_another(data: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(data["bilm"], tmp_path / "bilm")
    moved = data | {"bilm": tmp_path / "bilm"}
    start(moved, tmp_path / "run", ner_config({"epochs": 1}))
    expected = load_task(tmp_path / "run", device="cpu").evaluate(data["ner"])
    shutil.rmtree(tmp_path / "bilm")
    assert_refused(lambda: load_task(tmp_path / "run"), str(tmp_path / "bilm"), "--model")
    found = load_task(tmp_path / "run", model=data["bilm"], device="cpu").evaluate(data["ner"])
    assert found == expected
    make_tiny(seed=5).save_pretrained(tmp_path / "bilm")
    assert_refused(lambda: load_task(tmp_path / "run"), "weights differ", "--model")


def test_fraction_draws_from_the_training_data_only(data: dict[str, Path], tmp_path: Path) -> None:
    start(data, tmp_path / "run", ner_config({"epochs": 1, "fraction": 0.25}, place="none"))
    card = json.loads((tmp_path / "run/task.json").read_text())
    assert (card["train"]["examples"], card["dev"]["examples"]) == (5, 20)


def test_early_stopping(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 50, "patience": 2, "lr": 1e-9}, place="none")
    summary = start(data, tmp_path / "run", config)
    assert (summary["seeds"][0]["epoch"], summary["seeds"][0]["epochs"]) == (1, 3)


def test_errors_name_file_and_line(data: dict[str, Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.conll"
    bad.write_text("Bob\tB-PER\nmet\tX\n")
    config = ner_config(place="none")
    assert_refused(
        lambda: train_task("ner", bad, bad, None, tmp_path / "run", config), "bad.conll", "line 2"
    )
    assert_refused(lambda: start(data, tmp_path / "x", config, "classify"), "ClassifyConfig")
    assert_refused(
        lambda: train_task("ner", bad, bad, None, tmp_path / "run", ner_config()), "--elmo none"
    )
    assert_refused(lambda: train_task("nre", bad, bad, None, tmp_path / "run"), "ner, classify")
    assert_refused(lambda: load_task(tmp_path), "no task run", "elmokit train")


def test_a_baseline_learns_where_a_model_with_elmo_would(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "elmokit.tasks.runs.train.find_device",
        lambda name: asked.append(name) or torch.device("cpu"),
    )
    config = ner_config({"epochs": 1}, place="none")
    for name in (None, "auto", "cuda:1"):
        train_task("ner", data["ner"], data["ner"], None, tmp_path / str(name), config, device=name)
    assert asked == [None, "auto", "cuda:1"]


def test_a_loss_that_is_not_a_number_ends_the_run(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 3, "lr": 1e30}, place="none")
    assert_refused(
        lambda: start(data, tmp_path / "run", config), "seed 1, epoch", "the loss is", "train.lr"
    )
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_words_that_are_no_line_of_a_file_are_unknown(tmp_path: Path) -> None:
    words = ["a\nb", "a\r", "\ud800", "came", "."]
    frame = {"pred": 3, "tags": ["B-ARG0", "O", "O", "B-V", "O"]}
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"words": words, "frames": [frame]}) + "\n", encoding="utf-8")
    config = SrlConfig(words=WORDS, train=replace(TRAIN, epochs=1), lstm_dim=4, lstm_layers=1)
    config = replace(config, elmo=replace(config.elmo, place="none"))
    train_task("srl", path, path, None, tmp_path / "run", config, device="cpu")
    assert load_task(tmp_path / "run", device="cpu").evaluate(path)["examples"] == 1
    assert (tmp_path / "run" / "words.txt").read_text(encoding="utf-8") == ".\ncame\n"


def test_only_the_file_that_was_split_is_split_again(
    data: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(bcn_config({"epochs": 1}, place="none"), held_out=0.4)
    start(data, tmp_path / "run", config, "classify")
    trained = load_task(tmp_path / "run", device="cpu")
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / data["classify"].name  # the same name, other texts
    lines = data["classify"].read_text(encoding="utf-8").splitlines()
    other.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n", encoding="utf-8")
    caplog.clear()
    assert trained.evaluate(other)["examples"] == 20 and not caplog.text
    copy = tmp_path / "copy.tsv"  # another name, the same texts
    shutil.copy(data["classify"], copy)
    assert 0 < trained.evaluate(copy)["examples"] < 20
    assert "is the training data" in caplog.text and "0.4" in caplog.text
    path = tmp_path / "run" / "task.json"  # as an older version wrote it
    card = json.loads(path.read_text())
    for side in ("train", "dev"):
        del card[side]["sha256"]
    path.write_text(json.dumps(card))
    trained = load_task(tmp_path / "run", device="cpu")
    assert trained.evaluate(other)["examples"] == 20
    assert 0 < trained.evaluate(copy)["examples"] < 20
    start(data, tmp_path / "run", config, "classify", resume=True)


def test_data_that_changed_are_not_those_of_the_run(data: dict[str, Path], tmp_path: Path) -> None:
    own = data | {"ner": tmp_path / "own.conll"}
    shutil.copy(data["ner"], own["ner"])
    config = ner_config({"epochs": 1}, place="none")
    start(own, tmp_path / "run", config)
    moved = own | {"ner": own["ner"].rename(tmp_path / "moved.conll")}
    longer = ner_config({"epochs": 2}, place="none")
    start(moved, tmp_path / "run", longer, resume=True)
    text = moved["ner"].read_text(encoding="utf-8")
    moved["ner"].write_text(text.replace("O", "B-PER", 1), encoding="utf-8")
    assert_refused(
        lambda: start(moved, tmp_path / "run", longer, resume=True), "train.sha256", " there and "
    )


def test_only_a_new_folder_or_a_run_is_written_to(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 1}, place="none")
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    for options in ({}, {"resume": True}, {"force": True}):
        assert_refused(
            lambda options=options: start(data, other, config, **options), "holds other files"
        )
    assert [path.name for path in other.iterdir()] == ["notes.txt"]
    run = tmp_path / "run"
    start(data, run, config, seeds=2)
    (run / "notes.txt").write_text("mine")
    assert_refused(lambda: start(data, run, config), "--resume", "--force")
    gone = data | {"ner": tmp_path / "gone"}
    assert_refused(lambda: start(gone, run, config, force=True), "gone")
    static = tmp_path / "no-vectors.txt"
    assert_refused(lambda: start(data, run, config, force=True, static=static), "no-vectors")
    assert (run / "seed-2").is_dir()  # a mistake costs nothing
    other_config = ner_config({"epochs": 1, "lr": 0.5}, place="none")
    start(data, run, other_config, force=True)
    assert (run / "notes.txt").is_file() and not (run / "seed-2").exists()


def test_a_lost_checkpoint_stops_the_run_and_changes_nothing(
    data: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    start(data, run, ner_config({"epochs": 1}, place="none"))
    (run / "seed-1" / "checkpoint.safetensors").unlink()
    (run / "seed-1" / "metrics.json").unlink()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    longer = ner_config({"epochs": 2}, place="none")
    assert_refused(lambda: start(data, run, longer, resume=True), "is gone", "copy")
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("task.json", "format_version", 99),
        ("task.json", "task", "parsing"),
        ("task.json", "task", 5),
        ("task.json", "config", {"lstm_dim": "wide"}),
        ("task.json", "config", []),
        ("task.json", "config", {"lstm_layers": 65_536}),
        ("task.json", "config", {"lstm_dim": 65_536}),
        ("task.json", "facts", None),
        ("task.json", "facts", {}),
        ("task.json", "facts", {"types": 3}),
        ("task.json", "facts", {"types": [3]}),
        ("task.json", "train", {"path": 3}),
        ("task.json", "model", "en"),
        ("metrics.json", "best_seed", "first"),
    ],
)
def test_a_wrong_field_of_a_run_is_told_by_its_name(
    name: str, field: str, value: Any, data: dict[str, Path], tmp_path: Path
) -> None:
    start(data, tmp_path / "run", ner_config({"epochs": 1}, place="none"))
    path = tmp_path / "run" / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    mention = "task.json" if field == "config" else field
    assert_refused(lambda: load_task(tmp_path / "run", device="cpu"), name, mention)


MIX = {"weights": [0.5, 0.3, 0.2], "gamma": 1.0}


@pytest.mark.parametrize(
    ("field", "value", "mention"),
    [
        ("dev", None, "dev"),
        ("dev", {}, "dev.f1"),
        ("dev", {"f1": "high"}, "dev.f1"),
        ("mixes", None, "mixes"),
        ("mixes", {}, "mixes"),
        ("mixes", {"output": MIX}, "mixes"),
        ("mixes", {"input": {"weights": [], "gamma": 1.0}}, "mixes.input.weights"),
        ("mixes", {"input": {"weights": ["a"], "gamma": 1.0}}, "mixes.input.weights"),
        ("mixes", {"input": {"weights": [1.0], "gamma": 1.0}}, "mixes.input.weights"),
        ("mixes", {"input": MIX | {"gamma": None}}, "mixes.input.gamma"),
        ("epochs", "three", "epochs"),
    ],
)
@pytest.mark.parametrize("name", ["metrics.json", "best.json"])
def test_a_wrong_result_of_a_seed_is_told_by_its_field(
    name: str, field: str, value: Any, mention: str, data: dict[str, Path], tmp_path: Path
) -> None:
    if name == "best.json" and field == "epochs":
        pytest.skip("best.json has no epochs")
    run = tmp_path / "run"
    config = ner_config({"epochs": 1})
    start(data, run, config)
    path = run / "seed-1" / name
    damaged = json.loads(path.read_text()) | {field: value}
    path.write_text(json.dumps({k: v for k, v in damaged.items() if v is not None}))
    if name == "best.json":
        (run / "seed-1" / "metrics.json").unlink()
    assert_refused(lambda: start(data, run, config, resume=True), name, mention)


@pytest.mark.parametrize(
    "tensors",
    [
        {"other": torch.zeros(2, 3)},
        {"vectors": torch.zeros(2)},
        {"vectors": torch.zeros(())},
        {"vectors": torch.zeros(2, 3, dtype=torch.bfloat16)},
        {"vectors": torch.zeros(1, 3)},
    ],
)
def test_wrong_word_vectors_of_a_run_are_refused(
    tensors: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")
    save_tensors(tmp_path / "words.safetensors", tensors)
    assert_refused(lambda: load_words(tmp_path), "words.safetensors", "vectors")


def test_a_folder_that_is_no_seed_is_no_model(data: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    start(data, run, ner_config({"epochs": 1}, place="none"))
    (run / "metrics.json").unlink()
    shutil.copytree(run / "seed-1", run / "seed-0-copy")
    shutil.copytree(run / "seed-1", run / "seed-\N{SUPERSCRIPT TWO}")
    assert load_task(run, device="cpu").seed == 1


@pytest.mark.parametrize(
    ("state", "tensors", "mention"),
    [
        ({"epoch": None}, {}, "epoch is missing"),
        ({"best": float("nan")}, {}, "best=nan"),
        ({"batch": 1}, {}, "random.cpu"),
        ({"batch": 1}, {"random.cpu": torch.zeros(5056)}, "random.cpu"),
        ({"batch": 1}, {"random.cpu": torch.zeros(3, dtype=torch.uint8)}, "random.cpu"),
        ({}, {"optimizer.0.exp_avg": torch.zeros(3)}, "optimizer.0.exp_avg"),
        ({}, {"optimizer.99.exp_avg": torch.zeros(3)}, "optimizer.99.exp_avg"),
    ],
)
def test_a_wrong_checkpoint_stops_the_run_and_changes_nothing(
    state: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    mention: str,
    data: dict[str, Path],
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    start(data, run, ner_config({"epochs": 1}, place="none"))
    path = run / "seed-1" / "checkpoint.safetensors"
    values = asdict(read_progress(path)) | state
    values = {name: value for name, value in values.items() if value is not None}
    save_tensors(path, load_tensors(path) | tensors, {"state": json.dumps(values)})
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    longer = ner_config({"epochs": 2}, place="none")
    refused = (path.name, mention)
    assert_refused(lambda: start(data, run, longer, resume=True), *refused)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_run_of_an_older_version_resumes_and_predicts(tmp_path: Path) -> None:
    """`old_run` was written by elmokit 0.1.0 of November 2026, at commit 2dd319b."""
    run, data = tmp_path / "run", OLD_RUN / "tags.conll"
    shutil.copytree(OLD_RUN / "run", run)
    assert read_progress(run / "seed-1" / "checkpoint.safetensors").epoch == 1
    config = ner_config(SHORT, place="none")
    train_task("ner", data, data, None, run, config, device="cpu", resume=True)
    logs = [(folder / "seed-1" / "log.jsonl").read_text() for folder in (run, OLD_RUN / "run")]
    assert logs[0].startswith(logs[1]) and len(logs[0].splitlines()) == 3
    ((_, tags),) = load_task(run, device="cpu").predict_texts(["Bob met Anna ."])
    assert len(tags) == 4
