"""`elmokit substitutes` prints the words that fit in the place of one."""

import json
from pathlib import Path
from typing import Any

import pytest
from strategies import make_tiny, tiny_config

from elmokit import Elmo
from elmokit.text.ids import Vocab

TEXT = "she sat on the [bank] of the river"


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny language model."""
    vocab = Vocab(["<S>", "</S>", "<UNK>", "the", "of", "bank", "edge", "river", "밤"])
    folder = tmp_path_factory.mktemp("lm") / "tiny"
    config = tiny_config(num_softmax_words=len(vocab))
    make_tiny(config, vocab=vocab).save_pretrained(folder)
    return folder


def test_best_words_and_the_original_are_printed(run: Any, lm: Path) -> None:
    found = Elmo.from_pretrained(lm, device="cpu").substitutes(TEXT, k=6)
    printed = run("substitutes", lm, TEXT, "-k", "6").stdout.splitlines()
    assert printed[0].split() == ["rank", "probability", "forward", "backward", "word"]
    assert len(printed) == 7
    for line, substitute in zip(printed[1:], found.best, strict=True):
        word = "[bank]" if substitute.word == "bank" else substitute.word
        rank, probability, *_, last = line.split()
        assert (rank, last) == (str(substitute.rank), word)
        assert float(probability) == pytest.approx(substitute.probability, abs=1e-4)


def test_original_comes_last_if_it_is_not_among_the_best(run: Any, lm: Path) -> None:
    everything = json.loads(run("substitutes", lm, TEXT, "--json").stdout)
    last = everything["best"][-1]
    text = TEXT.replace("bank", last["word"])
    printed = run("substitutes", lm, text, "-k", "2").stdout.splitlines()
    assert len(printed) == 4 and printed[-1].split()[0] == "6"
    assert printed[-1].endswith(f"[{last['word']}]")


def test_json(run: Any, lm: Path) -> None:
    found = json.loads(run("substitutes", lm, TEXT, "-k", "3", "--json").stdout)
    assert [s["rank"] for s in found["best"]] == [1, 2, 3]
    assert set(found["original"]) == {"word", "rank", "probability", "forward", "backward"}
    assert found["original"]["word"] == "bank"
    unknown = run("substitutes", lm, TEXT.replace("bank", "shore"), "--json")
    assert json.loads(unknown.stdout)["original"] is None
    assert [s["word"] for s in json.loads(unknown.stdout)["best"][:3]] == [
        s["word"] for s in found["best"]
    ]


def test_unknown_original_is_mentioned(run: Any, lm: Path) -> None:
    result = run("substitutes", lm, TEXT.replace("bank", "shore"))
    assert "outside of the model's vocabulary" in result.stderr
    assert run("substitutes", lm, TEXT.replace("bank", "shore"), "-q").stderr == ""


def test_mistakes_are_explained(run: Any, lm: Path, model: Path) -> None:
    assert "exactly one word in brackets" in run("substitutes", lm, "no bank", code=1).stderr
    assert "no softmax" in run("substitutes", model, TEXT, code=1).stderr
    run("substitutes", lm, TEXT, "-k", "0", code=2)
