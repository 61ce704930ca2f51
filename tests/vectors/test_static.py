"""Static word vectors: every format, and every way to be damaged."""

import gzip
import logging
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_refused

from elmokit.errors import InputError
from elmokit.vectors.static import ByteStream, StaticVectors, read_static_vectors

WORDS = ["the", "한글", "</s>", "Café", "new york", "9", "🙂"]
DIM = 5
MATRIX = np.random.default_rng(0).normal(size=(len(WORDS), DIM)).astype(np.float32)
SHARED = Path(__file__).resolve().parents[3] / "shared"
GLOVE = SHARED / "data" / "glove" / "glove.6B.100d.top60k.txt.gz"


def as_text(header: bool, line_end: str = "\n") -> bytes:
    lines = [f"{len(WORDS)} {DIM}"] if header else []
    lines += [f"{word} {' '.join(map(str, row.tolist()))}" for word, row in zip(WORDS, MATRIX)]
    return (line_end.join(lines) + line_end).encode()


def as_binary(after: bytes = b"\n", words: list[str] = WORDS) -> bytes:
    # A word of a binary ends at the first blank.
    rows = zip(words, MATRIX, strict=True)
    data = b"".join(w.replace(" ", "_").encode() + b" " + row.tobytes() + after for w, row in rows)
    return f"{len(words)} {DIM}\n".encode() + data


FORMATS = {
    "glove": as_text(header=False),
    "word2vec": as_text(header=True),
    "fasttext": as_text(header=True, line_end=" \n"),
    "windows": as_text(header=True, line_end="\r\n"),
    "tabs": as_text(header=False).replace(b" ", b"\t").replace(b"new\tyork", b"new york"),
    "marked": b"\xef\xbb\xbf" + as_text(header=False),
    "no last newline": as_text(header=False).rstrip(b"\n"),
    "binary": as_binary(),
    "binary without newlines": as_binary(b""),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_known_by_its_content(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "v"
    path.write_bytes(FORMATS[kind])
    vectors = read_static_vectors(path)
    blank = "new_york" if "binary" in kind else "new york"
    expected = [word.replace("new york", blank) for word in WORDS]
    assert list(vectors.words) == expected and list(vectors.words.values()) == list(range(7))
    assert vectors.matrix.dtype == np.float32 and vectors.dim == DIM
    np.testing.assert_array_equal(vectors.matrix, MATRIX)


@pytest.mark.parametrize("kind", ["glove", "binary"])
def test_compressed_files_are_read_like_plain_ones(tmp_path: Path, kind: str) -> None:
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = tmp_path / f"v{suffix}"
        path.write_bytes(compress(FORMATS[kind]))
        np.testing.assert_array_equal(read_static_vectors(path).matrix, MATRIX)
        path.write_bytes(compress(FORMATS[kind])[:-20])
        assert_refused(lambda path=path: read_static_vectors(path), str(path), "damaged")


@pytest.mark.parametrize("kind", ["glove", "word2vec", "binary"])
def test_only_wanted_words_are_kept_in_lower_case_too(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "v"
    path.write_bytes(FORMATS[kind])
    vectors = read_static_vectors(path, wanted=["The", "한글", "nowhere"])
    assert vectors.words == {"the": 0, "한글": 1}
    got = vectors.vectors(["The", "nowhere", "한글", "the"])
    np.testing.assert_array_equal(got, np.stack([MATRIX[0], MATRIX[0] * 0, MATRIX[1], MATRIX[0]]))
    assert read_static_vectors(path, wanted=[]).matrix.shape == (0, DIM)


def test_a_word_as_written_comes_before_its_lower_case() -> None:
    vectors = StaticVectors({"us": 0, "US": 1}, MATRIX[:2])
    assert [vectors.row(word) for word in ("US", "us", "Us", "we")] == [1, 0, 0, None]
    cased = StaticVectors({"us": 0}, MATRIX[:1], lowercase=False)
    assert cased.row("US") is None and cased.row("us") == 0
    assert vectors.vectors([]).shape == (0, DIM)


def test_the_first_of_two_vectors_counts(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("a 1 2\nb 3 4\na 5 6\n")
    vectors = read_static_vectors(tmp_path / "v")
    assert vectors.words == {"a": 0, "b": 1}
    assert vectors.matrix.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("a 1 2 3\nb 1 2\n", ["line 2", "2 values", "expected 3"]),
        ("2 3\na 1 2 3\nb 1 2\n", ["line 3", "2 values", "expected 3"]),
        ("a 1 2 3\nb 1 x 3\n", ["line 2", "not a number", "x"]),
        ("a 1 2 3\nb 1 nan 3\n", ["line 2", "not a finite number"]),
        ("a 1 2 3\nb 1 1e99 3\n", ["line 2", "not a finite number"]),
        ("a 1 2 3\nb 1  3\n", ["line 2", "2 values"]),
        ("hello\n", ["line 1", "not word vectors"]),
        ("hello world\n", ["line 1", "not a number", "world"]),
        ("\x00\x01 \x02\n", ["line 1", "not word vectors"]),
        ("1 0\n", ["line 1", "0 values"]),
        ("1 99999999999\na 1\n", ["line 1", "99999999999 values"]),
        ("999999999999 3\na 1 2\n", ["line 2", "2 values", "expected 3"]),
        ("5 3\n", ["header and no vectors"]),
        ("", ["empty"]),
    ],
)
def test_damaged_text_is_refused_with_its_line(
    tmp_path: Path, text: str, mentions: list[str]
) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(text)
    assert_refused(lambda: read_static_vectors(path), str(path), *mentions)


def test_damaged_binaries_are_refused_with_the_vector(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(as_binary()[:-8])
    assert_refused(lambda: read_static_vectors(path), "vector 7 of 7", "bytes")
    path.write_bytes(b"3 4\n" + b"\x00" * 9000)
    assert_refused(lambda: read_static_vectors(path), "vector 1 of 3", "does not end")
    path.write_bytes(b"1 1\na " + np.float32(np.inf).tobytes())
    assert_refused(lambda: read_static_vectors(path), "vector 1 of 1", "finite")


def test_lines_without_end_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "v.xz"
    path.write_bytes(lzma.compress(b"a 1 2\nb " + b"1" * (9 << 20)))
    assert_refused(lambda: read_static_vectors(path), "line 2", "longer")


def test_a_header_that_promises_more_means_a_truncated_file(tmp_path: Path) -> None:
    # As after `head -n 3`; the number is never taken for a size to set aside.
    for data in (b"999999999999999999 2\na 1 2\nb 3 4\n", b"999999999999999999 1\na \0\0\0\0\n",
                 b"3 2\na 1 2\nb 3 4\n"):  # fmt: skip
        (tmp_path / "v").write_bytes(data)
        assert_refused(
            lambda: read_static_vectors(tmp_path / "v"), "v is truncated", "download it again"
        )


def test_a_header_that_promises_less_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "v").write_bytes(b"1 2\na 1 2\nb 3 4\n")
    with caplog.at_level(logging.WARNING):
        assert len(read_static_vectors(tmp_path / "v").words) == 2
    assert "its header says 1 words, but it has 2" in caplog.text


def test_words_that_are_not_utf8_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "v").write_bytes(b"a 1 2\ncaf\xe9 3 4\nb 5 6\n")
    with caplog.at_level(logging.WARNING):
        vectors = read_static_vectors(tmp_path / "v")
    assert vectors.words == {"a": 0, "b": 1} and "left out 1 words" in caplog.text


def test_binaries_full_of_newlines_and_blanks_are_binaries(tmp_path: Path) -> None:
    for byte in (b"\n", b" ", b"a"):
        row = byte * 4 + np.float32(0.1).tobytes()  # 0.1 is not UTF-8
        (tmp_path / "v").write_bytes(b"2 2\nx " + row + b"\ny " + row + b"\n")
        vectors = read_static_vectors(tmp_path / "v")
        assert list(vectors.words) == ["x", "y"]
        np.testing.assert_array_equal(vectors.matrix[1], np.frombuffer(row, "<f4"))


@given(st.binary(max_size=60), st.integers(1, 7))
def test_stream_gives_every_byte_once_however_it_is_cut(data: bytes, size: int) -> None:
    def blocks() -> list[bytes]:
        return [data[i : i + size] for i in range(0, len(data), size)]

    data = data.removeprefix(b"\xef\xbb\xbf")
    by_line = ByteStream(blocks())
    lines = []
    while not by_line.at_end:
        lines.append(by_line.until(b"\n", 100))
    assert (
        lines
        == (data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n"))[: len(lines)]
    )
    assert sum(len(line or b"") for line in lines) == len(data.replace(b"\n", b""))
    by_number = ByteStream(blocks())
    assert by_number.peek(9) == data[:9]
    assert by_number.take(4) + by_number.take(100) == data and by_number.take(1) == b""
    longest = len(data.split(b"\n")[0])
    if longest:
        assert ByteStream(blocks()).until(b"\n", longest - 1) is None


def test_empty_file_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(b"")
    with pytest.raises(InputError):
        read_static_vectors(tmp_path / "v")


def test_glove_is_read() -> None:
    if not GLOVE.exists():
        pytest.skip(f"GloVe is not at {GLOVE}")
    vectors = read_static_vectors(GLOVE, wanted=["King", "queen", "car", "Seoul", "qwzx"])
    assert sorted(vectors.words) == ["car", "king", "queen", "seoul"]
    assert vectors.dim == 100
    king, queen, car = vectors.vectors(["king", "queen", "car"])
    assert king @ queen / np.linalg.norm(queen) > 2 * (king @ car / np.linalg.norm(car))
