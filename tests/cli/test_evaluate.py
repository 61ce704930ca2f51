"""`elmokit evaluate` prints how well a model predicts a text."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from strategies import make_tiny, tiny_config

from elmokit import Corpus, Elmo, PrepareConfig, prepare
from elmokit.text.ids import Vocab


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
    *table, note = run("evaluate", lm, lines).stdout.splitlines()
    titles, row = map(str.split, table)
    assert titles == [
        "text", "forward", "backward", "mean", "bits/character", "sentences", "tokens", "OOV",
    ]  # fmt: skip
    bits = "/".join(f"{value:.2f}" for value in expected.bits_per_character)
    assert row[1:] == [*(f"{value:.2f}" for value in expected[:3]), bits, "2", "10", "10.0%"]
    fingerprint = Elmo.from_pretrained(lm, device="cpu").vocab.fingerprint
    assert f"compare only between models with this vocabulary (7 words, {fingerprint})" in note


def test_json(run: Any, lm: Path, lines: Path) -> None:
    expected = Elmo.from_pretrained(lm, device="cpu").perplexity(SENTENCES)
    facts = json.loads(run("evaluate", lm, lines, "--json", "--batch-size", "1").stdout)
    assert (facts.pop("text"), facts.pop("mode")) == (str(lines), "lines")
    bits = facts.pop("bits_per_character")
    assert list(bits.values()) == pytest.approx(expected.bits_per_character, rel=1e-5)
    assert list(bits) == ["forward", "backward", "mean"]
    vocabulary = Elmo.from_pretrained(lm, device="cpu").vocab
    assert facts.pop("vocabulary") == {"words": 7, "fingerprint": vocabulary.fingerprint}
    assert facts.pop("characters") == sum(len(text) + 1 for text in SENTENCES)
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

    def mean(*arguments: object) -> float:
        return json.loads(run("evaluate", lm, *arguments, "--json").stdout)["mean"]

    assert mean(packed) == mean(lines) == mean(packed, "--state", "zero")
    options = ("--batch-size", 1, "--state")
    assert len({mean(packed, *options, state) for state in ("zero", "warm", "carry")}) == 3
    # States are not carried from one text to the next.
    alone = run("evaluate", lm, lines, *options, "carry", "--json").stdout
    both = run("evaluate", lm, packed, lines, *options, "carry", "--json").stdout
    assert both.splitlines()[1] == alone.strip()


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
    assert " 36.73 " in run("evaluate", model, text, *options).stdout
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
    result = run("evaluate", lm, lines, *options, "-q", code=1)
    assert mention in result.stderr and result.stderr.count("\n") == 1 and result.stdout == ""


@pytest.fixture
def paragraphs(tmp_path: Path) -> Path:
    path = tmp_path / "paragraphs.txt"
    lines = ["The gift was. The zebra was the gift.", "", "The", "gift was."]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


FIRST_LINE = [(1, "The gift was."), (1, "The zebra was the gift.")]


def rows_of(result: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_several_texts(run: Any, lm: Path, lines: Path, paragraphs: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    options = ("--json", "--scores", output)
    first, second, both = rows_of(run("evaluate", lm, lines, paragraphs, *options))
    assert [first, second] == [
        json.loads(run("evaluate", lm, text, "--json").stdout) for text in (lines, paragraphs)
    ]
    assert both["text"] is None and both["mode"] == "lines"
    assert both["tokens"] == first["tokens"] + second["tokens"]
    assert both["sentences"] == first["sentences"] + second["sentences"] == 5
    logs = [row["tokens"] * math.log(row["forward"]) for row in (first, second, both)]
    assert logs[2] == pytest.approx(logs[0] + logs[1])
    scores = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [(Path(row["text"]), row["line"]) for row in scores] == [
        (text, number) for text in (lines, paragraphs) for number in (1, 2, 3, 4)
    ]
    *table, _ = run("evaluate", lm, lines, paragraphs).stdout.splitlines()
    names = [line.split()[0] for line in table]
    assert [names[0], names[1][-6:], names[2][-14:], names[3]] == [
        "text", "in.txt", "paragraphs.txt", "all",
    ]  # fmt: skip
    assert len(set(map(len, table))) == 1


def test_several_texts_in_streams(run: Any, lm: Path, lines: Path) -> None:
    first, second, both = rows_of(run("evaluate", lm, lines, lines, "--streams", 2, "--json"))
    assert first == second and both["tokens"] == 2 * first["tokens"]
    assert both["mean"] == pytest.approx(first["mean"])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("split", [*FIRST_LINE, (3, "The"), (4, "gift was.")]),
        ("wrapped", [*FIRST_LINE, (3, "The gift was.")]),
    ],
)
def test_sentences_are_found_as_prepare_finds_them(
    run: Any, lm: Path, paragraphs: Path, tmp_path: Path, mode: str, expected: list[tuple[int, str]]
) -> None:
    output = tmp_path / "scores.jsonl"
    options = ("--sentences", mode, "--scores", output, "--tokenizer", "regex")
    facts = json.loads(run("evaluate", lm, paragraphs, *options, "--json").stdout)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    elmo = Elmo.from_pretrained(lm, device="cpu", tokenizer="regex")
    scores = elmo.score([sentence for _, sentence in expected])
    assert [row["line"] for row in rows] == [number for number, _ in expected]
    assert [row["forward"] for row in rows] == pytest.approx([score.forward for score in scores])
    assert (facts["sentences"], facts["mode"]) == (len(expected), mode)
    corpus = tmp_path / "corpus"
    text = paragraphs.read_text(encoding="utf-8") + "\n\n" + "many more words " * 10
    paragraphs.write_text(text, encoding="utf-8")
    prepare([paragraphs], corpus, PrepareConfig(sentences=mode, valid_fraction=0))  # type: ignore[arg-type]
    facts = json.loads(run("evaluate", lm, paragraphs, *options, "--json", "--force").stdout)
    prepared = Corpus.open(corpus).train
    assert (facts["sentences"], facts["tokens"]) == (
        len(prepared), len(prepared.tokens) + len(prepared),
    )  # fmt: skip


def test_auto_chooses_for_each_text(run: Any, lm: Path, lines: Path, paragraphs: Path) -> None:
    result = run("evaluate", lm, lines, paragraphs, "--sentences", "auto", "--json")
    assert [row["mode"] for row in rows_of(result)] == ["lines", "split", "mixed"]
    assert f"{paragraphs}: --sentences split: 33% of 3 lines" in result.stderr
    assert run("evaluate", lm, lines, "--sentences", "auto", "-q").stderr == ""


def test_texts_are_checked_before_a_model_is_loaded(run: Any, lines: Path, tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text(" \n")
    for texts, mention in (
        ((lines, tmp_path / "none.txt"), "none.txt"),
        ((lines, tmp_path / "blank.txt"), "blank.txt: the text has no words"),
        (("-", lines, "-"), "only once"),
    ):
        result = run("evaluate", tmp_path / "no-model", *texts, code=1)
        assert mention in result.stderr and result.stderr.count("\n") == 1


def test_nothing_to_evaluate(run: Any, lm: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n  \n")
    output = tmp_path / "scores.jsonl"
    result = run("evaluate", lm, tmp_path / "empty.txt", "--scores", output, code=1)
    assert "no words" in result.stderr and not output.exists()
    assert "no such" in run("evaluate", lm, tmp_path / "none.txt", code=1).stderr.lower()
    (tmp_path / "filled.txt").write_text("the gift")
    without_softmax = run("evaluate", model, tmp_path / "filled.txt", code=1)
    assert "no softmax" in without_softmax.stderr


@pytest.mark.parametrize("words", ["the gift was new .", "그 선물 the 이다 ."])
def test_many_unknown_words_are_mentioned(
    run: Any, lm: Path, lines: Path, tmp_path: Path, words: str
) -> None:
    (tmp_path / "many.txt").write_text(f"the\n{words}\n{words} zebra zebra\n", encoding="utf-8")
    result = run("evaluate", lm, lines, tmp_path / "many.txt", "--json")
    first, second, _ = rows_of(result)
    assert first["unknown"] <= 0.2 < second["unknown"]
    (warning,) = [line for line in result.stderr.splitlines() if "outside the" in line]
    assert f"many.txt: {second['unknown']:.0%} of the tokens are outside" in warning
    assert run("evaluate", lm, tmp_path / "many.txt", "-q").stderr == ""


def test_an_unknown_word_costs_its_spelling(run: Any, lm: Path, tmp_path: Path) -> None:
    facts = []
    for word in ("<UNK>", "선물"):
        (tmp_path / "in.txt").write_text(f"the {word} .\n", encoding="utf-8")
        facts += rows_of(run("evaluate", lm, tmp_path / "in.txt", "--json", "-q"))
    elmo = Elmo.from_pretrained(lm, device="cpu")
    for word, row in zip(("<UNK>", "선물"), facts, strict=True):
        score = elmo.score([["the", word, "."]])[0]
        bits = -score.forward / math.log(2) + 8 * (len(word.encode()) + 1)
        assert row["bits_per_character"]["forward"] == pytest.approx(
            bits / (4 + len(word) + 1 + 2), rel=1e-5
        )


def test_a_line_of_several_sentences_is_mentioned_once(
    run: Any, lm: Path, paragraphs: Path
) -> None:
    for options, number in (((), 1), (("--sentences", "lines"), 0), (("--sentences", "split"), 0)):
        result = run("evaluate", lm, paragraphs, paragraphs, *options)
        assert result.stderr.count("looks like 2 sentences") == number


def test_korean_sentences_are_those_of_kiwi(run: Any, tmp_path: Path) -> None:
    vocab = Vocab(["<S>", "</S>", "<UNK>", "좋", "다"])
    config = tiny_config(num_softmax_words=len(vocab), tokenizer="kiwi")
    make_tiny(config, vocab=vocab).save_pretrained(tmp_path / "ko")
    (tmp_path / "in.txt").write_text("오늘은 날씨가 좋았다 그래서 공원에 갔다\n", encoding="utf-8")
    options = ("evaluate", tmp_path / "ko", tmp_path / "in.txt", "--json", "-q", "--sentences")
    (split,) = rows_of(run(*options, "split"))
    (lines,) = rows_of(run(*options, "lines"))
    assert (lines["sentences"], split["sentences"]) == (1, 2)
