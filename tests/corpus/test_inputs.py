"""Which files are read, in which order, and what is wrong with them is said before work begins."""

import gzip
import lzma
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_refused

from elmokit.corpus import Corpus
from elmokit.corpus.corpus import PrepareConfig
from elmokit.corpus.inputs import find_files, text_blocks
from elmokit.corpus.prepare import prepare
from elmokit.files.read import read_blocks

TEXT = b"one two three four five\n" * 10
LINES = PrepareConfig(sentences="lines", valid_fraction=0)


def names(files: list) -> list[str]:
    return [file.path.name for file in files]


def test_folders_are_read_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/.hidden", ".git/config", "a/b/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(TEXT)
    assert names(find_files([tmp_path])) == ["c.txt", "z.txt", "b.txt"]
    assert names(find_files([tmp_path / "b.txt", tmp_path / "a"])) == ["b.txt", "c.txt", "z.txt"]
    # A hidden file that is named is wanted.
    assert names(find_files([tmp_path / "a/.hidden"])) == [".hidden"]


def test_compressed_files_and_folders_give_the_same_corpus(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/1.txt").write_bytes(TEXT)
    (tmp_path / "x/2.txt.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "x/3.txt.xz").write_bytes(lzma.compress(b"\xef\xbb\xbf" + TEXT[:-1]))
    (tmp_path / "y").write_bytes(TEXT * 3)
    prepare([tmp_path / "x"], tmp_path / "one", LINES)
    prepare([tmp_path / "y"], tmp_path / "two", LINES)
    one, two = Corpus.open(tmp_path / "one"), Corpus.open(tmp_path / "two")
    assert one.info.fingerprint == two.info.fingerprint
    assert len(one.train) == 30


@pytest.mark.parametrize(
    ("data", "mentions"),
    [
        (b"", ("empty",)),
        (TEXT + b"a\0b\n", ("line 11", "zero byte")),
        (TEXT + b"caf\xe9\n", ("line 11", "not UTF-8", "byte 3", "iconv")),
        ("text".encode("utf-16"), ("line 1", "UTF-16")),
        (TEXT[:-1] + "한".encode()[:2], ("line 10", "not UTF-8")),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(
    tmp_path: Path, data: bytes, mentions: tuple[str, ...]
) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_bytes(TEXT)
    bad.write_bytes(data)
    assert_refused(lambda: prepare([good, bad], tmp_path / "out"), "bad.txt", *mentions)
    assert_refused(
        lambda: prepare([good], tmp_path / "out", valid=[bad]), "bad.txt", *mentions
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "good.txt"]


def test_missing_inputs_are_named(tmp_path: Path) -> None:
    assert_refused(lambda: prepare([tmp_path / "none"], tmp_path / "out"), "none: no such file")
    (tmp_path / "empty").mkdir()
    assert_refused(lambda: prepare([tmp_path / "empty"], tmp_path / "out"), "there is no file")
    assert_refused(lambda: prepare(["-", "-"], tmp_path / "out"), "only once")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT)[:-9])
    assert_refused(lambda: prepare([tmp_path / "cut.gz"], tmp_path / "out"), "cut.gz", "damaged")


def test_empty_files_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/full").write_bytes(TEXT)
    (tmp_path / "x/void").write_bytes(b"")
    report = prepare([tmp_path / "x"], tmp_path / "out", LINES)
    assert report.empty_files == [str(tmp_path / "x/void")] and report.files == 2
    (tmp_path / "x/full").write_bytes(b"")
    assert_refused(lambda: prepare([tmp_path / "x"], tmp_path / "none"), "empty")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_read_once(tmp_path: Path) -> None:
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT,))
    writer.start()
    report = prepare([pipe], tmp_path / "out", LINES)
    writer.join()
    assert report.lines == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pipe"]


LINE_TEXT = st.text(st.sampled_from("ab é한🙂\n"), max_size=80).map(str.encode)


@given(LINE_TEXT, st.integers(1, 30), st.booleans())
def test_blocks_are_the_text_and_end_between_characters(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int, paragraphs: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "blocks.txt"
    path.write_bytes(data)
    blocks = list(read_blocks(path, size, paragraphs=paragraphs))
    assert b"".join(blocks) == data
    assert all(blocks)
    if size >= 4:
        for block in blocks:
            block.decode()
    if max(map(len, data.split(b"\n"))) < size:
        assert all(block.endswith(b"\n") for block in blocks[:-1])


@given(st.lists(LINE_TEXT, max_size=4), st.integers(8, 60))
def test_files_are_packed_but_their_lines_are_not_joined(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], size: int
) -> None:
    paths = [tmp_path_factory.getbasetemp() / f"packed-{i}.txt" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    blocks = list(text_blocks(paths, size, paragraphs=False))
    # A newline is added at most, at the end of a file without one.
    assert b"".join(blocks).replace(b"\n", b"") == b"".join(texts).replace(b"\n", b"")
    if all(len(line) < size for text in texts for line in text.split(b"\n")):
        lines = [line for block in blocks for line in block.split(b"\n") if line]
        assert lines == [line for text in texts for line in text.split(b"\n") if line]


def test_zstandard_of_several_frames(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor().compress(TEXT)
    (tmp_path / "in.txt.zst").write_bytes(packed * 3)
    assert prepare([tmp_path / "in.txt.zst"], tmp_path / "out", LINES).lines == 30
    for data in (packed[:-5], packed + b"nonsense"):
        (tmp_path / "bad.zst").write_bytes(data)
        assert_refused(
            lambda: prepare([tmp_path / "bad.zst"], tmp_path / "x"), "bad.zst", "damaged"
        )


def test_zstandard_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    (tmp_path / "in.zst").write_bytes(b"x")
    assert_refused(lambda: prepare([tmp_path / "in.zst"], tmp_path / "out"), "elmokit[zstd]")
