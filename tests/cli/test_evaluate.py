"""`elmokit evaluate` prints how well a model predicts a text."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from strategies import make_tiny, tiny_config

from elmokit import Elmo
from elmokit.text.vocab import Vocab


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny language model."""
    vocab = Vocab(["<S>", "</S>", "<UNK>", "the", "gift", "was", "."])
    config = tiny_config(num_softmax_words=len(vocab), tokenizer="whitespace")
    folder = tmp_path_factory.mktemp("lm") / "tiny"
    make_tiny(config, vocab=vocab).save_pretrained(folder)
    return folder


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("the gift .\n \nthe zebra was the gift\n\n", encoding="utf-8")
    return path


SENTENCES = ["the gift .", "the zebra was the gift"]


def test_perplexity_is_printed(run: Any, lm: Path, lines: Path) -> None:
    expected = Elmo.from_pretrained(lm, device="cpu").perplexity(SENTENCES)
    printed = run("evaluate", lm, lines).stdout.splitlines()
    names = ("forward", "backward", "mean")
    for line, name, value in zip(printed, names, expected[:3], strict=False):
        assert line.split() == [name, "perplexity", f"{value:.4f}"]
    assert printed[3:] == ["2 sentences, 10 tokens, 10.0% of them outside of the vocabulary"]


def test_json(run: Any, lm: Path, lines: Path) -> None:
    expected = Elmo.from_pretrained(lm, device="cpu").perplexity(SENTENCES)
    facts = json.loads(run("evaluate", lm, lines, "--json", "--batch-size", "1").stdout)
    assert list(facts) == ["forward", "backward", "mean", "sentences", "tokens", "unknown"]
    assert [facts[name] for name in ("forward", "backward", "mean")] == pytest.approx(
        expected[:3], rel=1e-5
    )
    assert (facts["sentences"], facts["tokens"], facts["unknown"]) == (2, 10, 0.1)


def test_scores_have_an_object_a_line(run: Any, lm: Path, lines: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    facts = json.loads(run("evaluate", lm, lines, "--scores", output, "--json").stdout)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["line"], row["tokens"]) for row in rows] == [(1, 4), (2, 0), (3, 6), (4, 0)]
    assert rows[1] == {"line": 2, "forward": 0.0, "backward": 0.0, "tokens": 0}
    scores = Elmo.from_pretrained(lm, device="cpu").score(SENTENCES)
    for row, score in zip(rows[::2], scores, strict=True):
        assert (row["forward"], row["backward"]) == pytest.approx((score.forward, score.backward))
    assert facts["tokens"] == sum(row["tokens"] for row in rows)
    refused = run("evaluate", lm, lines, "--scores", output, code=1)
    assert "exists already" in refused.stderr
    run("evaluate", lm, lines, "--scores", output, "--force")


def test_scores_on_stdout_stand_alone(run: Any, lm: Path, lines: Path) -> None:
    result = run("evaluate", lm, lines, "--scores", "-")
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1, 2, 3, 4]
    assert "mean" in result.stderr
    assert run("evaluate", lm, lines, "--scores", "-", "-q").stderr == ""


def test_compressed_text_and_state(run: Any, lm: Path, lines: Path, tmp_path: Path) -> None:
    packed = tmp_path / "in.txt.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    plain = run("evaluate", lm, lines).stdout
    assert run("evaluate", lm, packed).stdout == plain
    assert run("evaluate", lm, packed, "--state", "zero").stdout == plain
    printed = {run("evaluate", lm, packed, "--state", state, "--batch-size", 1).stdout
               for state in ("zero", "warm", "carry")}  # fmt: skip
    assert len(printed) == 3


def test_streams(run: Any, lm: Path, lines: Path) -> None:
    expected = Elmo.from_pretrained(lm, device="cpu").perplexity(SENTENCES, streams=2)
    facts = json.loads(run("evaluate", lm, lines, "--streams", 2, "--json").stdout)
    assert facts["mean"] == pytest.approx(expected.mean, rel=1e-5)
    assert (facts["sentences"], facts["tokens"]) == (2, 8)


@pytest.mark.parametrize("is_converted", [False, True])
def test_perplexity_of_the_reference_checkpoint(
    run: Any, fixtures: Path, tmp_path: Path, is_converted: bool
) -> None:
    model = fixtures / "tf-checkpoint"
    text = model / "heldout.txt"
    if is_converted:
        run("convert", model, tmp_path / "ours")
        model = tmp_path / "ours"
    options = ("--streams", 4, "--tokenizer", "whitespace")
    assert "mean      perplexity  36.7255\n" in run("evaluate", model, text, *options).stdout
    facts = json.loads(run("evaluate", model, text, *options, "--json").stdout)
    assert facts["mean"] == pytest.approx(36.7255, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        (("--streams", "2", "--scores", "x.jsonl"), "--scores is about sentences"),
        (("--streams", "2", "--state", "warm"), "--state is about sentences"),
        (("--json", "--scores", "-"), "both want standard output"),
        (("--scores", "."), "is a folder"),
        (("--streams", "3"), "use fewer streams"),
    ],
)
def test_options_that_cannot_work(
    run: Any, lm: Path, lines: Path, options: tuple[str, ...], mention: str
) -> None:
    result = run("evaluate", lm, lines, *options, code=1)
    assert mention in result.stderr and result.stderr.count("\n") == 1 and result.stdout == ""


def test_nothing_to_evaluate(run: Any, lm: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n  \n")
    output = tmp_path / "scores.jsonl"
    result = run("evaluate", lm, tmp_path / "empty.txt", "--scores", output, code=1)
    assert "no words" in result.stderr and not output.exists()
    assert "no such" in run("evaluate", lm, tmp_path / "none.txt", code=1).stderr.lower()
    without_softmax = run("evaluate", model, tmp_path / "empty.txt", code=1)
    assert "no softmax" in without_softmax.stderr
