"""Text → corpus: the tokenizer's tokens, whatever the workers, and nothing lost when killed."""

import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_data import Killed, contents, some_lines, spelled, write
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import assert_refused

from elmokit.corpus import Corpus, block
from elmokit.corpus import prepare as preparing
from elmokit.corpus.block import Reading, cut
from elmokit.corpus.corpus import PrepareConfig
from elmokit.corpus.prepare import prepare
from elmokit.corpus.report import Report
from elmokit.text.reader import Reader
from elmokit.text.sentences import SentenceMode, split_sentences

PADDING = ["filler " * 11, "more filler in ten words that make enough text"]
LINES = PrepareConfig(sentences="lines", valid_fraction=0)


def text_lines() -> st.SearchStrategy[list[str]]:
    """Lines of anything that UTF-8 can hold but a newline and a zero byte."""
    anything = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]))
    odd = [
        "a\u2028b",
        "x\x85y",
        "\x0b",
        "\ufeff",
        "e\u0301",
        "<S>",
        "</S>",
        "<UNK> a",
        "a\rb",
        "\r",
    ]
    plain = st.lists(st.sampled_from(["a", "B.", "한글", "3.5", '"']), max_size=8).map(" ".join)
    return st.lists(st.one_of(anything, st.sampled_from(odd), plain), max_size=20)


def short(lines: list[str]) -> list[str]:
    """The lines that fit into a block of the tests; longer ones would be cut."""
    return [line for line in lines if len(line.encode()) < 150]


def check_lines(lines: list[str], mode: SentenceMode, tokenizer: str, workers: int) -> None:
    """Prepare the lines in tiny blocks; the corpus holds what `Reader` reads."""
    reader = Reader(tokenizer)
    lines = [*PADDING, *lines]
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "BLOCK_BYTES", 200)
        folder = Path(name)
        config = PrepareConfig(tokenizer=tokenizer, sentences=mode, valid_fraction=0)
        write(folder / "in.txt", lines)
        prepare([folder / "in.txt"], folder / "out", config, workers=workers)
        corpus = Corpus.open(folder / "out")
        split = split_sentences if mode == "split" else lambda line: [line]
        expected = [reader.tokens(sentence) for line in lines for sentence in split(line)]
        assert spelled(corpus, corpus.train) == [tokens for tokens in expected if tokens]


@settings(max_examples=40)
# A first line is never odd here, as the file's first character may be a byte order mark.
@given(text_lines(), st.sampled_from(["lines", "split"]), st.sampled_from(["regex", "whitespace"]))
def test_corpus_holds_the_tokens_of_the_reader(
    lines: list[str], mode: SentenceMode, tokenizer: str
) -> None:
    check_lines(short(lines), mode, tokenizer, workers=1)


@settings(max_examples=2)
@given(text_lines())
def test_two_workers_give_the_same_tokens(lines: list[str]) -> None:
    check_lines(short(lines), "lines", "regex", workers=2)


def test_korean_morphemes() -> None:
    check_lines(["비가 왔다. 그래도 갔다!", "한국어를 공부했다."], "split", "kiwi", workers=1)


def test_number_of_workers_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "BLOCK_BYTES", 1000)
    write(tmp_path / "in.txt", some_lines(400))
    for workers in (1, 2):
        prepare([tmp_path / "in.txt"], tmp_path / f"{workers}", workers=workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert not list(tmp_path.glob("*.partial"))


def test_size_of_blocks_changes_no_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in.txt", some_lines(30))
    for size in (10, 300, 1 << 20):
        monkeypatch.setattr(preparing, "BLOCK_BYTES", size)
        prepare([tmp_path / "in.txt"], tmp_path / f"{size}", LINES)
    found = [contents(tmp_path / f"{size}") for size in (300, 1 << 20)]
    assert found[0] == found[1]
    # A line longer than a block is cut, at a blank if there is one.
    tokens = [Corpus.open(tmp_path / f"{size}").info.train_tokens for size in (10, 300)]
    assert tokens[0] >= tokens[1]


def test_wrapped_text_is_read_by_paragraph(tmp_path: Path) -> None:
    lines = ["One sentence runs over", "the line. Another", "one too.", "", "A third", "one.", ""]
    write(tmp_path / "in.txt", lines * 3)
    config = PrepareConfig(sentences="wrapped", valid_fraction=0)
    report = prepare([tmp_path / "in.txt"], tmp_path / "out", config)
    corpus = Corpus.open(tmp_path / "out")
    found = [" ".join(tokens) for tokens in spelled(corpus, corpus.train)]
    sentences = ["One sentence runs over the line .", "Another one too .", "A third one ."]
    assert found == sentences * 3
    assert (report.lines, report.empty_lines, report.duplicated_lines) == (21, 6, 4)


@given(st.integers(0, 5000), st.integers(1, 500))
def test_pieces_are_even_and_short_enough(length: int, limit: int) -> None:
    pieces = cut(length, limit)
    assert sum(pieces) == length and all(1 <= piece <= limit for piece in pieces)
    assert max(pieces, default=0) - min(pieces, default=0) <= 1
    assert len(pieces) == -(-length // limit)


def test_long_sentences_are_cut_and_counted(tmp_path: Path) -> None:
    write(tmp_path / "in.txt", ["a " * 25, "b " * 10])
    config = PrepareConfig(max_length=10, valid_fraction=0)
    report = prepare([tmp_path / "in.txt"], tmp_path / "out", config)
    assert Corpus.open(tmp_path / "out").train.lengths.tolist() == [9, 8, 8, 10]
    assert report.cut_sentences == 1


def prepared(folder: Path, lines: Sequence[str], **options: Any) -> tuple[Report, Corpus]:
    write(folder / "in.txt", lines)
    report = prepare([folder / "in.txt"], folder / "out", PrepareConfig(**options))
    return report, Corpus.open(folder / "out")


def test_held_out_lines_are_a_stable_share_and_no_duplicate_is_on_both_sides(
    tmp_path: Path,
) -> None:
    lines = [f"this is line {i % 300} of the text ." for i in range(600)]
    _, corpus = prepared(tmp_path, lines, valid_fraction=0.1)
    train = {tuple(tokens) for tokens in spelled(corpus, corpus.train)}
    valid = {tuple(tokens) for tokens in spelled(corpus, corpus.valid)}
    assert not train & valid and len(train | valid) == 300
    assert len(corpus.valid) == 2 * len(valid)
    assert 0.09 < corpus.info.valid_tokens / (600 * 8) < 0.11
    (tmp_path / "again").mkdir()
    random.Random(0).shuffle(lines)
    _, other = prepared(tmp_path / "again", lines, valid_fraction=0.1)
    assert {tuple(tokens) for tokens in spelled(other, other.valid)} == valid


def test_a_line_repeated_all_over_is_not_held_out(tmp_path: Path) -> None:
    for number in range(6):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        lines = [f"subscribe now {number}"] * 500 + [f"line {i} has text" for i in range(200)]
        _, corpus = prepared(folder, lines, valid_fraction=0.05)
        assert "subscribe" not in {w for tokens in spelled(corpus, corpus.valid) for w in tokens}
        assert len(corpus.valid) > 0


def test_held_out_text_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.corpus.write.MAX_VALID_TOKENS", 50)
    _, corpus = prepared(tmp_path, [f"a b c d {i}" for i in range(500)], valid_fraction=0.5)
    assert 50 <= corpus.info.valid_tokens < 60


def test_files_can_be_held_out(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", ["the cat sat ."] * 10)
    write(tmp_path / "valid.txt", ["the platypus sat .", "the cat sat ."])
    report = prepare(
        [tmp_path / "train.txt"], tmp_path / "out", valid=[tmp_path / "valid.txt"]
    )  # fmt: skip
    corpus = Corpus.open(tmp_path / "out")
    assert len(corpus.train) == 10 and len(corpus.valid) == 2
    assert corpus.words[-1] == "platypus" and corpus.counts[-1] == 0
    assert "platypus" not in corpus.vocab
    assert report.unknown_share == 1 / 8 and report.leaked_lines == 1


def test_vocabulary_is_limited_by_size_and_count(tmp_path: Path) -> None:
    lines = ["c c c b b a"] * 5 + ["rare"]
    _, corpus = prepared(tmp_path, lines, vocab_size=5, valid_fraction=0)
    assert list(corpus.vocab) == ["<S>", "</S>", "<UNK>", "c", "b"]
    (tmp_path / "x").mkdir()
    _, corpus = prepared(tmp_path / "x", lines, min_count=2, valid_fraction=0)
    assert list(corpus.vocab) == ["<S>", "</S>", "<UNK>", "c", "b", "a"]
    assert corpus.words[-1] == "rare"


def test_report_counts(tmp_path: Path) -> None:
    lines = ["a b c"] * 6 + ["", " ", "d " + "x" * 99, "<UNK> a", "e " + "한" * 20]
    report, _ = prepared(tmp_path, lines, vocab_size=6, valid_fraction=0, tokenizer="whitespace")
    assert (report.lines, report.empty_lines, report.duplicated_lines) == (11, 2, 5)
    assert (report.train_sentences, report.train_tokens, report.words) == (9, 24, 7)
    # Of 24 tokens, 7 are a, 6 b and 6 c; the literal <UNK> is covered by no vocabulary.
    assert report.coverage == [(4, 7 / 24), (6, 19 / 24), (10, 23 / 24)]
    assert (report.cropped.words, report.cropped.tokens) == (2, 2)
    assert report.cropped.examples == ["x" * 99, "한" * 20]
    assert report.cropped.needed == 101


def test_small_texts_warn_and_tiny_ones_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepared(tmp_path, ["a b c d e f g h i j k"] * 2)
    assert "only 22 tokens in 2 sentences" in caplog.text
    for lines in (["one two three"], ["a " * 30], [""], ["a", "b"]):
        write(tmp_path / "tiny.txt", lines)
        assert_refused(
            lambda: prepare([tmp_path / "tiny.txt"], tmp_path / "tiny"), "tiny.txt: too little text"
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out", "tiny.txt"]


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ({"sentences": "words"}, "sentences='words'"),
        ({"max_characters": 2}, "max_characters=2"),
        ({"vocab_size": 3}, "vocab_size=3"),
        ({"valid_fraction": 0.9}, "valid_fraction=0.9"),
        ({"max_length": 0}, "max_length=0"),
        ({"tokenizer": "nltk"}, "tokenizer='nltk'"),
    ],
)
def test_odd_options_are_refused(tmp_path: Path, options: dict[str, Any], mention: str) -> None:
    assert_refused(lambda: prepared(tmp_path, PADDING, **options), mention)
    assert not (tmp_path / "out").exists()


def test_a_stopped_run_continues_with_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "BLOCK_BYTES", 500)
    write(tmp_path / "in.txt", some_lines(200))
    prepare([tmp_path / "in.txt"], tmp_path / "whole", workers=1)
    work, made = block.process_block, []

    def count(*args: Any, limit: int | None) -> int:
        if len(made) == limit:
            raise Killed
        made.append(args[-1])
        return work(*args)

    monkeypatch.setattr(block, "process_block", lambda *args: count(*args, limit=4))
    with pytest.raises(Killed):
        prepare([tmp_path / "in.txt"], tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists() and len(made) == 4
    # A block that a power failure left torn is made again.
    made[1].write_bytes(made[1].read_bytes()[:-40])
    monkeypatch.setattr(block, "process_block", lambda *args: count(*args, limit=None))
    prepare([tmp_path / "in.txt"], tmp_path / "out", workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(made) == len(set(made)) + 1
    assert not list(tmp_path.glob("*.partial"))


def test_unfinished_work_on_other_text_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(preparing, "BLOCK_BYTES", 500)
    write(tmp_path / "in.txt", some_lines(200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "count", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            prepare([tmp_path / "in.txt"], tmp_path / "out", workers=1)
    lines = ["other words", *some_lines(200)[1:]]
    write(tmp_path / "in.txt", lines)
    prepare([tmp_path / "in.txt"], tmp_path / "out", LINES, workers=1)
    assert "discarded" in caplog.text
    corpus = Corpus.open(tmp_path / "out")
    assert spelled(corpus, corpus.train)[0] == ["other", "words"]


SCRIPT = """
import os, sys
from concurrent.futures import ProcessPoolExecutor
from elmokit.corpus import prepare

submit, blocks = ProcessPoolExecutor.submit, []

def submit_eight(*arguments):
    blocks.append(arguments)
    if len(blocks) > 8:
        os.read(0, 1)  # never comes
    return submit(*arguments)

if __name__ == "__main__":
    ProcessPoolExecutor.submit = submit_eight
    prepare.BLOCK_BYTES = 2000
    prepare.prepare([sys.argv[1]], sys.argv[2], workers=2)
"""
"""Prepares eight blocks, and waits to be killed."""


def processes() -> dict[int, int]:
    """The processes that run, with their parents; not those that only wait to be reaped."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            found[int(path.parent.name)] = int(parent)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_kill_leaves_no_process_and_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in.txt", some_lines(6000))
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, tmp_path / "script.py", tmp_path / "in.txt", tmp_path / "out"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    while not list(tmp_path.glob("out.partial/train-*.npz")):
        assert process.poll() is None
        time.sleep(0.01)
    workers = {pid for pid, parent in processes().items() if parent == process.pid}
    process.kill()
    process.communicate()
    assert not (tmp_path / "out").exists() and workers
    for _ in range(3000):
        if not workers & processes().keys():
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"workers live on: {workers}")
    monkeypatch.setattr(preparing, "BLOCK_BYTES", 2000)
    before = len(list(tmp_path.glob("out.partial/train-*.npz")))
    made = []
    work = block.process_block
    monkeypatch.setattr(block, "process_block", lambda *args: made.append(args) or work(*args))
    prepare([tmp_path / "in.txt"], tmp_path / "out", workers=1)
    monkeypatch.setattr(block, "process_block", work)
    prepare([tmp_path / "in.txt"], tmp_path / "whole", workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert before > 0 and len(made) > 0
    assert not (tmp_path / "out.partial").exists()


def test_a_worker_that_dies_is_explained(tmp_path: Path) -> None:
    def blocks() -> Iterator[tuple[bytes, Reading, Path]]:
        for i in range(100):
            yield b"some text", reading, tmp_path / f"{i}.npz"
            if i == 3:
                for worker in multiprocessing.active_children():
                    worker.kill()

    reading = Reading("regex", "NFC", "lines", 400)
    assert_refused(
        lambda: list(block.process_all(blocks(), 2)), "a worker process died", "--workers"
    )


def test_existing_corpora_are_replaced_only_by_force(tmp_path: Path) -> None:
    prepared(tmp_path, PADDING)
    source, out = tmp_path / "in.txt", tmp_path / "out"
    assert_refused(lambda: prepare([source], out), "out exists already", "--force")
    write(source, [*PADDING, "one more line"])
    prepare([source], out, LINES, force=True)
    assert len(Corpus.open(out).train) == 3
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine", encoding="utf-8")
    assert_refused(lambda: prepare([source], tmp_path / "other", force=True), "other files")
    assert_refused(lambda: prepare([source], source, force=True), "in the way")
    (tmp_path / "empty").mkdir()
    prepare([source], tmp_path / "empty", LINES)
    assert len(Corpus.open(tmp_path / "empty").train) == 3


def test_fingerprint_is_that_of_the_content(tmp_path: Path) -> None:
    _, corpus = prepared(tmp_path, PADDING)
    (tmp_path / "x").mkdir()
    _, same = prepared(tmp_path / "x", PADDING)
    (tmp_path / "y").mkdir()
    _, other = prepared(tmp_path / "y", [*PADDING, "."])
    assert corpus.info.fingerprint == same.info.fingerprint != other.info.fingerprint
    assert np.array_equal(corpus.train.tokens, same.train.tokens)
