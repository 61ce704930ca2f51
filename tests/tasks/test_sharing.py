"""What several runs or seeds need is loaded and computed once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from strategies import assert_refused, make_tiny, tiny_config
from task_data import ner_config, write_data
from typer.testing import CliRunner

from elmokit import Elmo, load_task, train_task
from elmokit.cli import app
from elmokit.tasks import FrozenLayers, load_seeds
from elmokit.tasks.parts.bilm import fingerprint
from elmokit.vectors.static import StaticVectors, read_static_vectors

STATIC = "met 1 0 0\nin 0 1 0\nparis 0 0 1\nBob 1 1 0\n"
CONFIG = ner_config({"epochs": 2}, place="both")


@pytest.fixture(scope="module")
def bilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bilm") / "tiny"
    make_tiny().save_pretrained(folder)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path)[0]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the models that are loaded."""
    found: list[str] = []
    load = Elmo.from_pretrained

    def counted(source: str | Path, **options: Any) -> Elmo:
        found.append(str(source))
        return load(source, **options)

    monkeypatch.setattr(Elmo, "from_pretrained", counted)
    return found


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The sentences whose layers are computed."""
    found: list[tuple[str, ...]] = []
    embed: Callable[..., Any] = Elmo.embed

    def counted(self: Elmo, sentences: list[list[str]], **options: Any) -> Any:
        found.extend(map(tuple, sentences))
        return embed(self, sentences, **options)

    monkeypatch.setattr(Elmo, "embed", counted)
    return found


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "seed-1" / "model.safetensors")


def assert_equal(a: Path, b: Path) -> None:
    first, second = weights(a), weights(b)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_loaded_model_is_the_same_run(
    bilm: Path, data: Path, tmp_path: Path, loads: list[str]
) -> None:
    train_task("ner", data, data, bilm, tmp_path / "path", CONFIG, device="cpu")
    elmo = Elmo.from_pretrained(bilm, device="cpu")
    train_task("ner", data, data, elmo, tmp_path / "object", CONFIG)
    assert loads == [str(bilm)] * 2
    assert_equal(tmp_path / "path", tmp_path / "object")
    records = [json.loads((tmp_path / n / "task.json").read_text()) for n in ("path", "object")]
    assert records[0] == records[1] and records[0]["model"]["source"] == str(bilm)
    scores = load_task(tmp_path / "path", model=elmo).evaluate(data)
    assert len(loads) == 2 and load_task(tmp_path / "object").evaluate(data) == scores


def test_a_model_from_memory_is_known_by_its_weights(data: Path, tmp_path: Path) -> None:
    elmo, run = make_tiny(), tmp_path / "run"
    train_task("ner", data, data, elmo, run, CONFIG)
    record = json.loads((run / "task.json").read_text())["model"]
    assert (record["source"], record["fingerprint"]) == (None, fingerprint(elmo))
    assert load_task(run, model=elmo).evaluate(data)["examples"] == 20
    assert_refused(lambda: load_task(run), "from memory", "--model")
    other = make_tiny(tiny_config(), seed=5)
    assert_refused(lambda: load_task(run, model=other), "weights differ")
    assert_refused(
        lambda: train_task("ner", data, data, other, run, CONFIG, resume=True), "another biLM"
    )


def test_runs_share_their_layers(
    data: Path, tmp_path: Path, embedded: list[tuple[str, ...]]
) -> None:
    layers = FrozenLayers(make_tiny())
    for place in ("input", "both"):
        config = ner_config({"epochs": 2}, place=place)
        train_task("ner", data, data, None, tmp_path / place, config, layers=layers)
    assert load_task(tmp_path / "both", layers=layers).evaluate(data)["examples"] == 20
    assert len(embedded) == len(set(embedded)) == layers.num_sentences
    train_task("ner", data, data, make_tiny(), tmp_path / "alone", config)
    assert_equal(tmp_path / "both", tmp_path / "alone")


def test_layers_of_another_kind_are_refused(data: Path, tmp_path: Path) -> None:
    layers = FrozenLayers(make_tiny(), "top")

    def start(config: Any, model: Elmo | None = None) -> None:
        train_task("ner", data, data, model, tmp_path / "run", config, layers=layers)

    assert_refused(lambda: start(CONFIG), "'top'", "elmo.layers=mix")
    top = ner_config(layers="top")
    assert_refused(lambda: start(top, make_tiny()), "the Elmo that computes the layers")
    assert_refused(lambda: start(ner_config(layers="top", finetune=True)), "in advance")


def test_static_vectors_are_read_once(data: Path, tmp_path: Path) -> None:
    path, config = tmp_path / "static.txt", ner_config({"epochs": 2}, place="none")
    path.write_text(STATIC)
    static = read_static_vectors(path)
    train_task("ner", data, data, None, tmp_path / "path", config, static=path)
    train_task("ner", data, data, None, tmp_path / "object", config, static=static)
    assert_equal(tmp_path / "path", tmp_path / "object")
    record = json.loads((tmp_path / "object" / "task.json").read_text())
    assert record["static"] == str(path)
    longer = config.override("train.epochs=3")
    for name in ("path", "object"):  # resumed by their values, however they were given
        train_task("ner", data, data, None, tmp_path / name, longer, static=static, resume=True)
    train_task("ner", data, data, None, tmp_path / "object", longer, static=path, resume=True)
    other = StaticVectors(static.words, np.ones_like(static.matrix))
    assert_refused(
        lambda: train_task(
            "ner", data, data, None, tmp_path / "object", longer, static=other, resume=True
        ),
        "static is", "other vectors",
    )  # fmt: skip


def test_large_static_vectors_are_kept_for_the_data_only(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmokit.tasks.runs.train.STATIC_BYTES", 10)
    (tmp_path / "static.txt").write_text(STATIC + "zebra 1 2 3\n")
    static = read_static_vectors(tmp_path / "static.txt")
    config = ner_config({"epochs": 1}, place="none")
    train_task("ner", data, data, None, tmp_path / "run", config, static=static)
    assert (tmp_path / "run" / "words.txt").read_text().split() == ["met", "in", "paris", "Bob"]


def test_all_seeds_load_the_bilm_once(
    bilm: Path, data: Path, tmp_path: Path, loads: list[str], embedded: list[tuple[str, ...]]
) -> None:
    run = tmp_path / "run"
    train_task("ner", data, data, bilm, run, CONFIG, seeds=3, device="cpu")
    expected = [load_task(run, seed=n, device="cpu").evaluate(data)["f1"] for n in (1, 2, 3)]
    loads.clear(), embedded.clear()
    trained = list(load_seeds(run, device="cpu"))
    assert [model.evaluate(data)["f1"] for model in trained] == pytest.approx(expected)
    assert len(loads) == 1 and len(embedded) == len(set(embedded))
    loads.clear(), embedded.clear()
    done = CliRunner().invoke(app, ["evaluate", str(run), str(data), "--all-seeds", "--json"])
    assert [row["f1"] for row in json.loads(done.stdout)["seeds"]] == pytest.approx(expected)
    assert len(loads) == 1 and len(embedded) == len(set(embedded))


def test_a_tokenizer_that_is_a_function_is_refused(data: Path, bilm: Path, tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(bilm, tokenizer=str.split, device="cpu")
    assert_refused(
        lambda: train_task("ner", data, data, elmo, tmp_path / "run", CONFIG), "is a function"
    )
    config = CONFIG.override("tokenizer=whitespace")
    train_task("ner", data, data, elmo, tmp_path / "run", config)
    ((example, _),) = load_task(tmp_path / "run", model=elmo).predict_texts(["Bob met Anna."])
    assert example.tokens == ("Bob", "met", "Anna.")
