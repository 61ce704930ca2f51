"""`--sentences` of embed and similar: a line of several sentences keeps its one entry."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import make_tiny, tiny_config

from elmokit import Elmo

TEXTS = {
    "regex": ("He left. The others stayed.", ["He left.", "The others stayed."]),
    "kiwi": (
        "오늘은 날씨가 좋았다 그래서 공원에 갔다",
        ["오늘은 날씨가 좋았다", "그래서 공원에 갔다"],
    ),
}


@pytest.fixture(params=TEXTS)
def case(request: Any, tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """A model, a text with a line of two sentences, and these."""
    make_tiny(tiny_config(tokenizer=request.param)).save_pretrained(tmp_path / "model")
    line, parts = TEXTS[request.param]
    (tmp_path / "in.txt").write_text(f"{line}\n\n{parts[0]}\n", encoding="utf-8")
    return tmp_path / "model", tmp_path / "in.txt", parts


def test_embed(run: Any, case: tuple[Path, Path, list[str]], tmp_path: Path) -> None:
    model, text, parts = case
    elmo = Elmo.from_pretrained(model, device="cpu")
    expected = np.concatenate(elmo.embed(parts))
    words_alone = np.concatenate(elmo.embed(parts, layers=0))
    output = tmp_path / "out.npz"
    run("embed", model, text, "-o", output, "--sentences", "split")
    with np.load(output) as vectors:
        np.testing.assert_allclose(vectors["0"], expected, atol=1e-6)
        assert len(vectors["1"]) == 0 and len(vectors["2"]) == len(elmo.embed(parts[0]))
    shown = run("embed", model, text, "--sentences", "split", "--level", "sentence", "-q").stdout
    rows = [json.loads(line) for line in shown.splitlines()]
    assert len(rows) == 3
    (vectors,) = [value for name, value in rows[0].items() if name.startswith("vector")]
    np.testing.assert_allclose(vectors, words_alone.mean(axis=0), atol=1e-5)


def test_similar(run: Any, case: tuple[Path, Path, list[str]]) -> None:
    model, text, parts = case
    word = Elmo.from_pretrained(model, device="cpu").tokenize(parts[0])[0][0]
    query = parts[0].replace(word, f"[{word}]", 1)
    options = ("similar", model, text, query, "--json", "-k", 2, "--sentences")
    scores = {
        mode: [row["score"] for row in json.loads(run(*options, mode).stdout)]
        for mode in ("split", "lines")
    }
    # On its own, the first sentence of line 1 is the query; within the line it is not.
    assert scores["split"] == pytest.approx([1, 1], abs=1e-5)
    assert scores["lines"][1] < 1 - 1e-5


@pytest.mark.parametrize(("value", "mention"), [("wrapped", "its own entry"), ("all", "'auto'")])
def test_other_values_are_refused(run: Any, text: Path, value: str, mention: str) -> None:
    for command in (("embed", "none", text), ("similar", "none", text, "a [b]")):
        result = run(*command, "--sentences", value, code=1)
        assert mention in result.stderr and result.stderr.count("\n") == 1


def test_several_sentences_in_a_line_are_mentioned_once(
    run: Any, model: Path, tmp_path: Path
) -> None:
    text = tmp_path / "in.txt"
    text.write_text("He left. She stayed.\n" * 3, encoding="utf-8")
    for command in (("embed", model, text), ("similar", model, text, "the [gift]")):
        assert run(*command).stderr.count("looks like 2 sentences") == 1
        for options in (("--sentences", "lines"), ("--sentences", "auto"), ("-q",)):
            assert "looks like" not in run(*command, *options).stderr


def test_work_in_progress_keeps_its_sentences(run: Any, model: Path, tmp_path: Path) -> None:
    from elmokit.embed_file import _settings

    elmo = Elmo.from_pretrained(model, device="cpu")
    found = [
        _settings(elmo, "top", "token", "mean", None, mode) for mode in (None, "lines", "split")
    ]
    assert found[0] == found[1] != found[2]
