"""From a text to a model and back to old tools, by commands alone."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit import Elmo
from elmokit.train.logs import read_log

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
    assert "33% done: step 2" in shown and "--resume" in shown


def test_a_run_goes_on_with_its_own_settings(run: Any, trained: Path, corpus: Path) -> None:
    refused = run("pretrain", corpus, "-o", trained, code=1)
    assert "--resume" in refused.stderr
    arguments = ("pretrain", corpus, "-o", trained, "--resume", "--device", "cpu")
    run(*arguments, "--set", "train.max_steps=8")
    assert read_log(trained / "log.jsonl")[-1]["step"] == 8
    other = run(*arguments, "--set", "model.lstm.dim=32", code=1)
    assert "other settings of model" in other.stderr


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
