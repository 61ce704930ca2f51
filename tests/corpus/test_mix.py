"""Several inputs in one corpus: weights, a way of reading each, and cleaning across all of them."""

import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_data import Killed, contents, some_lines, spelled, write
from strategies import assert_refused

from elmokit.corpus import Corpus, block
from elmokit.corpus import prepare as preparing
from elmokit.corpus.corpus import PrepareConfig
from elmokit.corpus.prepare import prepare
from elmokit.corpus.report import Report
from elmokit.corpus.write import weighted_copies

LINES = PrepareConfig(sentences="lines", valid_fraction=0)
CLEAN = PrepareConfig(sentences="lines", valid_fraction=0, clean=True)


def mixed(
    folder: Path, texts: Sequence[Sequence[str]], config: PrepareConfig = LINES, **options: Any
) -> tuple[Report, Corpus]:
    """Prepare several texts, each a file."""
    paths = [write(folder / f"{i}.txt", lines) for i, lines in enumerate(texts)]
    if "held" in options:
        options["valid"] = [write(folder / "held.txt", options.pop("held"))]
    report = prepare(paths, folder / "out", config, force=True, **options)
    return report, Corpus.open(folder / "out")


def sentences(corpus: Corpus) -> Counter[str]:
    return Counter(" ".join(tokens) for tokens in spelled(corpus, corpus.train))


def numbered(word: str, number: int) -> list[str]:
    return [f"{word} number {i} is a line" for i in range(number)]


def test_a_weight_is_how_often_a_sentence_occurs(tmp_path: Path) -> None:
    texts = [numbered("one", 10), numbered("three", 20)]
    report, corpus = mixed(tmp_path, texts, weights=[1, 3])
    assert sentences(corpus) == Counter(texts[0]) + Counter(3 * texts[1])
    counts = dict(zip(corpus.words, corpus.counts.tolist(), strict=True))
    assert (counts["one"], counts["three"], counts["line"]) == (10, 60, 70)
    assert np.bincount(corpus.train.tokens, minlength=len(counts)).tolist() == list(counts.values())
    assert [(text.weight, text.sentences, text.tokens) for text in report.inputs] == [
        (1, 10, 60), (3, 20, 120),
    ]  # fmt: skip
    assert [text.share for text in report.inputs] == [1 / 7, 6 / 7]
    assert (report.train_sentences, report.train_tokens) == (70, 420)


def test_the_vocabulary_is_that_of_the_weighted_text(tmp_path: Path) -> None:
    texts = [["common common common filler"] * 5, ["rare rare filler filler"] * 5]
    for weights, expected in (([1, 1], "common"), ([1, 2], "rare")):
        config = PrepareConfig(sentences="lines", valid_fraction=0, vocab_size=5)
        _, corpus = mixed(tmp_path, texts, config, weights=weights)
        assert expected in corpus.vocab and len(corpus.vocab) == 5


def test_a_fraction_is_a_share_of_the_lines_by_their_hash(tmp_path: Path) -> None:
    lines = numbered("some", 2000)
    _, corpus = mixed(tmp_path, [numbered("one", 5), lines], weights=[1, 2.25])
    found = sentences(corpus)
    more = {line for line in lines if found[line] == 3}
    assert {found[line] for line in lines} == {2, 3} and 430 < len(more) < 570
    # Neither the order of the lines nor that of the inputs matters.
    _, corpus = mixed(tmp_path, [lines[::-1], numbered("one", 5)], weights=[2.25, 1])
    assert sentences(corpus) == found


def test_a_weight_below_one_keeps_a_share_and_no_other_word(tmp_path: Path) -> None:
    lines = [f"line with word{i} here" for i in range(1000)]
    report, corpus = mixed(tmp_path, [lines], weights=[0.3])
    kept = sentences(corpus)
    assert set(kept.values()) == {1} and 250 < len(kept) < 350
    assert sum(word.startswith("word") for word in corpus.words) == len(kept)
    assert corpus.counts[3:].min() == 1
    assert report.inputs[0].sentences == 1000 and report.train_sentences == len(kept)


def test_the_choice_by_weight_does_not_follow_the_held_out_choice() -> None:
    hashes = np.arange(0, 1 << 63, 1 << 50, dtype=np.uint64)  # the lower half
    assert 0.45 < weighted_copies(hashes, 0.5).mean() < 0.55
    assert (weighted_copies(hashes, 3.0) == 3).all()


def test_held_out_text_has_no_weight(tmp_path: Path) -> None:
    texts = [numbered("one", 300), numbered("two", 300)]
    config = PrepareConfig(sentences="lines", valid_fraction=0.1)
    found = []
    for weights in ([1, 1], [4, 0.5]):
        _, corpus = mixed(tmp_path, texts, config, weights=weights)
        found.append(spelled(corpus, corpus.valid))
    assert found[0] == found[1] and len(found[0]) > 50
    _, corpus = mixed(tmp_path, texts, weights=[4, 0.5], held=["held out text"])
    assert spelled(corpus, corpus.valid) == [["held", "out", "text"]]


def test_weights_of_one_change_no_byte(tmp_path: Path) -> None:
    texts = [some_lines(200), some_lines(100)]
    mixed(tmp_path, texts, PrepareConfig())
    expected = contents(tmp_path / "out")
    mixed(tmp_path, texts, PrepareConfig(), weights=[1, 1.0])
    assert contents(tmp_path / "out") == expected


def test_the_corpus_of_one_input_is_what_it_always_was(tmp_path: Path) -> None:
    _, corpus = mixed(tmp_path, [some_lines(300)], PrepareConfig())
    assert corpus.info.fingerprint == FINGERPRINT


FINGERPRINT = "80cafd76dc86841f7a7c3eae591992560d90e3f587172f8d0089b95af5920201"


def test_each_input_is_read_in_its_own_way(tmp_path: Path) -> None:
    paragraphs = [f"This is paragraph {i}. It has a second sentence." for i in range(30)]
    wrapped = [
        "A sentence that is wrapped at some width runs",
        "over the line and ends. So does",
        "",
    ]
    texts = [numbered("one", 30), paragraphs, wrapped * 30]
    held = ["A held-out line. It has two sentences."] * 3
    report, corpus = mixed(tmp_path, texts, PrepareConfig(), held=held)
    assert [text.mode for text in report.inputs] == ["lines", "split", "wrapped"]
    assert (report.mode, report.reason) == ("mixed", "see inputs")
    assert [text.sentences for text in report.inputs] == [30, 60, 60]
    assert len(corpus.valid) == 6
    assert [text.name for text in report.inputs] == [str(tmp_path / f"{i}.txt") for i in range(3)]


def test_blocks_end_with_their_input(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no newline at the end of this text", encoding="utf-8")
    write(tmp_path / "b", numbered("two", 5))
    prepare([tmp_path / "a", tmp_path / "b"], tmp_path / "out", LINES, weights=[2, 1])
    corpus = Corpus.open(tmp_path / "out")
    assert sentences(corpus)["no newline at the end of this text"] == 2


def test_the_report_of_one_input_has_it_too(tmp_path: Path) -> None:
    report, corpus = mixed(tmp_path, [numbered("one", 10)])
    (text,) = report.inputs
    assert (text.mode, text.reason) == (report.mode, report.reason)
    assert (text.share, text.weight, text.cleaned, report.cleaned) == (1.0, 1.0, None, None)
    assert corpus.info.report["inputs"][0]["lines"] == 10


def test_a_folder_is_one_input(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    write(tmp_path / "x/1", numbered("one", 5))
    write(tmp_path / "x/2", numbered("two", 5))
    write(tmp_path / "y", numbered("three", 5))
    report = prepare([tmp_path / "x", tmp_path / "y"], tmp_path / "out", LINES, weights=[2, 1])
    assert [(text.files, text.sentences) for text in report.inputs] == [(2, 10), (1, 5)]
    assert report.train_sentences == 25 and report.files == 3


@pytest.mark.parametrize(
    ("weights", "mention"),
    [
        ([1], "weights: 1, inputs: 2"),
        ([1, 2, 3], "weights: 3, inputs: 2"),
        ([1, 0], "weight 0 of"),
        ([-1, 1], "weight -1 of"),
        ([1, float("nan")], "weight nan of"),
        ([float("inf"), 1], "weight inf of"),
        ([1, 101], "weight 101 of"),
        ([1, "2"], "weight '2' of"),
    ],
)
def test_odd_weights_are_refused(tmp_path: Path, weights: Any, mention: str) -> None:
    assert_refused(lambda: mixed(tmp_path, [["a"], ["b"]], weights=weights), mention)
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob("*.partial"))


def test_weights_that_leave_nothing_are_refused(tmp_path: Path) -> None:
    lines = ["the first of two lines " * 5, "the second of two lines " * 5]
    assert_refused(lambda: mixed(tmp_path, [lines], weights=[1e-9]), "too little text")


def test_cleaning_drops_and_counts(tmp_path: Path) -> None:
    texts = [
        ["= Title =", "A <b>bold</b> line of text.", "A plain line of text.", "* * *", ""],
        ["A plain  line of text. ", "A bold line of text.", "This one is new here.", "| x | y |"],
        ["This one is held out.", "This one is held out.", "The last line of them all is here."],
    ]
    report, corpus = mixed(tmp_path, texts, CLEAN, held=["This one is held out.", "So is this."])
    assert sentences(corpus) == Counter(
        ["A bold line of text .", "A plain line of text .", "This one is new here .",
         "The last line of them all is here ."]
    )  # fmt: skip
    assert len(corpus.valid) == 2
    found = [text.cleaned for text in (*report.inputs, report)]
    names = ("changed", "markup", "boilerplate", "duplicates", "leaked")
    assert [tuple(getattr(cleaned, name) for name in names) for cleaned in found] == [
        (1, 1, 1, 0, 0), (0, 1, 0, 2, 0), (0, 0, 0, 0, 2), (1, 2, 1, 2, 2),
    ]  # fmt: skip


def test_duplicates_are_dropped_before_text_is_weighted_and_held_out(tmp_path: Path) -> None:
    texts = [numbered("one", 200) * 2, numbered("one", 100) + numbered("two", 100)]
    config = PrepareConfig(sentences="lines", valid_fraction=0.1, clean=True)
    report, corpus = mixed(tmp_path, texts, config, weights=[2, 3])
    valid = [" ".join(tokens) for tokens in spelled(corpus, corpus.valid)]
    found = sentences(corpus)
    assert len(set(valid)) == len(valid) and not set(valid) & set(found)
    assert len(valid) + len(found) == 300
    assert {count for line, count in found.items() if line.startswith("one")} == {2}
    assert {count for line, count in found.items() if line.startswith("two")} == {3}
    assert report.cleaned is not None and report.cleaned.duplicates == 300


def test_paragraphs_of_wrapped_text_are_cleaned_as_one(tmp_path: Path) -> None:
    lines = ["A <b>bold", "claim</b> is here to see.", "", "A bold claim", "is here to see.", ""]
    config = PrepareConfig(sentences="wrapped", valid_fraction=0, clean=True)
    report, corpus = mixed(tmp_path, [[*lines, "And more text follows " * 5]], config)
    assert sentences(corpus)["A bold claim is here to see ."] == 1
    assert report.cleaned is not None and report.cleaned.duplicates == 1


def test_without_clean_nothing_is_dropped(tmp_path: Path) -> None:
    lines = ["= Title of it =", "<b>bold</b> words", "* * *", "* * *"] * 3
    report, corpus = mixed(tmp_path, [lines], PrepareConfig(valid_fraction=0, sentences="lines"))
    assert len(corpus.train) == 12 and report.duplicated_lines == 9


def mix(folder: Path, out: str, workers: int = 1) -> None:
    config = PrepareConfig(valid_fraction=0.05, clean=True)
    paths = [folder / "0.txt", folder / "1.txt"]
    prepare(paths, folder / out, config, weights=[1.5, 2.5], workers=workers)


def test_workers_and_interruptions_change_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "BLOCK_BYTES", 2000)
    write(tmp_path / "0.txt", ["<b>x</b> = y", *some_lines(300)])
    write(tmp_path / "1.txt", [*some_lines(310), *numbered("some", 50)])
    mix(tmp_path, "one")
    mix(tmp_path, "two", workers=2)
    work, made = block.process_block, []

    def limited(*args: Any) -> int:
        if len(made) == 9:
            raise Killed
        made.append(args)
        return work(*args)

    with monkeypatch.context() as patch:
        patch.setattr(block, "process_block", limited)
        with pytest.raises(Killed):
            mix(tmp_path, "out")
    mix(tmp_path, "out")
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "out")


def test_unfinished_work_without_cleaning_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["A <b>bold</b> line", *numbered("some", 20)]
    with monkeypatch.context() as patch:
        patch.setattr(preparing, "count", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            mixed(tmp_path, [lines])
    _, corpus = mixed(tmp_path, [lines], CLEAN)
    assert "discarded" in caplog.text and "<" not in corpus.words


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_several_pipes_are_several_inputs(tmp_path: Path) -> None:
    for name, word in (("a", "one"), ("b", "two")):
        os.mkfifo(tmp_path / name)
        threading.Thread(target=write, args=(tmp_path / name, numbered(word, 10))).start()
    report = prepare([tmp_path / "a", tmp_path / "b"], tmp_path / "out", LINES, weights=[1, 2])
    assert [text.sentences for text in report.inputs] == [10, 10]
    assert report.train_sentences == 30
