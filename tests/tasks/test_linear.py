"""The linear head: the regression it comes to, its choice of a penalty, and its runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from strategies import assert_refused, make_tiny
from task_data import write_data

from elmokit import Elmo, load_task, train_task
from elmokit.tasks import linear
from elmokit.tasks.classify import FEW_TEXTS, ClassifyConfig, ClassifyTask, LabelledText
from elmokit.tasks.linear import _Regression, fold_numbers
from elmokit.vectors.static import StaticVectors

LINEAR = ClassifyConfig().override("head=linear")


@pytest.fixture
def elmo() -> Elmo:
    return make_tiny()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Twenty English and Korean texts with three labels."""
    return write_data(tmp_path)[1]


def points(number: int, dim: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Three layers, of which only the second says something of the three labels."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, number, dim, generator=generator)
    y = torch.arange(number) % 3
    x[1, :, 0] += 3 * (y == 1)
    x[1, :, 1] += 3 * (y == 2)
    return x, y


def test_the_regression_equals_scikit_learns() -> None:
    sklearn = pytest.importorskip("sklearn.linear_model")
    x, y = points(90)
    weights = _Regression(3, 0.001).fit(x[1:2], y, 0.1)
    # Its C is 1 / (N l2).
    expected = sklearn.LogisticRegression(C=1 / (90 * 0.1), tol=1e-6).fit(x[1].numpy(), y.numpy())
    np.testing.assert_allclose(
        weights.scores(x[1:2]).softmax(dim=-1), expected.predict_proba(x[1].numpy()), atol=2e-3
    )


def test_the_mix_finds_the_layer_that_matters() -> None:
    x, y = points(90)
    weights = _Regression(3, 0.001).fit(x, y, 0.1).scalars.softmax(dim=0)
    assert weights[1] > 0.9


def test_noise_gets_a_stronger_penalty_than_a_signal() -> None:
    x, y = points(90)
    folds = fold_numbers(y.numpy(), 1)
    regression = _Regression(3, 0.001)
    assert regression.choose(x[:1], y, folds) > regression.choose(x, y, folds)


def test_folds_hold_out_every_text_once_and_spread_the_labels() -> None:
    y = np.array([0] * 50 + [1] * 10 + [2])
    folds = fold_numbers(y, 3)
    assert sorted(np.bincount(folds)) == [12, 12, 12, 12, 13]
    assert np.bincount(folds[y == 0]).tolist() == [10] * 5
    assert np.bincount(folds[y == 1]).tolist() == [2] * 5
    assert (folds != fold_numbers(y, 4)).any() and (folds == fold_numbers(y, 3)).all()
    assert set(fold_numbers(np.array([0, 1]), 1)) == {0, 1}


def test_a_run_learns_and_predicts_what_it_scored(elmo: Elmo, data: Path, tmp_path: Path) -> None:
    summary = train_task("classify", data, data, elmo, tmp_path / "run", LINEAR, seeds=2)
    assert summary["mean"] > 0.9
    card = json.loads((tmp_path / "run" / "task.json").read_text())["config"]
    assert (card["elmo"]["place"], card["words"]["dim"], card["train"]["epochs"]) == ("input", 0, 1)
    weights = json.loads((tmp_path / "run" / "weights.json").read_text())["seed-1"]["input"]
    assert weights["gamma"] == 1 and sum(weights["weights"]) == pytest.approx(1)
    trained = load_task(tmp_path / "run", model=elmo)
    best = max(seed["dev"]["accuracy"] for seed in summary["seeds"])
    assert trained.evaluate(data)["accuracy"] == best
    (good, korean) = trained.predict([
        LabelledText(("a", "fine", "film", "!"), ""), LabelledText(("no", "good", "영화", "!"), "")
    ])  # fmt: skip
    assert good is not None and good["label"] == "good"
    assert korean is not None and korean["label"] == "bad"


def test_padding_does_not_change_a_prediction(elmo: Elmo, data: Path, tmp_path: Path) -> None:
    train_task("classify", data, data, elmo, tmp_path / "run", LINEAR)
    trained = load_task(tmp_path / "run", model=elmo)
    short = LabelledText(("a", "fine", "film"), "")
    (alone,) = trained.predict([short])
    beside, _ = trained.predict([short, LabelledText(("no",) * 30, "")])
    assert alone is not None and beside is not None
    assert alone["probabilities"] == pytest.approx(beside["probabilities"], abs=1e-4)


def test_the_development_data_change_nothing(elmo: Elmo, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("label\ttext\nbad\ta fine film !\ngood\tno good end !\n", encoding="utf-8")
    for name, dev in (("a", data), ("b", other)):
        train_task("classify", data, dev, elmo, tmp_path / name, LINEAR)
    a, b = (tmp_path / name / "seed-1" / "model.safetensors" for name in "ab")
    assert a.read_bytes() == b.read_bytes()


def test_static_vectors_are_the_baseline(data: Path, tmp_path: Path) -> None:
    words = {"fine": 0, "no": 1, "just": 2}
    static = StaticVectors(words=words, matrix=np.eye(3, dtype=np.float32))
    config = LINEAR.override("elmo.place=none")
    summary = train_task("classify", data, data, None, tmp_path / "run", config, static=static)
    assert summary["mean"] == 1
    assert load_task(tmp_path / "run").evaluate(data)["accuracy"] == 1
    assert_refused(
        lambda: train_task("classify", data, data, None, tmp_path / "bare", config),
        "static vectors",
    )


def test_an_interrupted_evaluation_resumes_with_the_same_model(
    elmo: Elmo, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_task("classify", data, data, elmo, tmp_path / "whole", LINEAR)
    with monkeypatch.context() as patched:
        patched.setattr(
            ClassifyTask, "score", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt("stop"))
        )
        config = replace(LINEAR, train=replace(LINEAR.train, checkpoint_minutes=1e-9))
        with pytest.raises(KeyboardInterrupt):
            train_task("classify", data, data, elmo, tmp_path / "run", config)
    # What is fitted is not fitted again.
    monkeypatch.setattr(linear.LinearHead, "fit", None)
    train_task("classify", data, data, elmo, tmp_path / "run", LINEAR, resume=True)
    a, b = (tmp_path / name / "seed-1" / "model.safetensors" for name in ("whole", "run"))
    assert a.read_bytes() == b.read_bytes()


@pytest.mark.parametrize(
    ("setting", "mention"),
    [
        ("elmo.finetune=true", "frozen"),
        ("elmo.layer_norm=true", "elmo.layer_norm"),
        ("words.tune_static=true", "words.tune_static"),
        ("elmo.place=output", "input only"),
        ("l2=-1", "l2=-1"),
        ("head=svm", "'linear'"),
    ],
)
def test_settings_that_the_head_cannot_have(setting: str, mention: str) -> None:
    assert_refused(lambda: LINEAR.override(setting), mention)


def test_the_head_is_suggested_for_few_texts_only() -> None:
    task, text = ClassifyTask(), LabelledText(("a",), "x")
    advice = task.advice(ClassifyConfig(), [text] * (FEW_TEXTS - 1))
    assert advice is not None and "--head linear" in advice
    assert task.advice(ClassifyConfig(), [text] * FEW_TEXTS) is None
    assert task.advice(LINEAR, [text]) is None
