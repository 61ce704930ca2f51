"""`elmokit train summarise --method extract`, and what its run says."""

import json
import re
from pathlib import Path
from typing import Any


def test_the_command_line_summarises_by_extraction(run: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    row = {"source": "We sing a song. They do not.", "target": "we sing"}
    data.write_text(f"{json.dumps(row)}\n" * 4, "utf-8")
    out, sizes = tmp_path / "run", ("train.epochs=1", "dim=4", "words.dim=4", "words.min_count=1")
    options = [part for size in sizes for part in ("--set", size)]
    common = ("--train", data, "--dev", data, "--elmo", "none", "-o", out, *options, "-q")
    run("train", "summarise", "--method", "extract", *common)
    printed = run("evaluate", out, data).stdout
    assert re.search(r"^rule +F1, .* best reference per type", printed, re.MULTILINE)
    for name in ("first", "lead", "labelled"):
        assert re.search(rf"^{name} +rouge1 \d+\.\d{{4}} ", printed, re.MULTILINE)
    scores = json.loads(run("evaluate", out, data, "--json").stdout)
    assert {"rouge1", "rouge2", "rougeL", "first", "lead", "labelled", "rule"} <= scores.keys()
    path = tmp_path / "texts.txt"
    path.write_text("We sing. No.\n\nWe sing.\n", "utf-8")
    first, blank, last = run("predict", out, path).stdout.split("\n")[:-1]
    assert first in ("We sing.", "No.") and (blank, last) == ("", "We sing.")
    for arguments in (("summarise", "--method", "x"), ("ner", "--method", "extract")):
        said = run("train", *arguments, *common, "--force", code=1).stderr
        assert "--method" in said and "expected the task summarise" in said
