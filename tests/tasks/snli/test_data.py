"""Files of inference pairs, and what is said about bad ones."""

import gzip
import json
import lzma
from collections import Counter
from pathlib import Path

import pytest
from strategies import assert_refused

from elmokit.tasks.snli import SentencePair, SnliTask, read_inference
from elmokit.text.reader import Reader

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "snli"
EXPECTED = [
    SentencePair(("A", "man", "sleeps", "."), ("He", "is", "awake"), "contradiction"),
    SentencePair(("개가", "잔다"), ("동물이", "잔다"), "entailment"),
]


def write(folder: Path, text: str, name: str = "pairs.jsonl") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def pairs(path: Path) -> list[SentencePair]:
    return read_inference(path, Reader("regex").tokens)


def records(*names: str) -> list[dict[str, object]]:
    rows = [
        ("A man sleeps.", "He is awake", "contradiction"),
        ("Nobody knows", "They disagree", "-"),
        ("개가 잔다", "동물이 잔다", "entailment"),
    ]
    return [dict(zip(names, row, strict=True)) | {"pairID": "1"} for row in rows]


def as_jsonl(rows: list[dict[str, object]]) -> str:
    return "\n\n".join(json.dumps(row) for row in rows) + "\n"


@pytest.mark.parametrize(
    "names", [("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label")]
)
def test_both_names_in_both_formats(names: tuple[str, str, str], tmp_path: Path) -> None:
    rows = records(*names)
    assert pairs(write(tmp_path, as_jsonl(rows))) == EXPECTED
    # The columns stand in another order, and there is one more.
    header = [names[2], "pairID", *names[:2]]
    lines = ["\t".join(header), *("\t".join(str(row[name]) for name in header) for row in rows)]
    assert pairs(write(tmp_path, "\r\n".join(lines), "pairs.tsv")) == EXPECTED


def test_compressed_files(tmp_path: Path) -> None:
    text = as_jsonl(records("premise", "hypothesis", "label")).encode()
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = tmp_path / f"pairs.jsonl{suffix}"
        path.write_bytes(compress(text))
        assert pairs(path) == EXPECTED


def test_numbers_as_labels(tmp_path: Path) -> None:
    labels = (0, -1, 2, "-1")
    text = as_jsonl([{"premise": "a", "hypothesis": "b", "label": n} for n in labels])
    assert [pair.label for pair in pairs(write(tmp_path, text))] == ["0", "2"]


def test_quotes_in_tables_are_text(tmp_path: Path) -> None:
    path = write(tmp_path, 'premise\thypothesis\tlabel\n"a\tb"\tyes\n', "pairs.tsv")
    assert pairs(path) == [SentencePair(('"', "a"), ("b", '"'), "yes")]


GOOD = '{"premise": "a", "hypothesis": "b", "label": "x"}\n'
HEADER = "premise\thypothesis\tlabel\n"


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (GOOD + "\n{oops\n", ("line 3", "not JSON")),
        (GOOD + "[1]\n", ("line 2", "JSON object")),
        (GOOD + '{"premise": "a", "label": "x"}\n', ("line 2", "hypothesis is missing")),
        (GOOD + '{"premise": 3, "hypothesis": "b", "label": "x"}\n', ("line 2", "premise=3")),
        (GOOD + '{"premise": "a", "hypothesis": "b", "label": null}\n', ("line 2", "label=None")),
        (
            GOOD + '{"premise": "a", "hypothesis": "b", "label": " "}\n',
            ("line 2", "label is empty"),
        ),
        ('{"sentence1": "a", "sentence2": "b", "label": "x"}\n', ("line 1", "gold_label")),
        (HEADER + "a\tb\tx\na\tb\n", ("line 3", "2 of 3 columns")),
        (HEADER + "\tb\tx\n", ("no pair with a gold label",)),
        ("text\tlabel\na\tx\n", ("premise, hypothesis, label", "gold_label", "text")),
        (HEADER, ("nothing else",)),
        (HEADER + "a\tb\t-\n", ("no pair with a gold label",)),
        ("\n \n", ("is empty",)),
    ],
)
def test_bad_files_are_refused(text: str, mentions: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path, text)
    assert_refused(lambda: pairs(path), str(path), *mentions)


def test_pairs_with_an_empty_side_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, GOOD + '{"premise": "a", "hypothesis": " ", "label": "x"}\n')
    assert pairs(path) == [SentencePair(("a",), ("b",), "x")]
    assert "pairs with an empty side, left out: 1" in caplog.text


def test_a_line_to_predict() -> None:
    task, reader = SnliTask(), Reader("regex")
    config = task.config_class()
    expected = SentencePair(("A", "man", "."), ("He",))
    assert task.example("A man.\tHe", reader, config) == expected
    assert task.example('{"premise": "A man.", "hypothesis": "He"}', reader, config) == expected
    assert task.example('{"sentence2": "He", "sentence1": "A man."}', reader, config) == expected
    assert_refused(lambda: task.example('{"premise": "A man."}', reader, config), "'hypothesis'")
    assert task.sentences(task.example(" ", reader, config)) == [(), ()]
    for line in ("A man sleeps.", "a\tb\tc", "a\t", "\tb"):
        assert_refused(lambda line=line: task.example(line, reader, config), repr(line), "a tab")


def test_the_shared_pairs_can_be_read() -> None:
    path = DATA / "dev.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"SNLI is not at {path}")
    labels = Counter(pair.label for pair in read_inference(path, str.split))
    assert labels.keys() == {"contradiction", "entailment", "neutral"}
    assert labels.total() == 9842
