"""`elmokit similar` prints where a corpus uses a word like the query does."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.cli.similar import _excerpt

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
    assert lines[0] == "1   1.000     4  He has a [gift] for music ."


def test_json(run: Any, model: Path, corpus: Path) -> None:
    matches = json.loads(run("similar", model, corpus, QUERY, "--same-word", "--json").stdout)
    assert [(m["rank"], m["line"], m["word"]) for m in matches] == [(1, 4, "gift"), (2, 3, "GIFT")]
    assert matches[0]["score"] == pytest.approx(1, abs=1e-5)
    assert matches[0]["tokens"][matches[0]["position"]] == "gift"


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


def test_excerpt_fits_the_terminal() -> None:
    tokens = ["one", "two", "three", "[four]", "five", "six", "seven"]
    assert _excerpt(tokens, 3, 80) == tokens
    assert _excerpt(tokens, 3, 24) == ["…", "three", "[four]", "five", "…"]
    assert _excerpt(tokens, 3, 1) == ["…", "[four]", "…"]
    # Hangul takes two columns a syllable.
    assert _excerpt(["한국어", "[말]", "한국어"], 1, 14) == ["…", "[말]", "…"]
    assert _excerpt(["한국어", "[말]", "한국어"], 1, 22) == ["한국어", "[말]", "한국어"]
