"""From a text to a model and back to old tools, by commands alone."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit import Elmo
from elmokit.pretraining.records import read_log

SMALL = """
[model.lstm]
dim = 16
projection_dim = 8

[model.encoder.char_cnn]
filters = [[1, 4], [2, 8]]
dim = 4

[train]
max_steps = 6
log_every = 2
checkpoint_every = 3
"""


@pytest.fixture
def corpus(run: Any, tmp_path: Path) -> Path:
    """A prepared corpus."""
    generator = np.random.default_rng(0)
    words = ["the", "cat", "dog", "sat", "ran", "home", "배", "눈"]
    lines = [" ".join(generator.choice(words, 7)) for _ in range(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    run("prepare", tmp_path / "text.txt", "-o", tmp_path / "corpus", "--workers", 1, "-q")
    return tmp_path / "corpus"


@pytest.fixture
def trained(run: Any, corpus: Path, tmp_path: Path) -> Path:
    """A finished run."""
    (tmp_path / "small.toml").write_text(SMALL)
    arguments = ("pretrain", corpus, "-o", tmp_path / "run", "--preset", "tiny")
    result = run(*arguments, "--config", tmp_path / "small.toml", "--device", "cpu")
    assert "held-out perplexity" in result.stdout
    assert "tokens/s" in result.stderr and "sampled perplexity" in result.stderr
    return tmp_path / "run"


def test_a_run_is_a_model(run: Any, trained: Path, tmp_path: Path) -> None:
    rows = read_log(trained / "log.jsonl")
    assert [row["step"] for row in rows] == [2, 4, 6]
    assert all(row.keys() >= {"step", "tokens", "loss", "tokens_per_s"} for row in rows)
    saved = json.loads((trained / "run.json").read_text())["config"]
    assert saved["model"]["lstm"]["dim"] == 16 and saved["train"]["max_steps"] == 6
    elmo = Elmo.from_pretrained(trained, device="cpu")
    assert elmo.embed("the cat").shape == (2, 16)
    values = json.loads(run("evaluate", trained, tmp_path / "text.txt", "--json").stdout)
    assert values["forward"] > 1 and values["backward"] > 1
    assert "the" in run("substitutes", trained, "the [cat] sat", "-k", 8).stdout
    run("convert", trained, tmp_path / "old" / "weights.hdf5")
    old = Elmo.from_pretrained(tmp_path / "old" / "weights.hdf5", device="cpu")
    np.testing.assert_array_equal(old.embed("the cat"), elmo.embed("the cat"))


def test_info_tells_how_a_run_is_doing(run: Any, trained: Path) -> None:
    shown = run("info", trained).stdout
    assert "finished: step 6" in shown and "held out" in shown
    facts = json.loads(run("info", trained, "--json").stdout)["run"]
    assert facts["is_finished"] and facts["step"] == 6 and facts["best"]["mean"] > 1
    for name in ("model.safetensors", "result.json"):
        (trained / name).unlink()
    lines = (trained / "log.jsonl").read_text().splitlines()[:1]
    (trained / "log.jsonl").write_text(lines[0] + "\n{torn")
    shown = run("info", trained).stdout
    assert "33% done: step 2" in shown
    assert "from step 6" in shown and shown.count("--resume") == 1
    command = shown.splitlines()[-1]  # unwrapped, however long: it is there to be copied
    assert command.startswith("elmokit pretrain ") and command.endswith(f"-o {trained} --resume")


def test_info_tells_what_would_be_resumed(run: Any, trained: Path) -> None:
    (trained / "result.json").unlink()
    shutil.rmtree(trained / "checkpoints" / "step-00000006")
    shown = " ".join(run("info", trained).stdout.split())
    assert "resumes from step 3" in shown and "the 3 steps after it would be repeated" in shown
    (trained / "checkpoints" / "step-00000003" / "state.json").write_text("")
    shown = " ".join(run("info", trained).stdout.split())
    assert "cannot be resumed" in shown and "state.json is not JSON" in shown
    shutil.rmtree(trained / "checkpoints")
    shown = " ".join(run("info", trained).stdout.split())
    assert "no checkpoint yet: it would start at step 0" in shown


def test_an_interrupted_run_prints_how_to_resume(
    run: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt("step 7 is saved")

    monkeypatch.setattr("elmokit.pretraining.run.pretrain", stop)
    arguments = ("pretrain", corpus, "-o", tmp_path / "my run", "--device", "cpu")
    result = run(*arguments, code=130)
    assert "nothing was learned yet; run the same command again" in result.stderr
    (tmp_path / "my run").mkdir()
    (tmp_path / "my run" / "run.json").write_text("{}")
    last = run(*arguments, code=130).stderr.splitlines()[-1]
    assert last == (
        "elmokit: interrupted; step 7 is saved; resume with: elmokit pretrain "
        f"{corpus} -o '{tmp_path}/my run' --resume --device cpu"
    )
    monkeypatch.setenv("WORLD_SIZE", "2")
    last = run(*arguments, code=130).stderr.splitlines()[-1]
    assert "resume with: torchrun --nproc-per-node 2 -m elmokit pretrain" in last


def test_a_run_starts_from_vectors(run: Any, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "vectors.txt").write_text("the 1 2\ncat 2 1\ndog 0 1\n배 1 1\n")
    arguments = ("pretrain", corpus, "-o", tmp_path / "run", "--preset", "tiny")
    arguments += ("--config", tmp_path / "small.toml", "--device", "cpu")
    arguments += ("--set", "train.vector_steps=5")
    refused = run(*arguments, "--vectors", tmp_path / "vectors.txt", "--from", "en", code=1)
    assert "--from" in refused.stderr and not (tmp_path / "run").exists()
    result = run(*arguments, "--vectors", tmp_path / "vectors.txt")
    assert "fitting the token encoder to the vectors" in result.stderr
    assert "evaluating all held-out text" in result.stderr
    assert "static vectors of" in run("info", tmp_path / "run").stdout


def test_a_run_goes_on_with_its_own_settings(run: Any, trained: Path, corpus: Path) -> None:
    refused = run("pretrain", corpus, "-o", trained, code=1)
    assert "--resume" in refused.stderr
    arguments = ("pretrain", corpus, "-o", trained, "--resume", "--device", "cpu")
    run(*arguments, "--set", "train.max_steps=8")
    assert read_log(trained / "log.jsonl")[-1]["step"] == 8
    other = run(*arguments, "--set", "model.lstm.dim=32", code=1)
    assert "other settings of model" in other.stderr
    other = run(*arguments, "--preset", "small", code=1)
    assert "was started with tiny" in other.stderr
    run(*arguments, "--preset", "tiny")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "huge"), "tiny, small, medium, original"),
        (("--set", "train.steps=5"), "did you mean"),
        (("--config", "missing.toml"), "missing.toml"),
        (("--device", "abacus"), "abacus"),
        (("--from", "nowhere/at/all"), "nowhere"),
    ],
)
def test_mistakes_leave_nothing_behind(
    run: Any, corpus: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = run("pretrain", corpus, "-o", tmp_path / "new", *options, code=1)
    assert message in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_tensorboard_is_an_extra(
    run: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = run("pretrain", corpus, "-o", tmp_path / "new", "--tensorboard", code=1)
    assert "elmokit[tensorboard]" in result.stderr


def test_the_curve_is_a_picture(trained: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs elmokit[plot]")
    assert (trained / "curve.png").read_bytes().startswith(b"\x89PNG")
