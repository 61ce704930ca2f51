"""Translation: it learns, resumes, and answers about any text, with ELMo and without."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from generation_data import pairs, translate_config, write_pairs
from result_data import SCHEMA
from safetensors.torch import load_file
from strategies import assert_refused, make_tiny
from typer.testing import CliRunner

from elmokit import Elmo
from elmokit.cli.app import app
from elmokit.errors import ConfigError
from elmokit.tasks.parts.bilm import FrozenLayers
from elmokit.tasks.parts.embedding import TokenReader
from elmokit.tasks.parts.generation import SIZES, DecodeConfig, SourceText
from elmokit.tasks.results import TranslateResult
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.task import new_model
from elmokit.tasks.translate import TranslateConfig, TranslateTask
from elmokit.text.reader import Reader

pytest.importorskip("sentencepiece", reason="needs elmokit[generate]")
pytest.importorskip("sacrebleu", reason="needs elmokit[generate]")

SHORT = {"epochs": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A biLM and a file of pairs."""
    folder = tmp_path_factory.mktemp("data")
    make_tiny().save_pretrained(folder / "bilm")
    return {"bilm": folder / "bilm", "pairs": write_pairs(folder / "pairs.tsv"), "folder": folder}


def start(data: dict[str, Path], out: Path, config: TranslateConfig, **more: Any) -> Any:
    model = None if config.elmo.place == "none" else data["bilm"]
    files = data["pairs"], data["pairs"]
    return train_task("translate", *files, model, out, config, device="cpu", **more)


@pytest.fixture(scope="module")
def run(data: dict[str, Path]) -> Path:
    """A run that has learned the pairs by heart."""
    out = data["folder"] / "learned"
    start(data, out, translate_config())
    return out


def test_twenty_pairs_are_learned_by_heart(run: Path, data: dict[str, Path]) -> None:
    trained = load_task(run, device="cpu")
    assert trained.score == pytest.approx(100.0)
    scores = trained.evaluate(data["pairs"])
    assert scores["bleu"] == pytest.approx(100.0) and scores["chrf"] == pytest.approx(100.0)
    assert "tok:13a" in scores["bleu_signature"] and scores["examples"] == 20
    texts, expected = zip(*pairs(), strict=True)
    assert tuple(r.translation for r in trained(list(texts))) == expected


@pytest.mark.parametrize(
    "changes", [{"joint": False}, {"source_embedding": False}, {"elmo": {"place": "none"}}]
)
def test_the_other_arms_learn_too(
    changes: dict[str, Any], data: dict[str, Path], tmp_path: Path
) -> None:
    config = translate_config({"epochs": 20}, **changes)
    losses = []
    start(data, tmp_path / "run", config, on_row=lambda row: losses.append(row["loss"]))
    assert losses[-1] < losses[0] / 2
    names = {path.name for path in (tmp_path / "run").glob("*.model")}
    is_joint = changes.get("joint", True)
    assert names == ({"units.model"} if is_joint else {"source-units.model", "target-units.model"})
    assert load_task(tmp_path / "run", device="cpu")("Anna eats bread.").translation


def test_the_settings_follow_the_number_of_pairs_and_are_recorded(
    data: dict[str, Path], tmp_path: Path
) -> None:
    config = translate_config({"epochs": 1}, elmo={"place": "none"}, batch_units=40, layers=None)
    start(data, tmp_path / "run", config)
    record = json.loads((tmp_path / "run/task.json").read_text())["config"]
    assert record["layers"] == SIZES[0][1]["layers"] and record["units"] == 400
    assert 1 < record["train"]["batch_size"] < 10


def test_resumed_equals_unbroken(data: dict[str, Path], tmp_path: Path) -> None:
    config = translate_config({"epochs": 4}, elmo={"dropout": 0.3}, dropout=0.3, word_dropout=0.2)
    start(data, tmp_path / "whole", config)

    def interrupt(row: dict[str, Any]) -> None:
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(data, tmp_path / "broken", config, on_row=interrupt)
    units = (tmp_path / "broken/units.model").read_bytes()
    start(data, tmp_path / "broken", config, resume=True)
    assert (tmp_path / "broken/units.model").read_bytes() == units
    logs = [(tmp_path / n / "seed-1/log.jsonl").read_text() for n in ("whole", "broken")]
    losses = [[json.loads(line)["loss"] for line in log.splitlines()] for log in logs]
    assert losses[0] == losses[1] and len(losses[0]) == 4
    models = [load_file(tmp_path / n / "seed-1/model.safetensors") for n in ("whole", "broken")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_gradients_reach_the_mix_and_not_the_bilm(tiny: Elmo) -> None:
    reader = Reader("regex")
    examples = [SourceText.read(s, reader, 100, (t,)) for s, t in pairs(4)]
    task = TranslateTask()
    config, files = task.learn(translate_config(joint=False), examples, {})
    layers = FrozenLayers(tiny)
    model = new_model(task.with_learned(files), config, {}, None, layers, 1)
    model.train().loss(examples, TokenReader(config.words, None, layers)).backward()
    mix = model.embedding.mixes["input"]
    assert mix.scalars.grad.abs().min() > 0 and mix.gamma.grad != 0
    assert all(p.grad is not None for p in model.parameters())
    assert all(p.grad is None for p in tiny.parameters())


def test_any_source_has_an_answer(run: Path) -> None:
    trained = load_task(run, device="cpu")
    texts = ["", " ", "Bob", "🙂", "Anna eats bread. " * 250, "\t"]
    results = trained(texts)
    assert [r.text for r in results] == texts
    assert [r.translation is None for r in results] == [True, True, False, False, False, True]
    assert all(isinstance(r, TranslateResult) and r.task == "translate" for r in results)
    assert trained([]) == []


def test_n_best_one_is_the_head_of_n_best_five_and_beam_one_is_greedy(run: Path) -> None:
    trained = load_task(run, device="cpu")
    texts = [source for source, _ in pairs(6)] + ["A house sees Bob and 3 dogs."]
    five = trained.decoding(beam=5, n_best=5)(texts)
    one = trained.decoding(beam=5, n_best=1)(texts)
    assert [r.hypotheses for r in one] == [r.hypotheses[:1] for r in five]
    for result in five:
        scores = [h.score for h in result.hypotheses]
        assert scores == sorted(scores, reverse=True) and 1 < len(scores) <= 5
        assert result.translation == result.hypotheses[0].text
    greedy = trained.decoding(beam=1, n_best=1)(texts)
    assert [len(r.hypotheses) for r in greedy] == [1] * len(texts)


def test_the_batch_of_a_text_does_not_change_its_translation(run: Path) -> None:
    trained = load_task(run, device="cpu")
    trained.model.double()
    read = trained.read
    trained.read = lambda sentences: _in_float64(read(sentences))
    texts = ["Bob", "The dog sells the red house today.", "A cat!", "Anna eats 3 €."]
    assert [r.translation for r in trained(texts)] == [trained(t).translation for t in texts]


def _in_float64(batch: Any) -> Any:
    return replace(batch, layers=batch.layers.double())


def test_the_alignment_has_a_row_per_unit_that_sums_to_one(run: Path) -> None:
    result = load_task(run, device="cpu").decoding(align=True)("Anna eats bread.")
    alignment = result.alignment
    assert "".join(alignment.source).replace("▁", " ") == " Anna eats bread."
    assert alignment.target[-1] == "</s>"
    assert "".join(alignment.target[:-1]).replace("▁", " ").strip() == result.translation
    assert len(alignment.weights) == len(alignment.target)
    for row in alignment.weights:
        assert len(row) == len(alignment.source) and sum(row) == pytest.approx(1, abs=1e-5)
    assert load_task(run, device="cpu")("Anna eats bread.").alignment is None


def test_parallel_files_are_the_same_pairs_as_a_table(
    data: dict[str, Path], tmp_path: Path
) -> None:
    for i, name in enumerate(("a.en", "a.es")):
        text = "".join(f"{pair[i]}\n" for pair in pairs())
        (tmp_path / name).write_text(text, encoding="utf-8")
    other = str(tmp_path / "a.es")
    config = translate_config(SHORT, {"place": "none"}, train_target=other, dev_target=other)
    source = tmp_path / "a.en"
    summary = train_task("translate", source, source, None, tmp_path / "run", config)
    table = start(data, tmp_path / "table", translate_config(SHORT, {"place": "none"}))
    assert summary["seeds"][0]["dev"] == table["seeds"][0]["dev"]
    trained = load_task(tmp_path / "run")
    assert trained.evaluate(source, other) == trained.evaluate(data["pairs"])


def test_settings_that_cannot_work_are_refused(run: Path, tmp_path: Path) -> None:
    for changes, mention in (
        ({"elmo": {"place": "both"}}, "elmo.place"),
        ({"elmo": {"place": "none"}, "source_embedding": False}, "source_embedding"),
        ({"dim": 31}, "dim=31"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ):
        with pytest.raises(ConfigError, match=mention):
            translate_config(**changes)
    with pytest.raises(ConfigError, match="n_best=3"):
        DecodeConfig(beam=2, n_best=3)
    assert_refused(lambda: load_task(run, device="cpu").decoding(n_best=9), "n_best=9", "beam=5")


def test_damaged_or_missing_units_are_refused(run: Path, tmp_path: Path) -> None:
    units = run / "units.model"
    data = units.read_bytes()
    try:
        units.write_bytes(data[:100])
        assert_refused(lambda: load_task(run, device="cpu"), "units.model")
        units.unlink()
        assert_refused(lambda: load_task(run, device="cpu"), "units.model")
    finally:
        units.write_bytes(data)


def test_the_command_line_gives_a_line_for_each_line(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_text("Anna eats bread.\n\nBob\n", encoding="utf-8")

    def predict(*options: str) -> Any:
        return CliRunner().invoke(app, ["predict", str(run), str(text), *options])

    plain = predict("--beam", "1")
    assert plain.exit_code == 0, plain.output
    assert len(plain.stdout.splitlines()) == 3 and plain.stdout.splitlines()[1] == ""
    rows = [
        json.loads(line)
        for line in predict("--json", "--n-best", "2", "--align").stdout.splitlines()
    ]
    assert [len(row["hypotheses"]) for row in rows] == [2, 0, 2]
    assert rows[0]["alignment"] and rows[1]["translation"] is None
    for row in rows:
        SCHEMA.validate(row)
