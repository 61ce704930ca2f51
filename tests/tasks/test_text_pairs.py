"""Files of text pairs → pairs, and what is said about bad rows."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from strategies import assert_refused

from elmokit.tasks.parts.text_pairs import TextPair, read_text_pairs, with_all_targets

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PAIRS = [
    TextPair("Just get over here.", ("Ven aquí.",)),
    TextPair('"Why?"', ("「왜?」",)),
]
TABLE = 'source\ttarget\nJust get over here.\tVen aquí.\n"Why?"\t「왜?」\n'

Write = Callable[..., Path]


@pytest.fixture
def file(tmp_path: Path) -> Write:
    """Writes a text to a file."""

    def write(text: str, name: str = "pairs.tsv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def test_table_with_a_header(file: Write) -> None:
    assert read_text_pairs(file(TABLE)) == PAIRS
    assert read_text_pairs(file(TABLE.replace("\n", "\r\n") + "\r\n\n")) == PAIRS


def test_columns_are_found_by_name_in_any_order(file: Write) -> None:
    path = file('id\tes\ten\n1\tVen aquí.\tJust get over here.\n2\t「왜?」\t"Why?"\n')
    assert read_text_pairs(path, source="en", target="es") == PAIRS


def test_two_parallel_files(file: Write) -> None:
    sources = file('Just get over here.\n\n"Why?"\n', "a.en")
    targets = file("Ven aquí.\n\n「왜?」\n", "a.es")
    assert read_text_pairs(sources, targets) == PAIRS


def test_json_lines_with_one_target_or_several(file: Write) -> None:
    one = [{"source": pair.source, "target": pair.targets[0]} for pair in PAIRS]
    many = [{"source": pair.source, "targets": [*pair.targets, "또"]} for pair in PAIRS]
    path = file("\n".join(map(json.dumps, one)), "pairs.jsonl")
    assert read_text_pairs(path) == PAIRS
    path = file("\n".join(map(json.dumps, many)), "pairs.txt")
    assert read_text_pairs(path) == [TextPair(p.source, (*p.targets, "또")) for p in PAIRS]


def test_line_breaks_inside_a_json_text_are_kept(file: Write) -> None:
    path = file(json.dumps({"source": "Hi,\nJeff", "target": "greeting"}))
    assert read_text_pairs(path) == [TextPair("Hi,\nJeff", ("greeting",))]


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_compressed_files(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"pairs.tsv.{suffix}"
    path.write_bytes(compress(TABLE.encode()))
    assert read_text_pairs(path) == PAIRS
    sides = [tmp_path / f"{name}.{suffix}" for name in ("a", "b")]
    for side, text in zip(sides, ("x\ny\n", "u\nv\n"), strict=True):
        side.write_bytes(compress(text.encode()))
    assert read_text_pairs(*sides) == [TextPair("x", ("u",)), TextPair("y", ("v",))]


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("", "is empty"),
        ("source\ttarget\n", "nothing else"),
        ("source\ttext\na\tb\n", "no column 'target'"),
        ("source\ttarget\na\tb\nc\n", "line 3: found 1 of 2 columns"),
        ("source\ttarget\na\tb\nc\td\te\n", "line 3: found 3 of 2 columns"),
        ("source\ttarget\na\t \n", "line 2: the target is empty"),
        ("source\ttarget\n\tb\n", "line 2: the source is empty"),
        ('{"source": "a", "target": "b"}\n{"source": "a"', "line 2: not JSON"),
        ('{"source": "a", "target": "b"}\n[1]', "line 2: expected a JSON object"),
        ('\n{"source": "a"}', "line 2: the field 'target' or 'targets' is missing"),
        ('{"target": "a"}', "line 1: the field 'source' is missing"),
        ('{"source": 3, "target": "b"}', "line 1: the source is 3; expected text"),
        ('{"source": "a", "target": ["b"]}', "line 1: the target is ['b']; expected text"),
        ('{"source": "a", "targets": "b"}', "line 1: targets='b'; expected a list"),
        ('{"source": "a", "targets": []}', "line 1: targets=[]; expected a list"),
        (
            '{"source": "a", "targets": ["b", null]}',
            "entry of targets is None; expected text",
        ),
        ('{"source": "a", "targets": ["b", ""]}', "line 1: the entry of targets is empty"),
        ('{"source": "a", "target": "b", "targets": ["b"]}', "line 1: expected 'target' or"),
    ],
)
def test_bad_rows_are_named_by_file_and_line(file: Write, text: str, mention: str) -> None:
    assert_refused(lambda: read_text_pairs(file(text)), "pairs.tsv", mention)


def test_parallel_files_that_do_not_match_are_refused(file: Write) -> None:
    two, three = file("a\nb\n", "two.en"), file("a\nb\nc\n", "three.es")
    assert_refused(lambda: read_text_pairs(two, three), "two.en has 2 lines", "three.es 3")
    gap = file("a\n\nc\n", "gap.es")
    assert_refused(lambda: read_text_pairs(three, gap), "gap.es, line 2", "target is empty")
    assert_refused(lambda: read_text_pairs(gap, three), "gap.es, line 2", "source is empty")
    assert_refused(lambda: read_text_pairs("-", "-"), "standard input")


def test_lone_surrogates_do_not_reach_libraries(file: Write) -> None:
    path = file('{"source": "a\\ud800", "target": "\\udfff"}')
    assert read_text_pairs(path) == [TextPair("a\ufffd", ("\ufffd",))]


def test_targets_of_one_source_are_brought_together() -> None:
    pairs = [TextPair("b", ("1",)), TextPair("a", ("2", "3")), TextPair("b", ("1", "4"))]
    assert with_all_targets(pairs) == [TextPair("b", ("1", "4")), TextPair("a", ("2", "3"))]


@pytest.mark.parametrize(
    ("name", "number", "num_sources"),
    [
        ("mt/en-es/dev.tsv.gz", 2287, 2001),
        ("mt/ko-en/dev.tsv.gz", 480, None),
        ("summary/en-aeslc/dev.jsonl.gz", 1943, None),
        ("summary/en-scitldr/dev.jsonl.gz", 619, None),
        ("summary/ko-sae4k/dev.tsv.gz", 1326, None),
    ],
)
def test_files_of_the_field(name: str, number: int, num_sources: int | None) -> None:
    if not (DATA / name).is_file():
        pytest.skip(f"needs the shared material: {name}")
    pairs = read_text_pairs(DATA / name)
    assert len(pairs) == number
    if num_sources is not None:
        assert len(with_all_targets(pairs)) == num_sources
