"""The paper's figures, the layout of the data, the plan and its command, tables."""

import gzip
import shlex
from pathlib import Path

import pytest
from strategies import assert_refused

from elmokit.reproduce.comparisons import fraction_reaching
from elmokit.reproduce.layout import DATA_SETS, find_all, find_one, task_data
from elmokit.reproduce.paper import TABLE1, error_reduction
from elmokit.reproduce.plan import Plan, command
from elmokit.reproduce.report import Table, gains, score


def test_reductions_are_those_that_the_paper_prints() -> None:
    printed = {"squad": 24.9, "snli": 5.8, "srl": 17.2, "coref": 9.8, "ner": 21, "sentiment": 6.8}
    for task, expected in printed.items():
        found = error_reduction(TABLE1[task].baseline, TABLE1[task].elmo)
        assert found == pytest.approx(expected, abs=0.06), task
    assert error_reduction(100, 100) == 0


def test_files_are_found_plain_or_compressed(tmp_path: Path) -> None:
    folder = tmp_path / "ner" / "en-ewt"
    folder.mkdir(parents=True)
    for name in ("train.iob2.gz", "dev.iob2.xz", "dev.iob2"):
        (folder / name).write_bytes(b"")
    train, dev = task_data(tmp_path, "ner")
    assert (train.name, dev.name) == ("train.iob2.gz", "dev.iob2")
    assert [p.name for p in find_all(tmp_path, "ner/*/*.iob2")] == ["dev.iob2", "train.iob2.gz"]


def test_missing_data_are_named(tmp_path: Path) -> None:
    assert_refused(lambda: task_data(tmp_path / "no", "ner"), "no such folder", "--data")
    for name, found in DATA_SETS.items():
        assert_refused(lambda name=name: task_data(tmp_path, name), str(tmp_path), found.train)
    assert_refused(lambda: task_data(tmp_path, "parsing"), "parsing")
    for name in ("a.txt", "b.txt.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b""))
    assert_refused(lambda: find_one(tmp_path, "*.txt"), "a.txt, b.txt.gz", "one file")


def test_command_says_the_plan() -> None:
    plan = Plan(seeds=2, fractions=(0.5, 1), tasks=("ner", "srl"), settings=("a.b=1", "x=a b"))
    text = command("figure1", Path("my data"), "bilm", Path("out"), plan)
    assert shlex.split(text) == [
        "elmokit", "reproduce", "figure1", "--data", "my data", "--model", "bilm", "-o", "out",
        "--seeds", "2", "--fractions", "0.5,1", "--tasks", "ner,srl", "--set", "a.b=1",
        "--set", "x=a b",
    ]  # fmt: skip
    assert Plan(max_sentences=5, language="ko").arguments() == [
        "--language", "ko", "--max-sentences", "5",
    ]  # fmt: skip
    assert Plan().arguments() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"seeds": 0}, {"epochs": 0}, {"fraction": 0.0}, {"fraction": 1.5}, {"language": "fr"},
        {"fractions": (1.0,)}, {"fractions": (0.5, 0.1, 1)}, {"fractions": (0.1, 0.5)},
    ],
)  # fmt: skip
def test_plans_that_cannot_work(wrong: dict[str, object]) -> None:
    assert_refused(lambda: Plan(**wrong), next(iter(wrong)))  # type: ignore[arg-type]


def test_tables_and_numbers() -> None:
    table = Table(("a", "b"), [("x|y", "1")])
    assert str(table) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |"
    assert (score(50), score(50, 0.0), score(50, 1.26)) == ("50.0", "50.0", "50.0 ± 1.3")
    assert gains(80, 78) == ("-2.0", "-10.0 %")


def test_share_that_is_enough() -> None:
    shares, scores = (0.01, 0.1, 1.0), (50.0, 60.0, 80.0)
    assert fraction_reaching(shares, scores, 60) == pytest.approx(0.1)
    assert fraction_reaching(shares, scores, 55) == pytest.approx(0.1**1.5)
    assert fraction_reaching(shares, scores, 40) == 0.01
    assert fraction_reaching(shares, scores, 81) is None
