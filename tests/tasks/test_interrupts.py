"""A task run that is stopped in the middle of an epoch ends as if it had not been."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from coref_data import config as coref_config
from coref_data import write_stories
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from squad_data import squad_config, write_squad
from strategies import assert_refused, make_tiny
from task_data import WORDS, bcn_config, ner_config, write_data

from elmokit.tasks.config import TrainerConfig
from elmokit.tasks.ner import NerTagger
from elmokit.tasks.parts.bilm import FrozenLayers
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.seed import SeedRun
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.runs.trainer import Row, WeightAverage, random_tensors, restore_random
from elmokit.tasks.snli import SnliConfig
from elmokit.tasks.srl import SrlConfig

OLD_FIELDS = ("epoch", "best", "best_epoch", "since_best", "halvings", "seconds")
CHECKPOINT = "seed-1/checkpoint.safetensors"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A biLM and a file for each task."""
    folder = tmp_path_factory.mktemp("data")
    make_tiny().save_pretrained(folder / "bilm")
    tagged, labelled = write_data(folder)
    pairs = [f"a b c\td e\t{'yes' if i % 2 else 'no'}" for i in range(20)]
    (folder / "pairs.tsv").write_text("\n".join(["premise\thypothesis\tlabel", *pairs]))
    frame = {"words": ["She", "came", "."], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "O"]}]}
    (folder / "frames.jsonl").write_text("\n".join([json.dumps(frame)] * 20))
    return {
        "bilm": folder / "bilm",
        "ner": tagged,
        "classify": labelled,
        "squad": write_squad(folder),
        "snli": folder / "pairs.tsv",
        "srl": folder / "frames.jsonl",
        "coref": write_stories(folder / "stories.conll"),
    }


def small(task: str) -> Any:
    """A small model of each task, with dropout wherever there can be."""
    made = {
        "ner": ner_config(),
        "classify": bcn_config(),
        "squad": squad_config(),
        "snli": SnliConfig(words=WORDS, dim=6),
        "srl": SrlConfig(words=WORDS, lstm_dim=6, lstm_layers=2),
        "coref": coref_config(max_train_tokens=6),
    }[task]
    batch_size = 1 if task == "coref" else 6
    return made.override(
        "dropout=0.3", "elmo.dropout=0.5", "elmo.place=both", "words.dropout=0.2",
        "train.epochs=3", "train.halve_after=1", f"train.batch_size={batch_size}",
    )  # fmt: skip


def start(data: dict[str, Path], out: Path, config: Any, task: str = "ner", **more: Any) -> Any:
    model = None if config.elmo.place == "none" else data["bilm"]
    return train_task(task, data[task], data[task], model, out, config, device="cpu", **more)


def after_calls(
    number: int, owner: Any, name: str, act: Callable[[], None], patched: pytest.MonkeyPatch
) -> None:
    """Make `act` happen at the end of the n-th call of a method."""
    method, calls = getattr(owner, name), iter(range(1, 1 << 30))

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        if next(calls) == number:
            act()
        return result

    patched.setattr(owner, name, counted)


def stop(number: signal.Signals = signal.SIGINT) -> Callable[[], None]:
    return lambda: signal.raise_signal(number)


def interrupted(
    step: int, data: dict[str, Path], out: Path, config: Any, task: str = "ner", **more: Any
) -> str:
    """Stop a run after so many steps of the optimiser; returns what it says."""
    with pytest.MonkeyPatch.context() as patched:
        after_calls(step, WeightAverage, "update", stop(), patched)
        with pytest.raises(KeyboardInterrupt) as caught:
            start(data, out, config, task, **more)
    return str(caught.value)


def log_rows(out: Path, seed: int = 1) -> list[Row]:
    lines = (out / f"seed-{seed}" / "log.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert all(row.pop("seconds") >= 0 for row in rows)
    return rows


def results(out: Path) -> Any:
    found = json.loads((out / "metrics.json").read_text())
    for seed in found["seeds"]:
        del seed["seconds"]
    return found


def assert_equal_runs(a: Path, b: Path) -> None:
    """Weights, scores and logs are the same to the last bit."""
    assert results(a) == results(b)
    for folder in a.glob("seed-*"):
        seed = int(folder.name.removeprefix("seed-"))
        assert log_rows(a, seed) == log_rows(b, seed)
        for path in folder.rglob("*.safetensors"):
            first, second = load_file(path), load_file(b / path.relative_to(a))
            assert first.keys() == second.keys()
            assert all(torch.equal(first[name], second[name]) for name in first), path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("task", ["ner", "classify", "squad", "snli", "srl", "coref"])
def test_every_task_resumes_to_the_last_bit(
    task: str, data: dict[str, Path], tmp_path: Path
) -> None:
    config = small(task)
    start(data, tmp_path / "whole", config, task)
    said = interrupted(2, data, tmp_path / "broken", config, task)
    assert said == "seed 1, epoch 1, batch 2 of 4 is saved"
    assert interrupted(5, data, tmp_path / "broken", config, task, resume=True) == (
        "seed 1, epoch 2, batch 3 of 4 is saved"
    )
    start(data, tmp_path / "broken", config, task, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("finetune", [False, True])
@pytest.mark.parametrize("optimizer", ["adam", "adadelta"])
def test_averages_and_a_tuned_bilm_resume_to_the_last_bit(
    finetune: bool, optimizer: str, data: dict[str, Path], tmp_path: Path
) -> None:
    train = {"epochs": 3, "batch_size": 6, "ema": 0.9, "optimizer": optimizer}
    config = ner_config(train, dropout=0.5, finetune=finetune)
    start(data, tmp_path / "whole", config, seeds=2)
    torch.manual_seed(123)  # chance around a run has no say in it
    assert "seed 2, epoch 2, batch 3 of 4" in interrupted(
        12 + 7, data, tmp_path / "broken", config, seeds=2
    )
    torch.manual_seed(456)
    start(data, tmp_path / "broken", config, seeds=2, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize(("batch", "epoch", "saved"), [(1, 1, 4), (5, 2, 4)])
def test_a_signal_stops_an_evaluation(
    batch: int,
    epoch: int,
    saved: int,
    data: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = ner_config({"epochs": 3, "batch_size": 6, "ema": 0.9}, dropout=0.5)
    start(data, tmp_path / "whole", config)
    with monkeypatch.context() as patched:
        after_calls(batch, NerTagger, "predict", stop(signal.SIGTERM), patched)
        with pytest.raises(KeyboardInterrupt, match=f"epoch {epoch}, batch {saved} of 4 is saved"):
            start(data, tmp_path / "broken", config)
    rows: list[Row] = []
    start(data, tmp_path / "broken", config, resume=True, on_row=rows.append)
    assert [row["epoch"] for row in rows] == list(range(epoch, 4))
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


def test_a_signal_after_the_evaluation_waits_for_the_epoch(
    data: dict[str, Path], tmp_path: Path
) -> None:
    config = ner_config({"epochs": 2}, place="none")
    start(data, tmp_path / "whole", config, seeds=2)

    def interrupt(row: Row) -> None:
        if (row["seed"], row["epoch"]) in ((1, 1), (1, 2), (2, 2)):
            stop()()

    said = []
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt) as caught:
            start(data, tmp_path / "broken", config, seeds=2, resume=True, on_row=interrupt)
        said.append(str(caught.value))
    assert said == ["seed 1, epoch 1 is saved", "seed 1 is finished", "seed 2 is finished"]
    start(data, tmp_path / "broken", config, seeds=2, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


def test_a_second_signal_stops_at_once(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ner_config({"epochs": 2, "checkpoint_minutes": 1e-9}, place="none")

    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        after_calls(2, WeightAverage, "update", twice, patched)
        with pytest.raises(KeyboardInterrupt) as caught:
            start(data, tmp_path / "run", config)
    assert caught.value.args == ()
    start(data, tmp_path / "whole", config)
    start(data, tmp_path / "run", config, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "run")


def test_nothing_is_left_of_a_run_that_has_not_begun(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ner_config({"epochs": 1})
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patched:
        after_calls(1, FrozenLayers, "prepare", stop(signal.SIGTERM), patched)
        with pytest.raises(KeyboardInterrupt) as caught:
            start(data, tmp_path / "run", config)
    assert caught.value.args == ()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    start(data, tmp_path / "run", config)  # needs no --resume


def test_other_threads_can_train(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 1}, place="none")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(start(data, tmp_path / "run", config)))
    thread.start()
    thread.join()
    assert found[0]["seeds"][0]["epochs"] == 1


def test_a_run_in_its_first_epoch_is_a_run(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 2}, place="none")
    interrupted(1, data, tmp_path / "run", config)
    before = contents(tmp_path / "run")
    assert not (tmp_path / "run/seed-1/model.safetensors").exists()
    assert_refused(
        lambda: start(data, tmp_path / "run", config),
        "already holds a task run; use --resume, replace it with --force, or choose another",
    )
    other = ner_config({"epochs": 2, "lr": 0.5}, place="none")
    assert_refused(lambda: start(data, tmp_path / "run", other, resume=True), "train.lr")
    assert contents(tmp_path / "run") == before
    assert_refused(lambda: load_task(tmp_path / "run"), "no model yet", "--resume")
    start(data, tmp_path / "run", config, resume=True)


def test_checkpoints_are_written_every_few_minutes(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, saved = SimpleNamespace(now=0.0), []
    monkeypatch.setattr("elmokit.tasks.runs.seed.time.monotonic", lambda: clock.now)

    def save(path: Path, state: Any, tensors: Any, row: Any) -> None:
        saved.append((state.epoch, state.batch))

    monkeypatch.setattr("elmokit.tasks.runs.trainer.write_checkpoint", save)

    def pass_time(self: WeightAverage) -> None:
        clock.now += 100

    monkeypatch.setattr(WeightAverage, "update", pass_time)
    config = ner_config({"epochs": 2, "batch_size": 4}, place="none")
    assert config.train.checkpoint_minutes == 5
    start(data, tmp_path / "run", config)
    assert saved == [(0, 3), (1, 0), (1, 3), (2, 0)]
    for wrong in (0.0, -1.0, float("nan")):
        assert_refused(lambda w=wrong: TrainerConfig(checkpoint_minutes=w), "checkpoint_minutes=")


def test_minutes_do_not_make_another_run(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 2}, place="none")
    interrupted(2, data, tmp_path / "run", config)
    card = json.loads((tmp_path / "run/task.json").read_text())
    assert card["config"]["train"].pop("checkpoint_minutes") == 5
    (tmp_path / "run/task.json").write_text(json.dumps(card))  # as before there was the field
    interrupted(1, data, tmp_path / "run", config, resume=True)
    other = replace(config, train=replace(config.train, checkpoint_minutes=0.5))
    start(data, tmp_path / "run", other, resume=True)
    card = json.loads((tmp_path / "run/task.json").read_text())
    assert card["config"]["train"]["checkpoint_minutes"] == 0.5


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the state of a checkpoint."""
    with safe_open(path, "pt") as file:
        state = json.loads(file.metadata()["state"])
    tensors = load_file(path)
    change(state)
    save_file(tensors, path, metadata={"state": json.dumps(state)})


def test_checkpoints_of_an_older_elmokit_resume(data: dict[str, Path], tmp_path: Path) -> None:
    config = ner_config({"epochs": 3, "ema": 0.9}, dropout=0.5)
    start(data, tmp_path / "whole", config)

    def interrupt(row: Row) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(data, tmp_path / "broken", config, on_row=interrupt)
    path = tmp_path / "broken" / CHECKPOINT
    assert not any(name.startswith("random.") for name in load_file(path))

    def forget(state: dict[str, Any]) -> None:
        assert state.keys() > set(OLD_FIELDS)
        for name in state.keys() - set(OLD_FIELDS):
            del state[name]

    rewrite(path, forget)
    start(data, tmp_path / "broken", config, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def drop(*names: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        save_file({n: t for n, t in load_file(path).items() if n not in names}, path, metadata)

    return change


def state(**values: Any) -> Callable[[Path], None]:
    return lambda path: rewrite(path, lambda state: state.update(values))


ADVICE = "restore it from a copy, or train in a new folder"


@pytest.mark.parametrize(
    ("damage", "mentions"),
    [
        (tear, ("is damaged", ADVICE)),
        (lambda path: path.write_bytes(b""), ("is damaged", ADVICE)),
        (lambda path: save_file({}, path), ("is damaged", ADVICE)),
        (lambda path: (path.unlink(), os.mkfifo(path)), ("is a pipe",)),
        (state(colour=1, depth=2), ("newer elmokit", "colour, depth", "upgrade")),
        (state(epoch="3"), ("is damaged", "epoch='3'", ADVICE)),
        (state(batch=-1), ("is damaged", "batch=-1", ADVICE)),
        (state(seconds=10**400), ("is damaged", "seconds=<a number of", ADVICE)),
        (drop("random.cpu"), ("not a checkpoint of this run", "random.cpu", ADVICE)),
        (drop("model.scores.weight"), ("not a checkpoint of this run", "scores.weight", ADVICE)),
        (drop("average.updates"), ("not a checkpoint of this run", "average.updates", ADVICE)),
    ],
)
def test_a_bad_checkpoint_stops_and_changes_nothing(
    damage: Callable[[Path], None], mentions: tuple[str, ...], data: dict[str, Path], tmp_path: Path
) -> None:
    config = ner_config({"epochs": 2, "ema": 0.9}, place="none")
    interrupted(4, data, tmp_path / "run", config)
    damage(tmp_path / "run" / CHECKPOINT)
    before = contents(tmp_path / "run")
    more = replace(config, train=replace(config.train, epochs=9))
    assert_refused(
        lambda: start(data, tmp_path / "run", more, resume=True),
        "checkpoint.safetensors",
        *mentions,
    )
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("method", ["_save", "_write_log"])
def test_a_run_killed_at_the_end_of_its_first_epoch_resumes_and_loses_no_row(
    method: str, data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: object) -> None:
        raise RuntimeError("killed")

    config = ner_config({"epochs": 2}, place="none")
    start(data, tmp_path / "whole", config)
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(SeedRun, method, killed)
        start(data, tmp_path / "broken", config)
    start(data, tmp_path / "broken", config, resume=True)
    assert log_rows(tmp_path / "broken") == log_rows(tmp_path / "whole")
    assert results(tmp_path / "broken") == results(tmp_path / "whole")


@pytest.mark.parametrize("line", ["{torn", "3", "{}", '{"epoch": "1"}', "[" * 100_000])
def test_a_damaged_log_stops_and_changes_nothing(
    line: str, data: dict[str, Path], tmp_path: Path
) -> None:
    config = ner_config({"epochs": 1}, place="none")
    start(data, tmp_path / "run", config)
    (tmp_path / "run" / "seed-1" / "log.jsonl").write_text(line + "\n")
    before = contents(tmp_path / "run")
    more = replace(config, train=replace(config.train, epochs=2))
    assert_refused(
        lambda: start(data, tmp_path / "run", more, resume=True), "log.jsonl, line 1", "epoch"
    )
    assert contents(tmp_path / "run") == before


def test_a_checkpoint_that_may_not_be_read_stops_and_changes_nothing(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ner_config({"epochs": 2}, place="none")
    interrupted(4, data, tmp_path / "run", config)
    before = contents(tmp_path / "run")
    open_path, stat = Path.open, Path.stat

    def no_open(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name == "checkpoint.safetensors":
            raise PermissionError(13, "Permission denied", str(self))
        return open_path(self, *args, **kwargs)

    def no_stat(self: Path, **kwargs: Any) -> Any:
        if self.parent.name == "seed-1":
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, **kwargs)

    for name, patch in (("open", no_open), ("stat", no_stat)):
        with monkeypatch.context() as patched:
            patched.setattr(Path, name, patch)
            for resume in (False, True)[name == "open" :]:
                assert_refused(
                    lambda r=resume: start(data, tmp_path / "run", config, resume=r),
                    "seed-1", "cannot be read: Permission denied",
                )  # fmt: skip
        assert contents(tmp_path / "run") == before
    start(data, tmp_path / "run", config, resume=True)


def test_a_second_seed_is_checked_before_the_first_trains_on(
    data: dict[str, Path], tmp_path: Path
) -> None:
    config = ner_config({"epochs": 2, "batch_size": 6}, place="none")
    interrupted(11, data, tmp_path / "run", config, seeds=2)
    tear(tmp_path / "run/seed-2/checkpoint.safetensors")
    before = contents(tmp_path / "run")
    more = replace(config, train=replace(config.train, epochs=3))
    assert_refused(lambda: start(data, tmp_path / "run", more, seeds=2, resume=True), "seed-2")
    assert contents(tmp_path / "run") == before


def test_a_row_is_logged_once(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power goes off between the log and the checkpoint of an epoch."""
    config = ner_config({"epochs": 3, "batch_size": 6}, place="none")
    start(data, tmp_path / "whole", config)
    interrupted(6, data, tmp_path / "broken", config)
    shutil.copy(tmp_path / "broken" / CHECKPOINT, tmp_path / "kept")
    interrupted(3, data, tmp_path / "broken", config, resume=True)
    assert [row["epoch"] for row in log_rows(tmp_path / "broken")] == [1, 2]
    shutil.copy(tmp_path / "kept", tmp_path / "broken" / CHECKPOINT)
    start(data, tmp_path / "broken", config, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize(("kind", "place"), [("cuda", (torch.device("cuda", 1),)), ("mps", ())])
def test_chance_of_a_gpu_is_kept(
    kind: str, place: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[Any, torch.Tensor] = {place: torch.tensor([1, 2], dtype=torch.uint8)}
    module = SimpleNamespace(
        get_rng_state=lambda *at: kept[at],
        set_rng_state=lambda state, *at: kept.update({at: state}),
    )
    monkeypatch.setattr(torch, kind, module)
    device = torch.device(kind, 1 if kind == "cuda" else 0)
    with torch.random.fork_rng(devices=[]):
        found = random_tensors(device)
        expected = torch.rand(3)
        assert found.keys() == {"random.cpu", f"random.{kind}"}
        kept[place] = torch.zeros(2, dtype=torch.uint8)
        restore_random(found, device)
        assert torch.equal(torch.rand(3), expected) and kept[place].tolist() == [1, 2]
        restore_random(random_tensors(torch.device("cpu")), device)  # a run that moves to a GPU
