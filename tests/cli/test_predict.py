"""`elmokit predict`: rows about the user's text, and the files that each task trains on."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from result_data import FRAMES, SCHEMA, TEXTS, write_task_data
from task_data import tagged_lines

from elmokit import train_task
from elmokit.errors import ConfigError
from elmokit.tasks import find_task

Trained = Callable[[str], tuple[Path, Path]]
KLUE = "## klue-ner-1\t<서울:LC>에 산다.\n서\tB-LC\n울\tI-LC\n에\tO\n \tO\n산\tO\n다\tO\n.\tO\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Gives the folder of a tiny run of a task, and the file that it was trained on."""
    runs: dict[str, tuple[Path, Path]] = {}

    def train(task: str) -> tuple[Path, Path]:
        if task not in runs:
            folder = tmp_path_factory.mktemp(task)
            data, config = write_task_data(task, folder)
            train_task(task, data, data, None, folder / "run", config, device="cpu")
            runs[task] = folder / "run", data
        return runs[task]

    return train


def rows_of(run: Any, *arguments: object) -> list[dict[str, Any]]:
    """What `predict --json` prints, checked against the schema."""
    rows = [json.loads(line) for line in run("predict", *arguments, "--json").stdout.splitlines()]
    for row in rows:
        SCHEMA.validate(row)
    return rows


@pytest.mark.parametrize("task", TEXTS)
def test_lines_of_text_give_a_row_each_and_blank_ones_an_empty_row(
    run: Any, trained: Trained, tmp_path: Path, task: str
) -> None:
    out, _ = trained(task)
    path = tmp_path / "in.txt"
    line = "\t".join(TEXTS[task])
    path.write_text(f"{line}\n\n{line}\n", encoding="utf-8")
    first, blank, last = rows_of(run, out, path)
    assert first["task"] == blank["task"] == task and first["text"] == last["text"]
    assert blank.keys() == first.keys() and not blank["text"].strip()
    empty = [blank.get(name) for name in ("entities", "frames", "clusters", "label", "answer")]
    assert not any(empty)


@pytest.mark.parametrize(
    ("task", "number"),
    [("ner", 20), ("classify", 20), ("snli", 2), ("srl", 3), ("coref", 4), ("squad", 20)],
)
def test_the_file_that_a_task_trains_on_can_be_predicted(
    run: Any, trained: Trained, task: str, number: int
) -> None:
    out, data = trained(task)
    rows = rows_of(run, out, data)
    assert len(rows) == number and all(row["text"] for row in rows)
    if task == "ner":
        assert rows[1]["text"].startswith("Bob met Bob")
        assert sum(map(len, (row["tokens"] for row in rows))) == sum(
            bool(line) for line in tagged_lines().splitlines()
        )
    elif task == "squad":
        assert [row["id"] for row in rows[:4]] == ["0-0", "0-1", "0-2", "0-3"]
    elif task == "srl":
        assert [len(row["frames"]) for row in rows] == [1, 1, 0]
    elif task == "classify":
        assert rows[0]["text"] == "a fine film !"
    assert run("predict", out, data).stdout.strip()


def test_labels_in_a_file_do_not_matter(run: Any, trained: Trained, tmp_path: Path) -> None:
    out, data = trained("ner")
    expected = rows_of(run, out, data)
    for ending, replacement in (("conll", "\tODD"), ("bio", "")):
        path = tmp_path / f"other.{ending}"
        lines = [line.split("\t")[0] for line in data.read_text(encoding="utf-8").splitlines()]
        path.write_text("".join(f"{w}{replacement * bool(w)}\n" for w in lines), encoding="utf-8")
        assert rows_of(run, out, path) == expected
    out, _ = trained("snli")
    path = tmp_path / "pairs.tsv"
    path.write_text("id\tsentence1\tsentence2\n1\ta dog\tit runs\n2\t\tx\n", encoding="utf-8")
    first, empty = rows_of(run, out, path)
    assert (first["premise"], first["hypothesis"]) == ("a dog", "it runs")
    assert first["label"] in ("yes", "no") and empty["label"] is None
    out, _ = trained("squad")
    path = tmp_path / "asked.json"
    paragraph = {"context": "Bob came.", "qas": [{"question": "Who?"}, {"question": " "}]}
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}), encoding="utf-8")
    first, empty = rows_of(run, out, path)
    assert first["answer"] and first["id"] is None and empty["answer"] is None
    out, _ = trained("coref")
    path = tmp_path / "story.v4_gold_conll"
    cells = "\n".join(f"a 0 {i} {word} - odd" for i, word in enumerate(["Anna", "sings"]))
    path.write_text(f"#begin document (a); part 000\n{cells}\n#end document\n", encoding="utf-8")
    assert rows_of(run, out, path)[0]["text"] == "Anna sings"
    out, _ = trained("srl")
    path = tmp_path / "asked.jsonl"
    row = {"words": FRAMES[0]["words"], "frames": [{"pred": 1}, {"pred": 3}]}
    path.write_text(json.dumps(row), encoding="utf-8")
    (found,) = rows_of(run, out, path)
    assert [frame["predicate"]["text"] for frame in found["frames"]] == ["gave", "tea"]


def test_the_format_is_the_suffixs_or_the_options_never_a_guess(
    run: Any, trained: Trained, tmp_path: Path
) -> None:
    format_of = find_task("classify").format_of
    for name, expected in (
        ("a.tsv", "tsv"), ("A.TSV.gz", "tsv"), ("a.jsonl.zst", "jsonl"), ("b.trees", "trees"),
        ("a.txt", "text"), ("-", "text"), ("a", "text"), ("a.gz", "text"),
    ):  # fmt: skip
        assert format_of(name) == expected
    with pytest.raises(ConfigError, match="--format: conll, klue, text"):
        find_task("ner").format_of("train.tsv")
    out, data = trained("classify")
    renamed = tmp_path / "data.txt"
    renamed.write_bytes(data.read_bytes())
    assert len(rows_of(run, out, renamed)) == 21  # the header is a line of text, too
    packed = tmp_path / "data.tsv.gz"
    packed.write_bytes(gzip.compress(data.read_bytes()))
    expected_rows = rows_of(run, out, data)
    assert rows_of(run, out, packed) == expected_rows
    assert rows_of(run, out, renamed, "--format", "tsv") == expected_rows
    tree = tmp_path / "trees.txt"
    tree.write_text("(3 (2 a) (4 fine))\n", encoding="utf-8")
    assert [row["text"] for row in rows_of(run, out, tree, "--format", "trees")] == ["a fine"]
    wrong = run("predict", out, data, "--format", "conll", code=1).stderr
    assert "format 'conll'" in wrong and "text, tsv, jsonl, trees" in wrong
    assert wrong.count("\n") == 1
    (tmp_path / "bad.tsv").write_text("a\tb\n1\t2\n")
    assert "there is no column 'text'" in run("predict", out, tmp_path / "bad.tsv", code=1).stderr


def test_korean_characters_of_klue_are_read_as_one_text(
    run: Any, trained: Trained, tmp_path: Path
) -> None:
    out, _ = trained("ner")
    path = tmp_path / "klue.tsv"
    path.write_text(KLUE, encoding="utf-8")
    (row,) = rows_of(run, out, path, "--format", "klue")
    assert row["text"] == "서울에 산다." and row["tokens"] == ["서울에", "산다", "."]
    for entity in row["entities"]:
        assert row["text"][entity["start"] : entity["end"]] == entity["text"]


def test_korean_text_is_answered_in_its_own_characters(
    run: Any, trained: Trained, tmp_path: Path
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("김 민수 met Anna Lee in 서울 .\n", encoding="utf-8")
    out, _ = trained("ner")
    printed = run("predict", out, path, "--json").stdout
    assert "김 민수 met" in printed and "\\u" not in printed
    path.write_text("누가 왔나?\t1901년에 김민수가 로마에 왔다.\n", encoding="utf-8")
    (row,) = rows_of(run, trained("squad")[0], path)
    assert row["answer"] == row["text"][row["start"] : row["end"]]
    path.write_text("김민수는 서울에서 [태어났다] .\n", encoding="utf-8")
    (row,) = rows_of(run, trained("srl")[0], path)
    assert row["frames"][0]["predicate"] == {"text": "태어났다", "start": 10, "end": 14}


def test_a_question_has_no_other_format(run: Any, trained: Trained) -> None:
    out, data = trained("squad")
    wrong = run("predict", out, data, "--question", "Who?", "--format", "squad", code=1).stderr
    assert "--format squad" in wrong and wrong.count("\n") == 1
