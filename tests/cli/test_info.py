"""`elmokit info` says what a model is, and what is wrong with it."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from strategies import make_tiny, tiny_config
from task_data import write_data

from elmokit.cli.report import in_bytes, in_short
from elmokit.formats.catalogue.entries import builtin_folder
from elmokit.text.ids import Vocab

OLD_RUN = Path(__file__).parents[1] / "tasks" / "old_run" / "run"


def test_json_of_a_saved_model(run: Any, tmp_path: Path) -> None:
    words = ["<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(20))]
    elmo = make_tiny(tiny_config(num_softmax_words=23), vocab=Vocab(words))
    elmo.add_mix("ner", layer_norm=True)
    with torch.no_grad():
        elmo.mixes["ner"].scalars.copy_(torch.tensor([0.0, 1.0, 2.0]))
        elmo.mixes["ner"].gamma.fill_(1.5)
    elmo.warm_up(["One sentence."])
    elmo.save_pretrained(tmp_path / "m")
    facts = json.loads(run("info", tmp_path / "m", "--json").stdout)
    assert facts["format"] == "elmokit folder"
    assert (facts["dim"], facts["layers"], facts["tokenizer"]) == (32, 3, "regex")
    assert facts["parameters"]["bilm"] == sum(p.numel() for p in elmo.bilm.parameters())
    assert facts["parameters"]["softmax"] == 23 * 17
    assert facts["lstm"]["projection_dim"] == 16 and facts["encoder"]["char_cnn"]["dim"] == 4
    assert facts["has_warm_state"] is True
    assert facts["mixes"]["default"]["weights"] == pytest.approx([1 / 3] * 3)
    assert facts["mixes"]["ner"]["weights"] == pytest.approx([0.0900, 0.2447, 0.6652], abs=1e-4)
    assert facts["mixes"]["ner"]["gamma"] == 1.5 and facts["mixes"]["ner"]["layer_norm"]
    assert facts["vocabulary"] == {"size": 23, "first": words[:10]}
    assert facts["size_on_disk"] == sum(p.stat().st_size for p in (tmp_path / "m").iterdir())
    assert facts["warnings"] == []
    table = run("info", tmp_path / "m").stdout
    assert "ner: 0.090 0.245 0.665, gamma 1.500, layer norm" in table


def test_broken_weights_are_named(run: Any, tmp_path: Path) -> None:
    elmo = make_tiny()
    with torch.no_grad():
        elmo.bilm.forward_lm.layers[1].bias[:3] = float("nan")
        elmo.bilm.backward_lm.layers[0].recurrent_weight.zero_()
    elmo.save_pretrained(tmp_path / "m")
    warnings = json.loads(run("info", tmp_path / "m", "--json").stdout)["warnings"]
    assert warnings == [
        "bilm.backward_lm.layers.0.recurrent_weight: all weights are zero",
        "bilm.forward_lm.layers.1.bias: 3 of 128 weights are NaN or infinite",
    ]
    assert "3 of 128 weights are NaN" in run("info", tmp_path / "m").stdout.replace("\n", "")


@pytest.mark.parametrize("with_rich", [True, False])
def test_table_fits_80_columns(
    run: Any, model: Path, with_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    lines = run("info", model).stdout.splitlines()
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    names = [line.split()[0] for line in lines]
    assert {"format", "vectors", "parameters", "LSTM", "tokenizer", "mixes"} <= set(names)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tf-checkpoint", "TensorFlow checkpoint"),
        ("allennlp-elmo", "official HDF5 pair"),
        ("manylangs/char-only", "ELMoForManyLangs folder"),
        ("manylangs/word-and-char", "21 vectors of 12 values"),
    ],
)
def test_published_formats(run: Any, fixtures: Path, name: str, found: str) -> None:
    result = run("info", fixtures / name)
    assert found in result.stdout
    assert result.stderr == ""


def test_numbers_in_words() -> None:
    assert [in_short(n) for n in (0, 512, 999, 1000, 93_600_864)] == [
        "0", "512", "999", "1k", "93.6M",
    ]  # fmt: skip
    assert [in_bytes(n) for n in (12, 374_434_792)] == ["12 bytes", "374 MB"]


def test_a_task_run_is_described(run: Any, model: Path, tmp_path: Path) -> None:
    data = write_data(tmp_path)[1]
    out = tmp_path / "run"
    sizes = ("dim=6", "words.dim=6", "words.min_count=1", "maxout_pieces=2", "train.epochs=1")
    options = [part for size in sizes for part in ("--set", size)]
    run("train", "classify", "--train", data, "--dev", data, "--model", model, "-o", out, "-q",
        "--seeds", 2, *options)  # fmt: skip
    facts = json.loads(run("info", out, "--json").stdout)
    assert (facts["task"], facts["metric"]) == ("classify", "accuracy")
    assert facts["train"]["path"] == str(data) and facts["dev"]["examples"] == 20
    assert facts["settings"] == {
        "words.dim": 6, "words.min_count": 1, "train.epochs": 1, "dim": 6, "maxout_pieces": 2,
    }  # fmt: skip
    summary = json.loads((out / "metrics.json").read_text())
    for name in ("mean", "deviation", "best_seed"):
        assert facts[name] == summary[name]
    assert [seed["score"] for seed in facts["seeds"]] == [
        seed["dev"]["accuracy"] for seed in summary["seeds"]
    ]
    assert facts["model"]["source"] == str(model) and facts["model"]["dim"] == 32
    assert facts["labels"] == {"labels": ["bad", "good", "so-so"]}
    assert facts["size_on_disk"] == sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    table = run("info", out).stdout
    assert f"dev accuracy {summary['mean']:.4f} ± {summary['deviation']:.4f} over 2 seeds" in table
    for part in ("classify", "20 examples", "train.epochs=1", "seed 2: accuracy", ", the best"):
        assert part in table, part
    assert "tokenizer=" not in table


def test_a_task_run_that_is_not_finished_is_described(run: Any, tmp_path: Path) -> None:
    shutil.copytree(OLD_RUN, tmp_path / "run")
    (tmp_path / "run" / "metrics.json").unlink(missing_ok=True)
    (tmp_path / "run" / "seed-1" / "metrics.json").unlink(missing_ok=True)
    facts = json.loads(run("info", tmp_path / "run", "--json").stdout)
    assert facts["metric"] is facts["mean"] is facts["best_seed"] is None
    assert [(s["seed"], s["is_finished"], s["score"]) for s in facts["seeds"]] == [(1, False, None)]
    table = run("info", tmp_path / "run").stdout
    assert "none yet" in table and "seed 1: not finished" in table and "the baseline" in table
    (tmp_path / "run" / "metrics.json").write_text('{"metric": "f1"}')
    wrong = run("info", tmp_path / "run", code=1).stderr
    assert "metrics.json" in wrong and wrong.count("\n") == 1


def test_a_run_of_a_task_that_is_not_installed_is_described(run: Any, tmp_path: Path) -> None:
    shutil.copytree(OLD_RUN, tmp_path / "run")
    card = json.loads((tmp_path / "run" / "task.json").read_text())
    (tmp_path / "run" / "task.json").write_text(json.dumps(card | {"task": "chunks"}))
    facts = json.loads(run("info", tmp_path / "run", "--json").stdout)
    assert facts["task"] == "chunks" and facts["settings"]["lstm_layers"] == 1


@pytest.mark.parametrize(
    ("name", "language", "text"),
    [("en", "English", "English Wikipedia"), ("ko", "Korean", "Korean Wikipedia")],
)
def test_bundled_models_say_language_text_licence_size_and_perplexity(
    run: Any, name: str, language: str, text: str
) -> None:
    facts = json.loads(run("info", name, "--json").stdout)
    published = facts["published"]
    assert (published["language"], published["language_name"]) == (name, language)
    assert published["text"].startswith(text) and published["licence"] == "Apache-2.0"
    assert facts["size_on_disk"] > 10e6
    card = (builtin_folder(name) / "README.md").read_text(encoding="utf-8")  # type: ignore[operator]
    figures = published["perplexity"].partition(" backward")[0]
    assert f"| held-out perplexity | {figures} backward" in card
    shown = " ".join(run("info", name).stdout.split())
    for part in (f"language {language} ({name})", text, "licence Apache-2.0", "MB", figures):
        assert part in shown


def test_published_model_says_its_perplexity_where_it_is_known(run: Any) -> None:
    assert "39.7" in run("info", "elmo-original").stdout
    assert json.loads(run("info", "elmo-small", "--json").stdout)["perplexity"] == ""
