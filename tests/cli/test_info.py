"""`elmokit info` says what a model is, and what is wrong with it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from strategies import make_tiny, tiny_config

from elmokit.cli.report import in_bytes, in_short
from elmokit.formats.catalogue.entries import builtin_folder
from elmokit.text.ids import Vocab


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
