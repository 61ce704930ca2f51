"""`elmokit embed` writes what `Elmo.embed` gives, in every format."""

import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from typer.testing import Result

import elmokit
from elmokit import Elmo
from elmokit import read_vectors as vectors_of
from elmokit.embed_file import embed_file
from elmokit.text.reader import Reader

LINES = [
    "He has a gift for music.",
    "",
    "The gift was wrapped; nobody had opened it!",
    "한국어 문장도 있다.",
    "   ",
    "He has a gift for music.",
    "x",
]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text of `LINES`, of which two are blank and two are equal."""
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def read_vectors(path: Path, ndim: int = 2) -> list[np.ndarray]:
    """The arrays of a file, as a reader of that format gets them."""
    if path.suffix in (".h5", ".hdf5"):
        with h5py.File(path) as file:
            return [file[str(i)][...] for i in range(len(list(filter(str.isdigit, file))))]
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return [archive[str(i)] for i in range(len(list(filter(str.isdigit, archive))))]
    if path.suffix == ".parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(path)
        rows = table.to_pylist()
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["index"] for row in rows] == list(range(len(rows)))
    return [shaped(row["vector" if ndim == 1 else "vectors"], ndim) for row in rows]


def shaped(numbers: Any, ndim: int) -> np.ndarray:
    """Nested lists as an array of `ndim` axes, also where they are empty."""
    array = np.array(numbers if numbers is not None else [], dtype=np.float32)
    return array.reshape(*array.shape, *[0] * (ndim - array.ndim))


def assert_equal_vectors(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == np.float32
        assert a.size == b.size == 0 or a.shape == b.shape
        # Equal but for the batches that they ran in.
        np.testing.assert_allclose(a.reshape(b.shape), b, rtol=0, atol=2e-6)


SUFFIXES = [".h5", ".hdf5", ".npz", ".parquet", ".jsonl"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("layers", ["average", "all"])
def test_every_format_holds_the_vectors_of_embed(
    run: Any, model: Path, elmo: Elmo, text: Path, suffix: str, layers: str
) -> None:
    output = text.with_name(f"out{suffix}")
    result = run("embed", model, text, "-o", output, "--layers", layers)
    assert_equal_vectors(
        read_vectors(output, 3 if layers == "all" else 2), elmo.embed(LINES, layers=layers)
    )
    assert result.stdout == ""
    assert "7 lines" in result.stderr
    assert list(output.parent.glob("*.partial")) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sentence_level_is_encode_and_blank_lines_stay_aligned(
    run: Any, model: Path, elmo: Elmo, text: Path, suffix: str
) -> None:
    output = text.with_name(f"out{suffix}")
    run("embed", model, text, "-o", output, "--level", "sentence", "--pooling", "max")
    got = read_vectors(output, ndim=1)
    assert [len(v) for v in got] == [32, 0, 32, 32, 0, 32, 32]
    written = [i for i, line in enumerate(LINES) if line.strip()]
    expected = elmo.encode([LINES[i] for i in written], pooling="max")
    assert_equal_vectors([got[i] for i in written], list(expected))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("tokenizer", "words"), [("regex", ["한국어", "문장도"]), ("kiwi", ["한국어", "문장", "도"])]
)
def test_files_say_what_is_in_them(
    run: Any, model: Path, text: Path, suffix: str, tokenizer: str, words: list[str]
) -> None:
    if tokenizer == "kiwi":
        pytest.importorskip("kiwipiepy")
    output = text.with_name(f"out{suffix}")
    options = ("--level", "sentence", "--pooling", "max", "--layers", "top")
    run("embed", model, text, "-o", output, "--tokenizer", tokenizer)
    file = vectors_of(output)
    lines = list(file)
    assert [line.text for line in lines] == LINES
    assert lines[3].tokens is not None and lines[3].tokens[: len(words)] == words
    for line in lines:
        assert line.tokens is not None and line.offsets is not None and line.text is not None
        if tokenizer == "regex":
            assert [line.text[start:end] for start, end in line.offsets] == line.tokens
        assert len(line.vectors) == len(line.tokens)
    if suffix == ".jsonl":
        assert file.metadata == {}
        return
    assert file.metadata | {"fingerprint": ""} == {
        "version": elmokit.__version__, "model": str(model), "fingerprint": "", "dim": 32,
        "layers": "average", "level": "token", "pooling": None, "tokenizer": tokenizer,
        "normalization": "NFC", "state": "zero", "precision": "full", "sentences": "lines",
    }  # fmt: skip
    run("embed", model, text, "-o", output, "--force", "-q", *options)
    changed = vectors_of(output).metadata
    assert (changed["layers"], changed["level"], changed["pooling"]) == ("top", "sentence", "max")
    assert changed["fingerprint"] == file.metadata["fingerprint"] or tokenizer == "kiwi"


@pytest.mark.parametrize("suffix", [".h5", ".npz"])
def test_sentences_of_a_line_have_offsets_in_the_line(
    run: Any, model: Path, text: Path, suffix: str
) -> None:
    text.write_text(" He left. She stayed.\n그는 갔다. 그녀는 남았다.\n", encoding="utf-8")
    output = text.with_name(f"out{suffix}")
    run("embed", model, text, "-o", output, "--sentences", "split")
    file = vectors_of(output)
    assert file.metadata["sentences"] == "split"
    for line in file:
        assert line.text is not None and line.offsets is not None
        assert [line.text[start:end] for start, end in line.offsets] == line.tokens
        assert len(line.vectors) == len(line.offsets) == 6


def test_tokenizer_that_does_not_tell_where_its_words_are(elmo: Elmo, text: Path) -> None:
    other = Elmo.from_checkpoint(elmo.to_checkpoint())
    other.reader = Reader(lambda line: line.upper().split())
    embed_file(other, text, text.with_name("out.h5"))
    first = next(iter(vectors_of(text.with_name("out.h5"))))
    assert first.tokens == LINES[0].upper().split() and first.offsets is None


@pytest.mark.parametrize("layers", ["top", "0", "mix", "mix:default"])
def test_layers(run: Any, model: Path, elmo: Elmo, text: Path, layers: str) -> None:
    output = text.with_name("out.npz")
    run("embed", model, text, "-o", output, "--layers", layers)
    wanted = int(layers) if layers.isdigit() else layers
    assert_equal_vectors(read_vectors(output), elmo.embed(LINES, layers=wanted))


def test_hdf5_is_laid_out_as_allennlp_wrote_it(run: Any, model: Path, text: Path) -> None:
    output = text.with_name("out.hdf5")
    run("embed", model, text, "-o", output, "--layers", "all")
    with h5py.File(output) as file:
        assert set(file) == {"sentence_to_index", *map(str, range(7))}
        assert file["0"].shape == (3, 7, 32) and file["0"].dtype == np.float32
        assert file["1"].shape == file["4"].shape == (3, 0, 32)
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index[LINES[2]] == "2" and index[LINES[3]] == "3"
    assert index[LINES[0]] == "5"  # of two equal lines, the last


def test_jsonl_on_stdout(run: Any, model: Path, elmo: Elmo, text: Path) -> None:
    rows = [json.loads(line) for line in run("embed", model, text).stdout.splitlines()]
    assert [row["tokens"] for row in rows] == elmo.tokenize(LINES)
    assert [row["text"] for row in rows] == LINES
    assert rows[1] == {"index": 1, "text": "", "tokens": [], "offsets": [], "vectors": []}
    assert_equal_vectors([shaped(row["vectors"], 2) for row in rows], elmo.embed(LINES))
    rows = run("embed", model, text, "--level", "sentence").stdout.splitlines()
    assert json.loads(rows[4]) == {"index": 4, "text": "   ", "vector": None}


@pytest.mark.parametrize("compression", [gzip, lzma])
def test_compressed_input(run: Any, model: Path, elmo: Elmo, text: Path, compression: Any) -> None:
    packed = text.with_suffix(".txt.gz" if compression is gzip else ".txt.xz")
    packed.write_bytes(compression.compress(text.read_bytes()))
    run("embed", model, packed, "-o", text.with_name("out.npz"))
    assert_equal_vectors(read_vectors(text.with_name("out.npz")), elmo.embed(LINES))


def test_tokenizer_and_state_are_those_asked_for(run: Any, model: Path, text: Path) -> None:
    output = text.with_name("out.npz")
    run("embed", model, text, "-o", output, "--tokenizer", "whitespace", "--state", "warm")
    warm = Elmo.from_pretrained(model, tokenizer="whitespace", state="warm")
    assert_equal_vectors(read_vectors(output), warm.embed(LINES))


def test_carried_state_moves_from_batch_to_batch(run: Any, model: Path, text: Path) -> None:
    output = text.with_name("out.npz")
    run("embed", model, text, "-o", output, "--state", "carry", "--batch-size", "2")
    carried = Elmo.from_pretrained(model, state="carry")
    assert_equal_vectors(read_vectors(output), list(carried.embed_stream(LINES, batch_size=2)))


def test_text_without_lines(run: Any, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    for suffix in SUFFIXES:
        run("embed", model, tmp_path / "empty.txt", "-o", tmp_path / f"out{suffix}")
        assert read_vectors(tmp_path / f"out{suffix}") == []


def test_existing_output_is_refused_and_forced(run: Any, model: Path, text: Path) -> None:
    output = text.with_name("out.npz")
    output.write_text("precious")
    assert "--force" in run("embed", model, text, "-o", output, code=1).stderr
    assert output.read_text() == "precious"
    run("embed", model, text, "-o", output, "--force")
    assert len(read_vectors(output)) == len(LINES)


def test_quiet_says_nothing(run: Any, model: Path, text: Path) -> None:
    result: Result = run("embed", model, text, "-o", text.with_name("out.npz"), "-q")
    assert result.output == ""


def test_missing_pyarrow_says_what_to_install(
    run: Any, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("embed", model, text, "-o", text.with_name("out.parquet"), code=1)
    assert "elmokit[arrow]" in result.stderr


def process_of(*arguments: object, **options: Any) -> "subprocess.Popen[bytes]":
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    command = [sys.executable, "-m", "elmokit", *map(str, arguments)]
    return subprocess.Popen(command, **pipes, **options)


def test_stdin_to_stdout_is_utf8_in_any_locale(model: Path, elmo: Elmo, text: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": ""}
    process = process_of("embed", model, "-", "-q", env=locale)
    out, err = process.communicate(text.read_bytes())
    assert (process.returncode, err) == (0, b"")
    rows = [json.loads(line) for line in out.decode("utf-8").splitlines()]
    assert [row["tokens"] for row in rows] == elmo.tokenize(LINES)
    assert "한국어" in out.decode("utf-8")


def test_closed_pipe_ends_quietly(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("One more line of the text.\n" * 2000)
    process = process_of("embed", model, tmp_path / "in.txt", "-q")
    assert process.stdout is not None and process.stderr is not None
    assert json.loads(process.stdout.readline())["index"] == 0
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
    assert process.stdin is not None
    process.stdin.close()
    process.stderr.close()


def test_blank_lines_are_refused_or_filled_if_asked(run: Any, model: Path, tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_text("He has a gift.\n\n선물을 받았다.\n", encoding="utf-8")
    sentences = ["embed", model, text, "--level", "sentence", "--empty"]
    assert "line 2 is blank" in run(*sentences, "raise", code=1).stderr
    zero = [json.loads(row)["vector"] for row in run(*sentences, "zero").stdout.splitlines()]
    assert zero[1] == [0.0] * 32 and all(zero[0]) and all(zero[2])
    assert json.loads(run(*sentences, "nan").stdout.splitlines()[1])["vector"] is None
    run(*sentences, "nan", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as file:
        assert np.isnan(file["1"]).all() and file["1"].shape == (32,)
    refused = run("embed", model, text, "--empty", "zero", code=1)
    assert "only level='sentence'" in refused.stderr


def test_layers_are_counted_from_the_top_too(run: Any, model: Path, text: Path) -> None:
    top = run("embed", model, text, "--layers", "top").stdout
    assert run("embed", model, text, "--layers", "-1").stdout == top
    assert run("embed", model, text, "--layers", "2").stdout == top
    assert run("embed", model, text, "--layers", "-3").stdout != top
    assert "-1..-3" in run("embed", model, text, "--layers", "-4", code=1).stderr
