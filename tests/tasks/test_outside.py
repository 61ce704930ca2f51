"""Tasks that are not elmokit's own: given as objects, or installed as entry points."""

import json
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from strategies import assert_refused, make_tiny
from task_data import bcn_config
from typer.testing import CliRunner

from elmokit import load_task, train_task
from elmokit.cli import app
from elmokit.errors import ConfigError
from elmokit.tasks import find_task, registry

ROOT = Path(__file__).parents[2]
DATA = ROOT / "examples" / "pos.conllu"
OLD_RUN = Path(__file__).parent / "old_sentiment_run"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """`examples/pos_tagger.py`."""
    spec = spec_from_file_location("pos_tagger", ROOT / "examples" / "pos_tagger.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["pos_tagger"] = module_from_spec(spec)  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def run_cli(*arguments: object) -> str:
    """What `elmokit ARGUMENTS…` prints."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def install(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Make an entry point of that name."""
    found = EntryPoints([EntryPoint(name, value, registry.GROUP)])
    monkeypatch.setattr(registry, "entry_points", lambda group: found.select(group=group))


def test_a_task_is_given_as_an_object(example: ModuleType, tmp_path: Path) -> None:
    task, run = example.PosTask(), tmp_path / "run"
    config = example.PosConfig().override("train.epochs=3")
    summary = train_task(task, DATA, DATA, make_tiny(), run, config, seeds=2)
    assert (summary["task"], summary["metric"]) == ("pos", "accuracy")
    trained = load_task(run, task=task, model=make_tiny())
    assert trained.evaluate(DATA)["accuracy"] == max(s["dev"]["accuracy"] for s in summary["seeds"])
    ((sentence, tags),) = trained.predict_texts(["The dog ran ."])
    assert tags is not None and len(tags) == len(sentence.tokens) == 4
    assert json.loads(task.as_text(sentence, tags)) == {
        "task": "pos", "text": "The dog ran .", "tokens": ["The", "dog", "ran", "."], "tags": tags,
    }  # fmt: skip


def test_an_unknown_task_is_refused_with_both_ways(example: ModuleType, tmp_path: Path) -> None:
    run, config = tmp_path / "run", example.PosConfig().override("train.epochs=1")
    train_task(example.PosTask(), DATA, DATA, make_tiny(), run, config)
    ways = ("load_task(run, task=MyTask())", "entry point", "elmokit.tasks")
    assert_refused(lambda: load_task(run), "task.json", "'pos'", "ner, classify", *ways)
    assert_refused(lambda: find_task("nre"), "'nre'", "train_task(MyTask(), …)", *ways)
    assert_refused(lambda: load_task(run, task=registry.TASKS["ner"]), "of the task pos", "ner")


def test_an_installed_task_is_found_by_its_name(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "pos", "pos_tagger:PosTask")
    out, model = tmp_path / "run", tmp_path / "bilm"
    make_tiny().save_pretrained(model)
    run_cli("train", "pos", "--train", DATA, "--dev", DATA, "--model", model, "-o", out,
        "--set", "train.epochs=2", "--seeds", 2, "-q")  # fmt: skip
    every = json.loads(run_cli("evaluate", out, DATA, "--all-seeds", "--json"))
    assert every["metric"] == "accuracy" and len(every["seeds"]) == 2
    text = tmp_path / "text.txt"
    text.write_text("The dog ran .\n")
    assert json.loads(run_cli("predict", out, text, "--json"))["tokens"][1] == "dog"


@pytest.mark.parametrize("value", ["pos_tagger:Nothing", "no_such_module:Task", "pathlib:Path"])
def test_a_broken_entry_point_is_named(
    example: ModuleType, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "pos", value)
    with pytest.raises(ConfigError, match=f"task pos: the entry point {value}"):
        find_task("pos")


@pytest.mark.slow
def test_the_example_runs_with_the_bundled_model(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "examples" / "pos_tagger.py", "-o", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "accuracy on the development data: 1.000" in done.stdout
    assert "She/PRON has/VERB a/DET gift/NOUN ./PUNCT" in done.stdout


def test_a_run_of_sentiment_is_one_of_classify(tmp_path: Path) -> None:
    """`old_sentiment_run` was written before the task was renamed, at commit 62c7909."""
    out, data = tmp_path / "run", OLD_RUN / "labelled.tsv"
    shutil.copytree(OLD_RUN / "run", out)
    trained = load_task(out, device="cpu")
    assert (trained.task.name, trained.evaluate(data)["accuracy"]) == ("classify", 0.35)
    assert trained.task is find_task("sentiment")
    assert "accuracy" in run_cli("evaluate", out, data)
    config = bcn_config({"epochs": 3}, place="none")
    config = config.override("dim=3", "words.dim=4", "words.char_filters=4")
    summary = train_task("sentiment", data, data, None, out, config, device="cpu", resume=True)
    assert (summary["task"], summary["seeds"][0]["epochs"]) == ("classify", 3)
    log = (out / "seed-1" / "log.jsonl").read_text()
    assert log.startswith((OLD_RUN / "run" / "seed-1" / "log.jsonl").read_text())
