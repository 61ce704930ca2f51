"""`elmokit prepare` says what it found, in text or in JSON, and what is wrong, in one line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elmokit.corpus import Corpus


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    lines = [f"Line {i} is here. It has two sentences." for i in range(20)]
    path.write_text("\n".join([*lines, "", lines[0], "a" * 60, ""]), encoding="utf-8")
    return path


def test_report_is_for_a_person(run: Any, source: Path, tmp_path: Path) -> None:
    result = run("prepare", source, "-o", tmp_path / "out", "--vocab-size", 10)
    assert "several sentences" in result.stdout and "--sentences split" in result.stdout
    for mention in ("duplicates   1 line", "empty lines  1", "cropped      1 word", "coverage"):
        assert mention in result.stdout
    assert "--max-characters 62" in result.stdout
    assert "only 211 tokens" in result.stderr
    assert len(Corpus.open(tmp_path / "out").vocab) == 10


def test_report_as_json_is_that_of_the_corpus(run: Any, source: Path, tmp_path: Path) -> None:
    result = run("prepare", source, "-o", tmp_path / "out", "--json", "-q")
    values = json.loads(result.stdout)
    assert set(values.pop("memory")) == {"tiny", "small", "medium", "original"}
    assert values == Corpus.open(tmp_path / "out").info.report
    assert result.stderr == ""


def test_several_inputs_have_a_row_each(run: Any, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "reviews.txt"
    other.write_text("재밌다\n= 제목 =\n재밌다\n최고의 영화\n", encoding="utf-8")
    result = run(
        "prepare", source, other, "-o", tmp_path / "out", "--weight", "1,2.5", "--clean"
    )  # fmt: skip
    rows = [line.split() for line in result.stdout.splitlines()]
    inputs = next(i for i, row in enumerate(rows) if row[:2] == ["input", "weight"])
    assert rows[inputs + 1][1] == "1" and "split:" in rows[inputs + 1]
    assert rows[inputs + 2][0].endswith("reviews.txt") and rows[inputs + 2][1] == "2.5"
    assert "lines:" in rows[inputs + 2]
    cleaned = next(i for i, row in enumerate(rows) if row[:2] == ["cleaned", "changed"])
    assert rows[cleaned + 1][1:] == ["0", "0", "0", "1", "0"]
    assert rows[cleaned + 2][1:] == ["0", "1", "0", "1", "0"]
    assert rows[cleaned + 3] == ["all", "lines", "0", "1", "0", "2", "0"]
    facts = json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf-8"))
    assert facts["weights"] == [1.0, 2.5] and facts["clean"] is True


def test_many_inputs_do_not_flood_the_screen(run: Any, tmp_path: Path) -> None:
    names = [tmp_path / f"{i}.txt" for i in range(30)]
    for i, name in enumerate(names):
        name.write_text(f"This is text number {i}.\n", encoding="utf-8")
    result = run("prepare", *names, "-o", tmp_path / "out", "--clean")
    assert result.stdout.count(".txt") == 40 and "and 10 more; --json" in result.stdout


def test_quiet_says_nothing(run: Any, source: Path, tmp_path: Path) -> None:
    assert run("prepare", source, "-o", tmp_path / "out", "-q").output == ""


def test_options_reach_the_corpus(run: Any, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "valid.txt"
    other.write_text("Held out.\n", encoding="utf-8")
    run(
        "prepare", source, "-o", tmp_path / "out", "--tokenizer", "whitespace", "--sentences",
        "lines", "--max-length", 5, "--min-count", 2, "--max-characters", 20, "--valid", other,
        "--workers", 1,
    )  # fmt: skip
    corpus = Corpus.open(tmp_path / "out")
    assert corpus.info.tokenizer == "whitespace" and corpus.characters.shape[1] == 20
    assert len(corpus.valid) == 1 and corpus.train.lengths.max() <= 5
    assert "sentences." in corpus.vocab and "19" not in corpus.vocab


def test_failures_are_one_line(run: Any, source: Path, tmp_path: Path) -> None:
    for arguments, mention in (
        ((tmp_path / "none", "-o", tmp_path / "out"), "none: no such file"),
        ((source, "-o", tmp_path / "out", "--tokenizer", "nltk"), "tokenizer='nltk'"),
        ((source, "-o", source), "in the way"),
        ((source, "-o", tmp_path / "out", "--weight", "1,2"), "weights: 2, inputs: 1"),
        ((source, "-o", tmp_path / "out", "--weight", "two"), "--weight two: expected one number"),
        ((source, "-o", tmp_path / "out", "--weight", "0"), "above 0 and up to 100"),
    ):
        result = run("prepare", *arguments, code=1)
        assert result.stdout == "" and result.stderr.count("\n") == 1 and mention in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_wrong_usage_exits_with_2(run: Any, source: Path) -> None:
    assert "Usage: " in run("prepare", source, code=2).stderr
    assert "Usage: " in run("prepare", source, "-o", "x", "--sentences", "words", code=2).stderr


def test_standard_input(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elmokit", "prepare", "-", "-o", tmp_path / "out", "-q"]
    with source.open("rb") as file:
        subprocess.run(command, stdin=file, check=True)
    assert Corpus.open(tmp_path / "out").info.report["lines"] == 23
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out"]
