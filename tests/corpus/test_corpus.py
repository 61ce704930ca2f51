"""A prepared corpus opens, and a folder that is none or lost a part says so."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import assert_refused

from elmokit.corpus import Corpus
from elmokit.corpus.corpus import BOS_ID, EOS_ID, UNK_ID, PrepareConfig
from elmokit.corpus.prepare import prepare
from elmokit.errors import FileError, FormatError
from elmokit.text.ids import ByteCharacters

TEXT = ["the cat sat on the mat .", "the dog sat too .", "a <UNK> cat <S> ran </S> .", "é 한글 🙂"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of four sentences, one of them held out."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "in.txt").write_text("\n".join([*TEXT, ""]), encoding="utf-8")
    config = PrepareConfig(tokenizer="whitespace", vocab_size=8, max_characters=12)
    prepare([folder / "in.txt"], folder / "corpus", config)
    return folder / "corpus"


@pytest.fixture
def corpus_folder(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def test_words_are_sorted_by_frequency_after_the_special_ones(made: Path) -> None:
    corpus = Corpus.open(made)
    assert corpus.words[:3] == ["<S>", "</S>", "<UNK>"]
    assert (BOS_ID, EOS_ID, UNK_ID) == (0, 1, 2)
    assert len(set(corpus.words)) == len(corpus.words) == corpus.num_words
    assert list(corpus.vocab) == corpus.words[:8]
    rest = [(-n, word) for n, word in zip(corpus.counts[3:], corpus.words[3:], strict=True)]
    assert rest == sorted(rest)
    tokens = np.bincount(corpus.train.tokens, minlength=corpus.num_words)
    np.testing.assert_array_equal(tokens, corpus.counts)


def test_sentences_come_back(made: Path) -> None:
    corpus = Corpus.open(made)
    parts = [corpus.train, corpus.valid]
    found = [" ".join(corpus.words[i] for i in part[k]) for part in parts for k in range(len(part))]
    assert sorted(found) == sorted(TEXT)
    assert len(corpus.valid) == 1
    assert corpus.train.lengths.tolist() == [len(corpus.train[k]) for k in range(3)]
    np.testing.assert_array_equal(corpus.train[-1], corpus.train[2])
    with pytest.raises(IndexError):
        corpus.train[3]


def test_every_word_is_spelled(made: Path) -> None:
    corpus = Corpus.open(made)
    expected = ByteCharacters(12).encode(corpus.words)
    np.testing.assert_array_equal(corpus.characters, expected)
    assert isinstance(corpus.characters, np.memmap) and isinstance(corpus.train.tokens, np.memmap)
    assert corpus.characters.dtype == np.uint16 and corpus.train.tokens.dtype == np.int32


def test_info_says_how_it_was_made(made: Path) -> None:
    info = Corpus.open(made).info
    assert (info.tokenizer, info.normalization, info.max_characters) == ("whitespace", "NFC", 12)
    assert info.train_sentences + info.valid_sentences == 4
    assert info.report["mode"] == "lines"


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    assert_refused(lambda: Corpus.open(tmp_path / "none"), "none: no such folder", "prepare")
    assert_refused(lambda: Corpus.open(tmp_path), "no corpus.json", "elmokit prepare")
    (tmp_path / "corpus.json").write_text('{"format": "other"}', encoding="utf-8")
    assert_refused(lambda: Corpus.open(tmp_path), "'other'", "elmokit-corpus-1")
    (tmp_path / "corpus.json").write_text("{", encoding="utf-8")
    assert_refused(lambda: Corpus.open(tmp_path), "not JSON")


FILES = [
    "characters.npy", "counts.npy", "train.offsets.npy", "train.tokens.npy", "valid.offsets.npy",
    "valid.tokens.npy", "vocab.txt",
]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_missing_and_truncated_parts_are_named(corpus_folder: Path, name: str) -> None:
    data = (corpus_folder / name).read_bytes()
    (corpus_folder / name).write_bytes(data[: len(data) // 2])
    assert_refused(lambda: Corpus.open(corpus_folder), name)
    (corpus_folder / name).write_bytes(b"")
    assert_refused(lambda: Corpus.open(corpus_folder), name)
    (corpus_folder / name).unlink()
    assert_refused(lambda: Corpus.open(corpus_folder), name)


def test_parts_of_other_sizes_and_types_are_refused(corpus_folder: Path) -> None:
    tokens = np.load(corpus_folder / "train.tokens.npy")
    np.save(corpus_folder / "train.tokens.npy", tokens.astype(np.int64))
    assert_refused(lambda: Corpus.open(corpus_folder), "train.tokens.npy", "int64", "int32")
    np.save(corpus_folder / "train.tokens.npy", tokens[:-1])
    assert_refused(lambda: Corpus.open(corpus_folder), "train.tokens.npy")
    np.save(corpus_folder / "train.tokens.npy", tokens)
    offsets = np.load(corpus_folder / "train.offsets.npy")
    np.save(corpus_folder / "train.offsets.npy", offsets + 1)
    assert_refused(lambda: Corpus.open(corpus_folder), "train.offsets.npy", "does not fit")


def test_words_file_is_checked_when_it_is_read(corpus_folder: Path) -> None:
    (corpus_folder / "words.txt").write_text("<S>\n", encoding="utf-8")
    corpus = Corpus.open(corpus_folder)
    assert_refused(lambda: corpus.words, "words.txt has 1 lines")


@pytest.mark.parametrize(
    ("field", "value"), [("num_words", -1), ("vocab_size", "8"), ("train", None), ("report", [])]
)
def test_odd_settings_are_refused(corpus_folder: Path, field: str, value: object) -> None:
    path = corpus_folder / "corpus.json"
    values = json.loads(path.read_text(encoding="utf-8")) | {field: value}
    path.write_text(json.dumps(values), encoding="utf-8")
    assert_refused(lambda: Corpus.open(corpus_folder), field)


@pytest.mark.parametrize("name", ["num_words", "vocab_size", "max_characters", "train.tokens",
                                  "valid.sentences", "normalization", "tokenizer", "fingerprint",
                                  "report.inputs", "format", "train"])  # fmt: skip
@pytest.mark.parametrize(
    "value", [None, -1, 0, 2.5, True, 10**30, "x" * 10**5, [], [[[]]], {"a": 1}, [{"name": 1}]],
    ids=lambda value: f"{value!r:.12}",
)  # fmt: skip
def test_any_value_of_any_field_opens_or_names_the_field(
    corpus_folder: Path, name: str, value: object
) -> None:
    path = corpus_folder / "corpus.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    *outer, last = name.split(".")
    (values[outer[0]] if outer else values)[last] = value
    path.write_text(json.dumps(values), encoding="utf-8")
    try:
        Corpus.open(corpus_folder)
    except (FormatError, FileError) as e:
        assert len(str(e)) <= 500 and "\n" not in str(e)
        assert "corpus.json" in str(e) or ".npy" in str(e) or ".txt" in str(e)


@pytest.mark.parametrize(
    ("name", "index", "value", "problem"),
    [
        ("train.tokens", 1, -1, "holds -1"),
        ("valid.tokens", 0, 10**6, "holds 1000000; expected 0.."),
        ("train.offsets", 1, -5, "does not increase after sentence 0"),
        ("train.offsets", 2, 1, "does not increase after sentence 1"),
        ("train.offsets", 1, 2**62, "does not increase after sentence 1"),
        ("counts", 3, -1, "holds -1"),
        ("characters", (4, 1), 262, "holds 262; expected 0..261"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    corpus_folder: Path, name: str, index: Any, value: int, problem: str
) -> None:
    path = corpus_folder / f"{name}.npy"
    array = np.load(path)
    array[index] = value
    np.save(path, array)
    assert_refused(lambda: Corpus.open(corpus_folder), f"{name}.npy", problem, "prepare the corpus")


def test_headers_that_numpy_chokes_on_are_refused(corpus_folder: Path) -> None:
    path = corpus_folder / "counts.npy"
    for header in (b"{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }", b"{" * 100, b"(",
                   b"{'descr': [], 'fortran_order': 0, 'shape': (2,)}", b"{'descr': 5}",
                   b"{'descr': '<i8', 'fortran_order': False, 'shape': (10**12,), }"):  # fmt: skip
        path.write_bytes(b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header + bytes(64))
        assert_refused(lambda: Corpus.open(corpus_folder), "counts.npy")


@pytest.mark.parametrize("name", ["words.txt", "vocab.txt"])
def test_word_lists_are_checked(corpus_folder: Path, name: str) -> None:
    lines = (corpus_folder / name).read_text(encoding="utf-8").split("\n")
    for change in ({4: lines[3]}, {4: ""}, {0: "<s>"}, {3: "other"}):
        changed = [change.get(i, line) for i, line in enumerate(lines)]
        (corpus_folder / name).write_text("\n".join(changed), encoding="utf-8")
        assert_refused(lambda: Corpus.open(corpus_folder).words, ".txt")
    (corpus_folder / name).write_bytes(b"\xff\n")
    assert_refused(lambda: Corpus.open(corpus_folder).words, name, "UTF-8")


@pytest.mark.parametrize("name", ["corpus.json", "vocab.txt", "train.tokens.npy", "words.txt"])
def test_pipes_do_not_hang(corpus_folder: Path, name: str) -> None:
    (corpus_folder / name).unlink()
    os.mkfifo(corpus_folder / name)
    assert_refused(lambda: Corpus.open(corpus_folder).words, name, "a pipe or a device")
