"""CoNLL files: what is read of them, and what is refused."""

import gzip
from pathlib import Path

import pytest
from coref_data import STORIES, config, conll, story
from strategies import assert_refused

from elmokit.tasks.coref.document import CorefDocument, read_documents
from elmokit.tasks.coref.task import CorefTask
from elmokit.text.reader import Reader


def write(folder: Path, *rows: str, ends: bool = True, name: str = "a.conll") -> Path:
    """A file of one document, a row each."""
    lines = ["#begin document (a); part 0", *rows, *(["#end document"] if ends else [])]
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def row(word: str, cell: str) -> str:
    return f"a\t0\t0\t{word}\t_\t_\t{cell}"


@pytest.mark.parametrize("separator", ["\t", "   "])
def test_stories_survive_the_round_trip(separator: str, tmp_path: Path) -> None:
    documents = [story(text, f"s{i}") for i, text in enumerate(STORIES)]
    path = tmp_path / "all.conll"
    path.write_text("".join(conll(d, separator) for d in documents), encoding="utf-8")
    assert read_documents(path) == documents
    assert len(documents[0].sentences) == 2
    assert documents[2].clusters == (((0, 1), (2, 3), (7, 8)), ((2, 4), (5, 6)))


def test_nested_single_crossing_and_empty_cells(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        row("the", "(7|(0|(12"),
        row("queen", "(3)|0)"),
        row("of", ""),
        row("#", "12)|(4"),
        row("x", "7)|(0)"),
        row("y", "4)"),
        "",
        "",
        row("z", "_"),
    )
    (document,) = read_documents(path)
    assert document.sentences == (("the", "queen", "of", "#", "x", "y"), ("z",))
    assert document.clusters == (
        ((0, 2), (4, 5)),
        ((0, 4),),
        ((0, 5),),
        ((1, 2),),
        ((3, 6),),  # crosses (0, 5): real data have such
    )
    assert document.without_singletons().clusters == (((0, 2), (4, 5)),)


def test_mentions_of_a_cluster_within_each_other(tmp_path: Path) -> None:
    rows = row("a", "(1|(1"), row("b", "1)"), row("c", "1)|(1)")
    (document,) = read_documents(write(tmp_path, *rows))
    assert document.clusters == (((0, 2), (0, 3), (2, 3)),)


def test_repeated_mentions_are_left_out_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, row("a", "(1)|(2)"), row("b", "(1)|(2)"), row("c", "(2)"))
    (document,) = read_documents(path)
    assert document.clusters == (((0, 1), (1, 2)), ((2, 3),))
    assert "2 repeated mentions" in caplog.text and "a.conll, line 1" in caplog.text


def test_folder_of_plain_and_compressed_files(tmp_path: Path) -> None:
    documents = [story(text, f"s{i}") for i, text in enumerate(STORIES)]
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.conll").write_text(conll(documents[1]))
    (tmp_path / "a.conll.gz").write_bytes(gzip.compress(conll(documents[0]).encode()))
    (tmp_path / "sub" / "c.v4_gold_conll").write_text(conll(documents[2]))
    (tmp_path / ".x.conll.partial").write_text("no document")
    (tmp_path / "LICENSE").write_text("no document")
    assert read_documents(tmp_path) == documents[:3]
    (tmp_path / "none").mkdir()
    assert_refused(lambda: read_documents(tmp_path / "none"), "none has no file", "conll")


def test_parts_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    text = conll(story(STORIES[0], "a"))
    path.write_text(text + text.replace("part 0", "part 001"))
    first, second = read_documents(path)
    assert (first.name, second.name) == ("a", "a, part 1")
    assert first.clusters == second.clusters


BAD = {
    "closes nothing": ([row("a", ""), row("b", "5)")], "line 3", "5)", "none has begun"),
    "open at the end": ([row("a", "(5"), row("b", ""), "", row("c", "5)")], "line 2", "(5"),
    "open in the last": ([row("a", ""), row("b", "(5")], "line 3", "does not end"),
    "number alone": ([row("a", "5")], "line 2", "'5'"),
    "letters": ([row("a", "(x)")], "line 2", "'(x)'"),
    "blank mark": ([row("a", "(1)||(2)")], "line 2", "''"),
    "few columns": ([row("a", ""), "a\t0\tb"], "line 3", "found 3 columns"),
    "no token": ([row(" ", "")], "line 2", "token is empty"),
    "no tokens": ([""], "line 1", "no tokens"),
    "two begins": ([row("a", ""), "#begin document (b); part 0"], "line 3", "#end document"),
    "odd begin": ([row("a", ""), "#end document", "#begin document"], "line 4", "(NAME)"),
    "end twice": ([row("a", ""), "#end document"], "line 4", "no document begins"),
    "row outside": ([row("a", ""), "#end document", row("b", "")], "line 4", "#begin document"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BAD))
def test_bad_lines_are_named(case: str, tmp_path: Path) -> None:
    rows, *mentions = BAD[case]
    assert_refused(lambda: read_documents(write(tmp_path, *rows)), "a.conll", *mentions)


def test_cut_and_empty_files_are_refused(tmp_path: Path) -> None:
    cut = write(tmp_path, row("a", ""), ends=False)
    assert_refused(lambda: read_documents(cut), "a.conll, line 1", "complete")
    empty = tmp_path / "empty.conll"
    empty.write_text("\n# a comment\n")
    assert_refused(lambda: read_documents(empty), "empty.conll has no documents")
    assert_refused(lambda: read_documents(tmp_path / "missing.conll"), "missing.conll")


def test_windows_keep_the_mentions_inside() -> None:
    document = story(STORIES[3])
    assert document.window(0, 4) == document
    part = document.window(2, 4)
    assert part.tokens == ["Tom", "hears", "her", ".", "He", "smiles", "."]
    assert part.clusters == (((2, 3),), ((0, 1), (4, 5)))
    assert document.window(1, 2).clusters == ()


def test_singletons_are_a_setting(tmp_path: Path) -> None:
    path = write(tmp_path, row("a", "(1)"), row("b", "(2)"), row("c", "(1)"))
    task, reader = CorefTask(), Reader()
    for singletons, expected in ((False, 1), (True, 2)):
        settings = config(singletons=singletons)
        for is_training in (True, False):
            (document,) = task.read(path, settings, reader, is_training=is_training)
            assert len(document.clusters) == expected


def test_a_line_is_a_document() -> None:
    task, reader = CorefTask(), Reader()
    config = task.config_class()
    document = task.example("Dr. Kim left. He was late!", reader, config)
    assert document.sentences == (("Dr.", "Kim", "left", "."), ("He", "was", "late", "!"))
    assert not all(map(len, task.sentences(task.example("  ", reader, config))))
    clusters = [((0, 2), (4, 5))]
    assert task.result(document, clusters).to_dict() == {
        "task": "coref",
        "text": "Dr. Kim left. He was late!",
        "clusters": [
            [{"text": "Dr. Kim", "start": 0, "end": 7}, {"text": "He", "start": 14, "end": 16}]
        ],
        "tokens": document.tokens,
    }
    assert task.as_text(document, clusters) == "[Dr. Kim]1 left .\n[He]1 was late !\n"


def test_training_data_without_clusters_are_refused() -> None:
    document = CorefDocument("a", (("a", "b"),))
    assert_refused(lambda: CorefTask().label_sets([document]), "no clusters")
