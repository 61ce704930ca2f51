"""One file as training and development data."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ConfigError
from elmokit.tasks.classify import ClassifyConfig
from elmokit.tasks.coref.model import CorefConfig
from elmokit.tasks.extract import ExtractConfig
from elmokit.tasks.ner import NerConfig
from elmokit.tasks.parts.lines import split_held_out
from elmokit.tasks.registry import TASKS
from elmokit.tasks.snli import SnliConfig
from elmokit.tasks.srl import SrlConfig
from elmokit.text.reader import Reader

NUMBER = 200


def _ner(i: int) -> str:
    return f"Word{i}\tB-PER\nruns\tO\n"


def _pair(i: int) -> str:
    # Two hypotheses about each premise.
    row = {"premise": f"premise {i // 2}", "hypothesis": f"it is {i}", "label": "neutral"}
    return json.dumps(row)


def _summary(i: int) -> str:
    return json.dumps({"source": f"Text {i}. The end.", "target": "the end"})


def _frame(i: int) -> str:
    frames = [{"pred": 1, "tags": ["B-ARG0", "B-V", "O"]}, {"pred": 2, "tags": ["O", "O", "B-V"]}]
    return json.dumps({"words": [f"word{i}", "came", "running"], "frames": frames})


def _document(i: int) -> str:
    return (
        f"#begin document (d{i}); part 0\nd{i}\t0\t0\tShe\t(0)\nd{i}\t0\t1\ther\t(0)\n#end document"
    )


FILES = {
    "ner": ("train.iob2", _ner, NerConfig, "\n"),
    "classify": ("train.tsv", lambda i: f"{i % 2}\ttext number {i}", ClassifyConfig, "\n"),
    "snli": ("train.jsonl", _pair, SnliConfig, "\n"),
    "srl": ("train.jsonl", _frame, SrlConfig, "\n"),
    "extract": ("train.jsonl", _summary, ExtractConfig, "\n"),
    "coref": ("train.conll", _document, CorefConfig, "\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_parted_and_no_text_is_on_both_sides(name: str, tmp_path: Path) -> None:
    file, line, config_class, between = FILES[name]
    path = tmp_path / file
    path.write_text(between.join(line(i) for i in range(NUMBER)) + "\n", "utf-8")
    columns = {"text_column": 1, "label_column": 0} if name == "classify" else {}
    task, reader = TASKS[name], Reader("regex")

    def read(held_out: float, is_training: bool) -> list[Any]:
        config: Any = config_class(held_out=held_out, **columns)
        return task.read(path, config, reader, is_training=is_training)

    train, dev = read(0.2, True), read(0.2, False)
    assert len(train) + len(dev) == len(read(0.0, True)) == len(read(0.0, False))
    assert 0.1 < len(dev) / (len(train) + len(dev)) < 0.3
    if name != "coref":  # of which the names differ, and nothing else
        texts = [{tuple(task.sentences(e)[0]) for e in side} for side in (train, dev)]
        assert not texts[0] & texts[1]


def test_phrases_of_a_tree_that_is_held_out_are_not_learned(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("".join(f"(3 (2 word{i}) (4 (2 is) (4 fine)))\n" for i in range(NUMBER)))
    task, config = TASKS["classify"], ClassifyConfig(held_out=0.2)
    train = task.read(path, config, Reader("regex"), is_training=True)
    dev = task.read(path, config, Reader("regex"), is_training=False)
    assert {len(e.tokens) for e in dev} == {3}
    assert 20 < len(dev) < 60
    assert not {e.tokens[0] for e in dev} & {e.tokens[0] for e in train}
    assert "fine" in {e.tokens[0] for e in train}


def test_all_is_on_both_sides_if_nothing_is_held_out() -> None:
    assert split_held_out("abc", str, 0.0, is_training=True) == ["a", "b", "c"]
    assert split_held_out("abc", str, 0.0, is_training=False) == ["a", "b", "c"]


def test_a_share_is_below_one() -> None:
    with pytest.raises(ConfigError, match="held_out=1"):
        NerConfig(held_out=1.0)
