"""What a run resumes from: nothing is lost to a damaged, unreadable or older checkpoint."""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strategies import assert_refused
from torch import Tensor

from elmokit import Elmo
from elmokit.corpus.corpus import Corpus, PrepareConfig
from elmokit.corpus.prepare import prepare
from elmokit.errors import FileError, FormatError
from elmokit.files.arrays import load_tensors, save_tensors
from elmokit.pretraining import checkpoint as checkpoint_module
from elmokit.pretraining import run as run_module
from elmokit.pretraining.checkpoint import (
    Progress,
    State,
    checkpoints,
    load_state,
    newest_progress,
    save_state,
)
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.evaluate import held_out_perplexity
from elmokit.pretraining.loop import Row
from elmokit.pretraining.records import RunLog, read_log, run_status
from elmokit.pretraining.run import pretrain
from elmokit.pretraining.setup import held_out_batches

OLD_RUN = Path(__file__).parent / "old_run"


@pytest.fixture
def run(corpus: Path, config: PretrainConfig, tmp_path: Path) -> Path:
    """A run with checkpoints at steps 5 and 10."""
    pretrain(corpus, tmp_path / "run", config.override("train.max_steps=10"), device="cpu")
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def change_progress(run: Path, at: int, **changes: Any) -> None:
    path = run / "checkpoints" / f"step-{at:08d}" / "state.json"
    values = json.loads(path.read_text())
    values["progress"] |= changes
    path.write_text(json.dumps(values))


def row(**changes: float) -> str:
    """A line of a log."""
    values = {"step": 1, "tokens": 20, "epochs": 0.1, "loss": 1.9, "seconds": 0.1, "share": 0.2}
    return json.dumps(values | {"tokens_per_s": 200.0} | changes)


def tear(run: Path, step: int) -> None:
    weights = run / "checkpoints" / f"step-{step:08d}" / "state.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def refuse_to_resume(corpus: Path, run: Path, config: PretrainConfig, *mentions: str) -> None:
    before = contents(run)
    longer = config.override("train.max_steps=20")
    assert_refused(lambda: pretrain(corpus, run, longer, device="cpu", resume=True), *mentions)
    assert contents(run) == before


def test_checkpoints_are_also_written_by_time(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    often = config.override(
        "train.checkpoint_every=1000", "train.checkpoint_minutes=1e-9", "train.max_steps=4"
    )
    pretrain(corpus, tmp_path, often, device="cpu")
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == [
        "step-00000003",
        "step-00000004",
    ]


def test_damaged_checkpoints_stop_the_run_and_change_nothing(
    corpus: Path, config: PretrainConfig, run: Path
) -> None:
    tear(run, 5)
    tear(run, 10)
    refuse_to_resume(corpus, run, config, "torn", "new folder")
    for path in checkpoints(run / "checkpoints"):
        (path / "state.json").write_text("{")
    refuse_to_resume(corpus, run, config, "state.json", "damaged")
    for path in checkpoints(run / "checkpoints"):
        (path / "state.json").unlink()
    refuse_to_resume(corpus, run, config, "state.json is missing")


def test_checkpoints_that_are_gone_stop_the_run_and_change_nothing(
    corpus: Path, config: PretrainConfig, run: Path
) -> None:
    shutil.rmtree(run / "checkpoints")
    refuse_to_resume(corpus, run, config, "are gone", "copy")
    record = json.loads((run / "run.json").read_text())
    del record["has_checkpoint"]  # as an older version wrote it
    (run / "run.json").write_text(json.dumps(record))
    refuse_to_resume(corpus, run, config, "are gone")


FIELDS = [
    ("run.json", "fingerprint", 5),
    ("run.json", "fingerprint", None),
    ("run.json", "corpus", []),
    ("run.json", "source", 3),
    ("run.json", "config", "small"),
    ("run.json", "config", {"train": {"lr": "fast"}}),
    ("run.json", "config", {"future": 1}),
    ("run.json", "has_checkpoint", "yes"),
    ("run.json", "vectors", {"file": 1}),
    ("result.json", "step", "last"),
]


@pytest.mark.parametrize(("name", "field", "value"), FIELDS)
def test_a_wrong_field_is_told_by_its_name(
    name: str, field: str, value: Any, corpus: Path, config: PretrainConfig, run: Path
) -> None:
    values = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps(values | {field: value}))
    assert_refused(lambda: run_status(run), name, field)
    if name == "run.json":
        refuse_to_resume(corpus, run, config, name, field)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": -1}, {"step": "5"}, {"step": 0}, {"tokens": 1.5}, {"epochs": None}, {"place": []},
        {"place": {}}, {"place": {"epoch": 0, "lanes": [1]}}, {"best": "low"}, {"is_done": 1},
    ],
)  # fmt: skip
def test_a_wrong_state_stops_the_run_and_changes_nothing(
    changes: dict[str, Any], corpus: Path, config: PretrainConfig, run: Path
) -> None:
    for step in (5, 10):
        change_progress(run, step, **changes)
    refuse_to_resume(corpus, run, config, "checkpoints")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimizer.0.exp_avg", torch.zeros(3)),
        ("optimizer.0.step", torch.zeros(3)),
        ("optimizer.99.step", torch.zeros(())),
        ("lanes.h", torch.zeros(2, 2, 1, 1)),
        ("lanes.c", None),
        ("lanes.h", None),
        ("optimizer.", None),  # all of them
    ],
)
def test_a_tensor_that_does_not_fit_stops_the_run_and_changes_nothing(
    name: str, value: Tensor | None, corpus: Path, config: PretrainConfig, run: Path
) -> None:
    for path in checkpoints(run / "checkpoints"):
        weights, record = path / "state.safetensors", path / "state.json"
        tensors = {n: t for n, t in load_tensors(weights).items() if not n.startswith(name)}
        save_tensors(weights, tensors if value is None else tensors | {name: value})
        values = json.loads(record.read_text()) | {"bytes": weights.stat().st_size}
        record.write_text(json.dumps(values))
    refuse_to_resume(corpus, run, config, "does not fit this run", name[:5])


@pytest.mark.parametrize(
    "line", ["nonsense", "[1]", '{"step": 1}', '{"step": "a", "tokens": 1, "loss": 1}', "\xff",
             '{"step": 1, "tokens": 1, "loss": {}}', "[" * 100_000,
             '{"step": 1, "tokens": 1, "loss": 1.0}',
             row(seconds=float("nan")), row(eta_seconds=float("inf")), row(valid_mean=2.0)]
)  # fmt: skip
def test_a_damaged_log_is_told_by_its_line(
    line: str, corpus: Path, config: PretrainConfig, run: Path
) -> None:
    rows = (run / "log.jsonl").read_text().splitlines()
    (run / "log.jsonl").write_text("\n".join([rows[0], line, *rows[1:]]) + "\n")
    refuse_to_resume(corpus, run, config, "log.jsonl, line 2")
    assert_refused(lambda: run_status(run), "log.jsonl, line 2")


def test_a_run_that_ended_by_patience_is_finished(
    corpus: Path, config: PretrainConfig, tmp_path: Path, wreck_before: Callable[[int], None]
) -> None:
    wreck_before(3)
    patient = config.override("train.evaluate_every=1", "train.patience=2")
    pretrain(corpus, tmp_path, patient, device="cpu")
    status = run_status(tmp_path)
    assert status["is_finished"] and status["share"] < 1


def test_a_run_that_continued_a_model_resumes_without_it(
    corpus: Path, config: PretrainConfig, run: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(run, source)
    for name in ("whole", "broken"):
        longer = config.override(f"train.max_steps={12 if name == 'whole' else 7}")
        pretrain(corpus, tmp_path / name, longer, source=str(source), device="cpu")
    shutil.rmtree(source)
    assert_refused(
        lambda: pretrain(corpus, tmp_path / "broken", config, source=str(run), resume=True),
        "without --from",
    )
    pretrain(corpus, tmp_path / "broken", config, device="cpu", resume=True)
    rows = [read_log(tmp_path / name / "log.jsonl") for name in ("whole", "broken")]
    assert [r["step"] for r in rows[0]] == [r["step"] for r in rows[1]]
    # Until the cool-down of the shorter one, both are the same run.
    assert [r["loss"] for r in rows[0][:4]] == [r["loss"] for r in rows[1][:4]]


def test_a_run_from_a_model_logs_what_that_knows_once(
    corpus: Path, config: PretrainConfig, run: Path, tmp_path: Path
) -> None:
    rows: list[Row] = []
    out = tmp_path / "tuned"
    short = config.override("train.max_steps=2", "train.evaluate_every=2")
    pretrain(corpus, out, short, source=str(run), device="cpu", on_row=rows.append)
    start, *rest = read_log(out / "log.jsonl")
    assert start["step"] == start["tokens"] == 0 and rows[0]["step"] == 0
    # The vocabulary is the same, so this is what the source itself gives.
    text = Corpus.open(corpus)
    held_out = held_out_batches(text.valid, config.train.evaluate_tokens)
    source = Elmo.from_pretrained(run, device="cpu")
    expected = held_out_perplexity(source, held_out, text.words)
    assert start["valid_mean"] == pytest.approx(expected.mean, rel=1e-4)
    assert start["loss"] == pytest.approx(np.log(start["valid_mean"]))
    assert [row["step"] for row in rest] == [1, 2]
    status = run_status(out)
    assert status["start"]["mean"] == start["valid_mean"] and status["best"]["step"] == 2
    pretrain(corpus, out, short.override("train.max_steps=3"), device="cpu", resume=True)
    assert [row["step"] for row in read_log(out / "log.jsonl")] == [0, 1, 2, 3]
    assert read_log(run / "log.jsonl")[0]["step"] == 1 and run_status(run)["start"] is None


def test_a_run_that_died_before_its_first_checkpoint_has_one_start(
    corpus: Path, config: PretrainConfig, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "tuned"

    def stop(row: Row) -> None:
        raise RuntimeError("the power failed")

    with pytest.raises(RuntimeError, match="power"):
        pretrain(corpus, out, config, source=str(run), device="cpu", on_row=stop)
    assert [row["step"] for row in read_log(out / "log.jsonl")] == [0]
    pretrain(corpus, out, config.override("train.max_steps=1"), device="cpu", resume=True)
    assert [row["step"] for row in read_log(out / "log.jsonl")] == [0, 1]


def test_only_a_new_folder_or_a_run_is_written_to(
    corpus: Path, config: PretrainConfig, run: Path, tmp_path: Path
) -> None:
    short = config.override("train.max_steps=2")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    for options in ({}, {"resume": True}, {"force": True}):
        assert_refused(
            lambda options=options: pretrain(corpus, other, short, **options), "holds other files"
        )
    assert [path.name for path in other.iterdir()] == ["config.json"]
    assert_refused(lambda: pretrain(corpus, "", short), "empty")
    assert_refused(lambda: pretrain(corpus, run, short), "--resume", "--force")
    assert_refused(lambda: pretrain(corpus, run, short, resume=True, force=True), "choose one")
    (other / "config.json").rename(tmp_path / "file")
    assert_refused(lambda: pretrain(corpus, tmp_path / "file", short), "in the way")


def test_force_replaces_a_run_and_nothing_else(
    corpus: Path, config: PretrainConfig, run: Path
) -> None:
    (run / "notes.txt").write_text("mine")
    short = config.override("train.max_steps=2", "model.lstm.dim=32")
    assert_refused(lambda: pretrain(corpus / "no", run, short, force=True), "no such folder")
    assert len(read_log(run / "log.jsonl")) == 10  # a mistake costs nothing
    elmo = pretrain(corpus, run, short, device="cpu", force=True)
    assert elmo.config.lstm.dim == 32 and len(read_log(run / "log.jsonl")) == 2
    assert [path.name for path in checkpoints(run / "checkpoints")] == ["step-00000002"]
    assert (run / "notes.txt").read_text() == "mine"


def test_a_forced_run_that_is_killed_between_the_old_and_the_new_can_be_given_again(
    corpus: Path, config: PretrainConfig, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: object) -> None:
        raise KeyboardInterrupt

    short = config.override("train.max_steps=2")
    with monkeypatch.context() as patched:
        patched.setattr(run_module._Run, "_write_record", killed)
        with pytest.raises(KeyboardInterrupt):
            pretrain(corpus, run, short, device="cpu", force=True)
    assert not (run / "log.jsonl").exists() and (run / "README.md").exists()
    pretrain(corpus, run, short, device="cpu", force=True)
    assert len(read_log(run / "log.jsonl")) == 2


def test_a_checkpoint_of_a_newer_version_stops_the_run_and_changes_nothing(
    corpus: Path, config: PretrainConfig, run: Path
) -> None:
    change_progress(run, 10, warp_factor=9)  # step 5 is whole, but older
    refuse_to_resume(corpus, run, config, "step-00000010", "newer elmokit", "warp_factor")


def test_a_checkpoint_that_may_not_be_read_stops_the_run_and_changes_nothing(
    corpus: Path, config: PretrainConfig, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, advice: str) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(checkpoint_module, "load_tensors", denied)
    refuse_to_resume(corpus, run, config, "step-00000010", "Permission denied")


@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
def test_a_pipe_in_place_of_a_checkpoint_is_not_waited_for(
    name: str, corpus: Path, config: PretrainConfig, run: Path
) -> None:
    for step in (5, 10):
        path = run / "checkpoints" / f"step-{step:08d}" / name
        path.unlink()
        os.mkfifo(path)
    refuse_to_resume(corpus, run, config, name)


def test_a_pipe_in_place_of_the_log_is_not_waited_for(
    corpus: Path, config: PretrainConfig, run: Path
) -> None:
    (run / "log.jsonl").unlink()
    os.mkfifo(run / "log.jsonl")
    refuse_to_resume(corpus, run, config, "log.jsonl is a pipe")


@pytest.mark.parametrize("target", ["/dev/zero", "README.md"])
def test_a_model_card_that_is_no_file_is_left_alone(
    target: str, corpus: Path, config: PretrainConfig, run: Path
) -> None:
    (run / "README.md").unlink()
    (run / "README.md").symlink_to(target)
    longer = config.override("train.max_steps=11")
    pretrain(corpus, run, longer, device="cpu", resume=True)
    assert (run / "README.md").is_symlink()


def test_a_log_on_a_full_disk_names_the_file(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0)
    log.file.close()
    log.file = Path("/dev/full").open("a")  # noqa: SIM115
    assert_refused(lambda: log.write({"step": 1}), "log.jsonl", "No space left")
    assert_refused(log.close, "log.jsonl", "No space left")


def test_a_torn_checkpoint_is_passed_over_with_a_warning(
    corpus: Path, config: PretrainConfig, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tear(run, 10)
    assert run_status(run)["checkpoint"]["step"] == 5
    pretrain(corpus, run, config.override("train.max_steps=12"), device="cpu", resume=True)
    assert "torn" in caplog.text and "going back to step-00000005" in caplog.text
    assert [row["step"] for row in read_log(run / "log.jsonl")] == list(range(1, 13))


def test_only_whole_checkpoints_count_as_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        save_state(tmp_path, State(Progress(step=step), {}))
        if step == 3:
            tear_folder = tmp_path / "step-00000003" / "state.json"
            tear_folder.write_text("{")
    assert [path.name[-1] for path in checkpoints(tmp_path)] == ["2", "3", "4"]
    save_state(tmp_path, State(Progress(step=5), {}))
    assert [path.name[-1] for path in checkpoints(tmp_path)] == ["4", "5"]
    state = load_state(tmp_path)
    assert state is not None and state.progress.step == 5


def test_checkpoints_without_a_readable_header_do_not_count_as_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_state(tmp_path, State(Progress(step=step), {"x": torch.ones(9)}))
        if step == 2:
            weights = tmp_path / "step-00000002" / "state.safetensors"
            weights.write_bytes(b"\xff" * weights.stat().st_size)
    assert [path.name[-1] for path in checkpoints(tmp_path)] == ["1", "2", "3"]
    shutil.rmtree(tmp_path / "step-00000003")
    progress, state = newest_progress(tmp_path), load_state(tmp_path)
    assert state is not None and progress == state.progress == Progress(step=1)


def test_a_folder_that_may_not_be_read_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_state(tmp_path / "nowhere") is None

    def denied(path: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    with pytest.raises(FileError, match="Permission denied"):
        load_state(tmp_path)


def test_a_run_killed_before_its_first_checkpoint_starts_again_and_says_so(
    corpus: Path, config: PretrainConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def die(row: dict[str, Any]) -> None:
        if row["step"] == 3:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        pretrain(corpus, tmp_path, config, device="cpu", on_row=die)
    assert run_status(tmp_path)["checkpoint"] is None
    caplog.set_level(logging.WARNING)
    pretrain(corpus, tmp_path, config, device="cpu", resume=True)
    assert "starting at step 0" in caplog.text
    assert [row["step"] for row in read_log(tmp_path / "log.jsonl")] == list(range(1, 13))


def test_progress_of_an_older_version_gets_defaults() -> None:
    assert Progress.from_dict({"step": 3, "tokens": 5}) == Progress(step=3, tokens=5)


def test_a_run_of_an_older_version_resumes(tmp_path: Path) -> None:
    """`old_run` was written by elmokit 0.1.0 of November 2026, at commit 1359c67."""
    reading = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
    prepare([OLD_RUN / "text.txt"], tmp_path / "corpus", reading, workers=1)
    run = tmp_path / "run"
    shutil.copytree(OLD_RUN / "run", run)
    status = run_status(run)
    assert status["checkpoint"] == {"step": 6, "tokens": 120}
    saved = json.loads((run / "run.json").read_text())["config"]
    config = PretrainConfig.from_dict(saved).override("train.max_steps=9")
    pretrain(tmp_path / "corpus", run, config, device="cpu", resume=True)
    rows = read_log(run / "log.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 10))
    assert rows[:6] == read_log(OLD_RUN / "run" / "log.jsonl")


def test_status_says_why_a_run_cannot_be_resumed(run: Path) -> None:
    tear(run, 5)
    tear(run, 10)
    status = run_status(run)
    assert status["checkpoint"] is None and "torn" in status["checkpoint_problem"]
    with pytest.raises(FormatError):
        load_state(run / "checkpoints")
