"""`elmokit similar` prints where a corpus uses a word like the query does."""

import json
from pathlib import Path
from typing import Any

import pytest
from strategies import make_tiny, tiny_config

from elmokit.tables import width_of

QUERY = "He has a [gift] for music."


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [
        "Nothing to see here.",
        "",
        "She brought a GIFT and left.",
        "He has a gift for music.",
        "The river bank was wet.",
    ]
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_planted_sentence_is_first(run: Any, model: Path, corpus: Path) -> None:
    lines = run("similar", model, corpus, QUERY, "-k", "3").stdout.splitlines()
    assert len(lines) == 3
    assert lines[0] == "1   1.000     4  He has a [gift] for music."


def test_json(run: Any, model: Path, corpus: Path) -> None:
    matches = json.loads(run("similar", model, corpus, QUERY, "--same-word", "--json").stdout)
    assert [(m["rank"], m["line"], m["word"]) for m in matches] == [(1, 4, "gift"), (2, 3, "GIFT")]
    assert matches[0]["score"] == pytest.approx(1, abs=1e-5)
    assert matches[0]["tokens"][matches[0]["position"]] == "gift"
    assert matches[1]["text"] == "She brought a GIFT and left."
    assert matches[1]["text"][matches[1]["start"] : matches[1]["end"]] == "GIFT"


def test_word_that_does_not_occur(run: Any, model: Path, corpus: Path) -> None:
    result = run("similar", model, corpus, "a [zebra]", "--same-word")
    assert result.stdout == "" and "does not occur" in result.stderr
    assert run("similar", model, corpus, "a [zebra]", "--same-word", "--json").stdout == "[]\n"


@pytest.mark.parametrize(
    ("query", "mention"),
    [
        ("no bracket", "exactly one word in brackets"),
        ("[New York] is big", "'New', 'York'"),
        ("[gif]t", "part of the token 'gift'"),
    ],
)
def test_bad_query_is_explained(
    run: Any, model: Path, corpus: Path, query: str, mention: str
) -> None:
    assert mention in run("similar", model, corpus, query, code=1).stderr


def test_empty_corpus(run: Any, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    assert "empty" in run("similar", model, tmp_path / "empty.txt", QUERY, code=1).stderr


def test_layers_are_counted_from_the_top_too(run: Any, model: Path, corpus: Path) -> None:
    top = run("similar", model, corpus, QUERY, "--layer", "top").stdout
    assert run("similar", model, corpus, QUERY, "--layer", "-1").stdout == top
    assert run("similar", model, corpus, QUERY, "--layer", "0").stdout != top
    refused = run("similar", model, corpus, QUERY, "--layer", "-4", code=1)
    assert "0..2, counted from the top as -1..-3" in refused.stderr


def test_a_terminal_shows_the_words_below_each_other(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["A gift.", "She brought a very, very, very large GIFT and left.", "한국어에도 gift가."]
    (tmp_path / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr("elmokit.cli.similar.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    query = ["similar", model, tmp_path / "corpus.txt", QUERY, "--same-word"]
    header, *shown = run(*query).stdout.splitlines()
    assert header.split() == ["#", "cosine", "line"] and len(shown) >= 2
    places = {width_of(line[: line.index("[")]) for line in shown}
    assert len(places) == 1 and all(width_of(line) <= 50 for line in shown)
    assert any("… very large [GIFT] and left." in line for line in shown)


def test_korean_is_printed_as_it_was_written(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("kiwipiepy")
    make_tiny(tiny_config(tokenizer="kiwi")).save_pretrained(tmp_path / "ko")
    (tmp_path / "corpus.txt").write_text("그는 배를 타고 갔다.\n", encoding="utf-8")
    query = ["similar", tmp_path / "ko", tmp_path / "corpus.txt", "[배]가 고프다", "--same-word"]
    assert run(*query).stdout.endswith("  그는 [배]를 타고 갔다.\n")
    (match,) = json.loads(run(*query, "--json").stdout)
    assert match["text"] == "그는 배를 타고 갔다."
    assert match["text"][match["start"] : match["end"]] == match["word"] == "배"
