"""Every experiment, on data of a few lines: what is trained, shared, resumed and written."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reproduce_data import SIZES, write_layout
from strategies import assert_refused, make_tiny

import elmokit.reproduce.arms
from elmokit import Elmo, load_task
from elmokit.probes import read_semcor, read_sense_index, read_sense_set, wsd_probe
from elmokit.reproduce import EXPERIMENTS, Plan, reproduce
from elmokit.reproduce.arms import BASELINE, BOTH, ELMO, FREE, TOP, plan_job
from elmokit.reproduce.plan import Setup
from elmokit.tasks.parts.bilm import FrozenLayers

SMALL = {"seeds": 1, "epochs": 1, "settings": SIZES}


@pytest.fixture(scope="module")
def bilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bilm") / "tiny-bilm"
    make_tiny().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_layout(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def ner(data: Path, bilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of `ner` with two seeds."""
    out = tmp_path_factory.mktemp("ner")
    plan = Plan(**SMALL | {"seeds": 2, "epochs": 4})  # type: ignore[arg-type]
    assert reproduce("ner", data, bilm, out, plan, device="cpu") == out / "ner.md"
    return out


def run(name: str, data: Path, bilm: Path, out: Path, **plan: Any) -> dict[str, Any]:
    """The JSON of an experiment."""
    path = reproduce(name, data, bilm, out, Plan(**plan), device="cpu")
    return dict(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))


def setup(data: Path, bilm: Path, out: Path, **plan: Any) -> Setup:
    elmo = Elmo.from_pretrained(bilm, device="cpu")
    return Setup(
        name="table1", data=data, model=str(bilm), elmo=elmo, out=out, plan=Plan(**plan)
    )  # fmt: skip


def is_picture(path: Path) -> bool:
    return path.read_bytes()[:4] == b"\x89PNG"


def test_ner_is_four_ordinary_runs(ner: Path) -> None:
    assert sorted(p.name for p in (ner / "runs").iterdir()) == [
        "ner-input-mix-0.001", "ner-input-mix-1", "ner-input-top", "ner-none",
    ]  # fmt: skip
    found = json.loads((ner / "ner.json").read_text(encoding="utf-8"))
    for facts in found["runs"]:
        folder = ner / "runs" / facts["run"]
        metrics = json.loads((folder / "metrics.json").read_text())
        assert facts["mean"] == pytest.approx(100 * metrics["mean"])
        assert list(facts["scores"]) == ["1", "2"]
        assert facts["config"] == json.loads((folder / "task.json").read_text())["config"]
    base, *others = found["runs"]
    assert "gain" not in base
    for other in others:
        assert other["gain"] == pytest.approx(other["mean"] - base["mean"])
        reduction = 100 * other["gain"] / (100 - base["mean"])
        assert other["error_reduction"] == pytest.approx(reduction)
    assert found["bilm"]["parameters"] > 1000 and found["plan"]["seeds"] == 2
    dev = Path(base["dev"]["path"])
    scores = [load_task(ner / "runs" / "ner-none", seed=s).evaluate(dev)["f1"] for s in (1, 2)]
    assert [100 * score for score in scores] == pytest.approx(list(base["scores"].values()))


def test_markdown_of_ner(ner: Path) -> None:
    text = (ner / "ner.md").read_text(encoding="utf-8")
    found = json.loads((ner / "ner.json").read_text(encoding="utf-8"))
    lines = text.splitlines()
    for facts in found["runs"]:
        row = next(line for line in lines if line.startswith(f"| {facts['arm']} |"))
        assert f"{facts['mean']:.1f}" in row
    assert "| *paper†: ELMo* | *92.2 ± 0.1* | *+2.1* | *21.0 %* |" in lines
    assert "† Other data, other biLM (" in text and ": Table 1, CoNLL 2003 test data" in text
    assert "; lstm_dim 4, lstm_layers 1, dropout 0.5" in text and "adam with a learning" in text
    assert "20 training examples (ner/en-ewt/train.iob2), 8 to score" in text
    assert "at most 4 epochs" in text and "seeds 1, 2" in text and "biLM: tiny-bilm, " in text
    assert re.search(r"```\nelmokit reproduce ner --data .* --seeds 2 --epochs 4 .*\n```\n$", text)
    assert "![NER with and without ELMo](ner-weights.png)" in lines
    assert is_picture(ner / "ner-weights.png")


def test_resume_uses_what_is_there(ner: Path, data: Path, bilm: Path) -> None:
    plan = Plan(**SMALL | {"seeds": 2, "epochs": 4})  # type: ignore[arg-type]
    assert_refused(lambda: reproduce("ner", data, bilm, ner, plan), "ner.json", "--resume")
    before = (ner / "ner.json").read_text(encoding="utf-8")
    rows: list[Any] = []
    reproduce("ner", data, bilm, ner, plan, resume=True, device="cpu", on_row=rows.append)
    assert rows == [] and (ner / "ner.json").read_text(encoding="utf-8") == before
    # Table 2 of this task has the same runs; a run that is there is never trained over.
    tables = Plan(**SMALL | {"seeds": 2, "epochs": 4, "tasks": ("ner",)})  # type: ignore[arg-type]
    assert_refused(
        lambda: reproduce("table2", data, bilm, ner, tables, device="cpu"), "ner-none", "--resume"
    )
    path = reproduce(
        "table2", data, bilm, ner, tables, resume=True, device="cpu", on_row=rows.append
    )
    assert rows == [] and "| NER (F1) |" in path.read_text(encoding="utf-8")
    # The row of a task is not lost when another is asked for.
    one_more = Plan(**SMALL | {"seeds": 2, "tasks": ("sentiment",)})  # type: ignore[arg-type]
    assert_refused(
        lambda: reproduce("table2", data, bilm, ner, one_more, resume=True),
        "table2.json has ner", "--tasks ner,sentiment",
    )  # fmt: skip
    other = Plan(**SMALL | {"epochs": 3})  # type: ignore[arg-type]
    assert_refused(
        lambda: reproduce("ner", data, bilm, ner, other, resume=True, device="cpu"),
        "ner-none", "train.epochs is 4 there and 3 now",
    )  # fmt: skip


def test_an_interrupted_experiment_goes_on(data: Path, bilm: Path, tmp_path: Path) -> None:
    plan = Plan(**SMALL | {"epochs": 2})  # type: ignore[arg-type]
    started: list[str] = []

    def interrupt(name: str, number: int, total: int) -> None:
        assert (number, total) == (len(started) + 1, 4)
        started.append(name)
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce("sst5", data, bilm, tmp_path, plan, device="cpu", on_run=interrupt)
    assert started == ["sentiment-none", "sentiment-both-top"]
    assert not (tmp_path / "sst5.md").exists()
    rows: list[Any] = []
    path = reproduce(
        "sst5", data, bilm, tmp_path, plan, resume=True, device="cpu", on_row=rows.append
    )
    assert len(rows) == 3 * 2  # the baseline is done
    assert "| SST-5 | dev accuracy |" in path.read_text(encoding="utf-8")


def test_arms_differ_in_elmo_only(data: Path, bilm: Path, tmp_path: Path) -> None:
    settings = (*SIZES, "sentiment.train.lr=0.5")
    place = setup(data, bilm, tmp_path, epochs=3, fraction=0.5, settings=settings)
    jobs = {arm: plan_job(place, "ner", arm) for arm in (BASELINE, ELMO, TOP, FREE, BOTH)}
    assert [job.name for job in jobs.values()] == [
        "ner-none", "ner-input-mix-0.1", "ner-input-top", "ner-input-mix-0.001",
        "ner-both-mix-0.1",
    ]  # fmt: skip
    plain = {json.dumps(job.config.to_dict() | {"elmo": None}) for job in jobs.values()}
    assert len(plain) == 1
    config = jobs[ELMO].config
    assert (config.train.epochs, config.train.fraction, config.train.lr) == (3, 0.5, 1e-3)
    assert config.to_dict()["lstm_dim"] == 4 and config.tokenizer == "regex"
    assert plan_job(place, "sentiment", ELMO).config.train.lr == 0.5
    tuned = setup(data, bilm, tmp_path, settings=("elmo.finetune=true",))
    assert plan_job(tuned, "ner", ELMO).config.elmo.finetune
    assert not plan_job(tuned, "ner", BASELINE).config.elmo.finetune
    none = setup(data, bilm, tmp_path, settings=("elmo.place=none",))
    assert_refused(lambda: plan_job(none, "ner", ELMO), "elmo.place")


def test_a_share_is_learned_for_longer(data: Path, bilm: Path, tmp_path: Path) -> None:
    place = setup(data, bilm, tmp_path, epochs=6, fraction=0.5)
    whole, small = (plan_job(place, "ner", ELMO, share) for share in (1.0, 0.04))
    assert small.name == "ner-input-mix-0.1-share-0.04"
    assert (small.config.train.fraction, small.config.train.epochs) == (0.02, 30)
    assert small.config.train.patience == 5 * whole.config.train.patience
    assert whole == plan_job(place, "ner", ELMO)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a model, static vectors and the layers of a sentence were read or computed."""
    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str, key: str) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            counts[key] += 1
            return original(*args, **options)

        is_class_method = getattr(original, "__self__", None) is owner
        monkeypatch.setattr(owner, name, staticmethod(call) if is_class_method else call)

    counted(Elmo, "from_pretrained", "model")
    counted(elmokit.reproduce.arms, "read_static_vectors", "static")
    counted(FrozenLayers, "_new_block", "layers")
    return counts


def test_an_experiment_loads_and_computes_once(
    loads: Counter[str], data: Path, bilm: Path, tmp_path: Path
) -> None:
    run("ner", data, bilm, tmp_path, **SMALL)
    # The top layer once, all layers once for both mixes; the development data repeat the training
    # data, so they need no layers of their own.
    assert loads == {"model": 1, "static": 1, "layers": 2}


def test_an_experiment_uses_a_loaded_model(
    loads: Counter[str], data: Path, bilm: Path, tmp_path: Path
) -> None:
    elmo = Elmo.from_pretrained(bilm, device="cpu")
    plan = Plan(**SMALL | {"tasks": ("ner",)})  # type: ignore[arg-type]
    path = reproduce("figure2", data, elmo, tmp_path / "loaded", plan)
    again = reproduce("figure2", data, bilm, tmp_path / "by-path", plan, device="cpu")
    assert loads["model"] == 2
    one, two = (json.loads(p.with_suffix(".json").read_text("utf-8")) for p in (path, again))
    assert one["bilm"] == two["bilm"] and one["columns"] == two["columns"]


def test_a_probe_loads_the_model_once(
    loads: Counter[str], data: Path, bilm: Path, tmp_path: Path
) -> None:
    run("table6", data, bilm, tmp_path, max_sentences=2)
    assert loads["model"] == 1


def test_a_loaded_model_must_have_a_name(data: Path, tmp_path: Path) -> None:
    assert_refused(lambda: reproduce("ner", data, make_tiny(), tmp_path / "o"), "from_pretrained")


def test_figure1(data: Path, bilm: Path, tmp_path: Path) -> None:
    found = run("figure1", data, bilm, tmp_path, fractions=(0.25, 1.0), **SMALL)
    assert is_picture(tmp_path / "figure1.png")
    (curve,) = found["curves"]
    assert curve["task"] == "ner" and [s["share"] for s in curve["shares"]] == [0.25, 1.0]
    assert [s["with"]["train"]["examples"] for s in curve["shares"]] == [5, 20]
    assert [s["without"]["config"]["train"]["epochs"] for s in curve["shares"]] == [2, 1]
    text = (tmp_path / "figure1.md").read_text(encoding="utf-8")
    assert "| 25 % | 5 | NER F1 |" in text and "![" in text and "NER: " in text
    # The runs on all data are those of Table 1.
    assert (tmp_path / "runs" / "ner-none").is_dir()


def test_figure2_leaves_out_what_has_no_data(data: Path, bilm: Path, tmp_path: Path) -> None:
    found = run("figure2", data, bilm, tmp_path, **SMALL)
    assert is_picture(tmp_path / "figure2.png")
    places = [(column["task"], column["place"]) for column in found["columns"]]
    assert places == [
        ("ner", "input"), ("sentiment", "input"), ("ner", "output"), ("sentiment", "output"),
    ]  # fmt: skip
    for column in found["columns"]:
        weights = json.loads(
            (tmp_path / "runs" / _run_of(found, column["task"]) / "weights.json").read_text()
        )
        assert column["weights"] == pytest.approx(weights["seed-1"][column["place"]]["weights"])
        assert sum(column["weights"]) == pytest.approx(1)
    text = (tmp_path / "figure2.md").read_text(encoding="utf-8")
    assert "- squad is left out: " in text and "squad/train.json" in text


def _run_of(found: dict[str, Any], task: str) -> str:
    return next(str(facts["run"]) for facts in found["runs"] if facts["task"] == task)


def test_tables_1_and_3(data: Path, bilm: Path, tmp_path: Path) -> None:
    found = run("table1", data, bilm, tmp_path, **SMALL)
    text = (tmp_path / "table1.md").read_text(encoding="utf-8")
    assert [facts["run"] for facts in found["runs"]] == [
        "ner-none", "ner-input-mix-0.1", "sentiment-none", "sentiment-both-mix-0.001",
    ]  # fmt: skip
    row = next(line for line in text.splitlines() if line.startswith("| SST-5 (accuracy) |"))
    assert row.endswith("| *51.4* | *54.7 ± 0.5* | *+3.3* | *6.8 %* |")
    assert re.search("- srl is left out: .* has no srl/train.jsonl", text)
    assert_refused(
        lambda: run("table3", data, bilm, tmp_path / "3", **SMALL), "no task", "squad", "srl"
    )
    assert_refused(lambda: run("table3", data, bilm, tmp_path / "3", tasks=("srl",)), "srl/train")
    found = run("table3", data, bilm, tmp_path / "3", tasks=("ner",), **SMALL)
    assert [facts["arm"] for facts in found["runs"]] == ["input", "both", "output"]


def test_other_data_are_compared_alike(data: Path, bilm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "ko-3i4k"
    folder.mkdir(parents=True)
    lines = (f"{i % 2}\t{'뭐 해' if i % 2 else '그래 가'} {i}" for i in range(60))
    (folder / "train.txt").write_text("\n".join(lines), "utf-8")
    found = run("3i4k", tmp_path / "data", bilm, tmp_path / "out", **SMALL)
    runs = found["runs"]
    assert [facts["run"] for facts in runs] == [
        "3i4k-none", "3i4k-both-top", "3i4k-both-mix-1", "3i4k-both-mix-0.001",
    ]  # fmt: skip
    for facts in runs:
        assert facts["static"] is None and facts["task"] == "3i4k"
        sizes = facts["train"]["examples"], facts["dev"]["examples"]
        assert sum(sizes) == 60 and 0 < sizes[1] < 20
    text = (tmp_path / "out" / "3i4k.md").read_text(encoding="utf-8")
    assert "# 3i4K with and without ELMo" in text and "| *paper†: ELMo* | *54.7 ± 0.5* |" in text
    assert_refused(
        lambda: run("klue", data, bilm, tmp_path / "no", **SMALL), "has no ner/ko-klue/*.tsv"
    )


def test_table5_is_the_probe(data: Path, bilm: Path, tmp_path: Path) -> None:
    found = run("table5", data, bilm, tmp_path)
    expected = wsd_probe(
        Elmo.from_pretrained(bilm, device="cpu"),
        list(read_semcor(data / "wsd/semcor/brown1.jsonl")),
        [read_sense_set(data / "wsd/toy")],
        read_sense_index(data / "wsd/wordnet/index.sense"),
    )
    assert found["result"] == expected.to_dict()
    lines = (tmp_path / "table5.md").read_text(encoding="utf-8").splitlines()
    assert "| first sense | 0.0 | 0.0 | *65.9* |" in lines
    assert "| layer 2 | 100.0 | 100.0 | *69.0* |" in lines
    assert "- 1 of 1 sentences of SemCor, 1 senses of the tested words" in lines


def test_table6(data: Path, bilm: Path, tmp_path: Path) -> None:
    found = run("table6", data, bilm, tmp_path, max_sentences=2)
    assert (
        found["result"]["train_sentences"] == 2 and "static vectors" in found["result"]["accuracy"]
    )
    assert found["result"]["tags"] == ["DT", "NN", "VBZ"]
    text = (tmp_path / "table6.md").read_text(encoding="utf-8")
    assert "| layer 1 | 100.0 | *97.3* |" in text and "2 of 4 training sentences" in text
    korean = run("table6", data, bilm, tmp_path, language="ko")
    assert (tmp_path / "table6-ko.md").is_file()
    assert korean["result"]["tags"] == ["DET", "NOUN", "VERB"]
    assert korean["result"]["static_coverage"] is None


def test_a_figure_needs_matplotlib_from_the_start(
    data: Path, bilm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmokit.figures.new_axes", lambda *size: None)
    assert_refused(lambda: run("figure1", data, bilm, tmp_path / "o"), "elmokit[plot]")
    assert not (tmp_path / "o").exists()


def test_what_cannot_work(data: Path, bilm: Path, tmp_path: Path) -> None:
    assert_refused(lambda: reproduce("table4", data, bilm, tmp_path), "table4", *EXPERIMENTS)
    assert_refused(lambda: run("table5", data, bilm, tmp_path, seeds=2), "does not read seeds")
    assert_refused(lambda: run("ner", tmp_path / "no", bilm, tmp_path), "no such folder")
    assert_refused(lambda: run("ner", tmp_path, bilm, tmp_path / "o"), "glove/*.txt")
    assert_refused(lambda: run("ner", data, tmp_path / "lost", tmp_path / "o"), "lost")
    assert not (tmp_path / "o").exists()


def test_what_a_killed_report_leaves_is_in_nobodys_way(
    data: Path, bilm: Path, tmp_path: Path
) -> None:
    plan = Plan(max_sentences=2)
    path = reproduce("table6", data, bilm, tmp_path, plan, device="cpu")
    (tmp_path / ".table6.json.123.partial").write_text("{")
    assert reproduce("table6", data, bilm, tmp_path, plan, device="cpu", resume=True) == path


@pytest.mark.parametrize("runs", [3, [3], [{}], [{"task": 3}]])
def test_a_damaged_result_is_an_error_that_names_it(
    runs: Any, data: Path, bilm: Path, tmp_path: Path
) -> None:
    (tmp_path / "ner.json").write_text(json.dumps({"runs": runs}))
    plan = Plan(**SMALL)  # type: ignore[arg-type]
    assert_refused(
        lambda: reproduce("ner", data, bilm, tmp_path, plan, device="cpu", resume=True),
        "ner.json",
        "runs",
    )
