"""`elmokit train squad`, and `elmokit predict` with a question for a person to ask."""

import json
from pathlib import Path
from typing import Any

from squad_data import write_squad
from task_data import write_data

SIZES = ("gru_dim=6", "words.dim=6", "words.char_filters=6", "train.epochs=1", "train.ema=0")
OPTIONS = [part for size in SIZES for part in ("--set", size)]


def test_questions_from_the_command_line(run: Any, tmp_path: Path) -> None:
    data, out = write_squad(tmp_path), tmp_path / "run"
    result = run("train", "squad", "--train", data, "--dev", data, "-o", out, "--elmo", "none",
                 "-q", *OPTIONS)  # fmt: skip
    assert "dev f1" in result.stdout and result.stderr == ""
    metrics = json.loads(run("evaluate", out, data, "--json").stdout)
    assert metrics.keys() == {"text", "seed", "f1", "exact_match", "examples"}
    assert metrics["examples"] == 20

    context = "In 1901, Bob\ncame to Rome."
    asked = ("--question", "Who came?", "--question", "Where?")
    (tmp_path / "in.txt").write_text(context, encoding="utf-8")
    from_file = run("predict", out, tmp_path / "in.txt", *asked, "--json").stdout
    rows = [json.loads(line) for line in from_file.splitlines()]
    assert [row["question"] for row in rows] == ["Who came?", "Where?"]
    for row in rows:
        assert row["answer"] == context[row["start"] : row["end"]] != ""
        assert 0 < row["probability"] <= 1
    assert run("predict", out, "--context", context, *asked, "--json").stdout == from_file
    (tmp_path / "lines.txt").write_text(f"Who came?\tBob came.\n\n{json.dumps(rows[0])}\n")
    wrong = run("predict", out, tmp_path / "lines.txt", code=1).stderr
    assert "'context'" in wrong and wrong.count("\n") == 1
    (tmp_path / "lines.txt").write_text("Who came?\tBob came.\n\n")
    answer, nothing = run("predict", out, tmp_path / "lines.txt").stdout.splitlines()
    assert answer in "Bob came." and nothing == ""
    line = json.dumps({"id": "q1", "question": "Who came?", "context": "Bob came."})
    (tmp_path / "lines.txt").write_text(f"{line}\n")
    row = json.loads(run("predict", out, tmp_path / "lines.txt", "--json").stdout)
    assert (row["id"], row["answer"]) == ("q1", answer)
    for question, context in (("  ", "Bob came."), ("Who?", "\n")):
        asked = ("--question", "When?", "--question", question, "--context", context)
        assert "is empty" in run("predict", out, *asked, code=1).stderr


def test_questions_are_for_squad_and_need_a_text(run: Any, tmp_path: Path) -> None:
    data, out = write_data(tmp_path)[0], tmp_path / "run"
    sizes = ("lstm_dim=6", "words.dim=6", "words.char_filters=6", "train.epochs=1")
    options = [part for size in sizes for part in ("--set", size)]
    run("train", "ner", "--train", data, "--dev", data, "-o", out, "--elmo", "none", "-q", *options)
    asked = ("--question", "Who?", "--context", "Bob.")
    assert "a run of ner, not of squad" in run("predict", out, *asked, code=1).stderr
    assert "expected --question" in run("predict", out, "--context", "Bob.", code=1).stderr
    assert "no other TEXT" in run("predict", out, data, *asked, code=1).stderr
