"""`compat.allennlp.ElmoEmbedder` gives AllenNLP's numbers, and files in its layout."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from strategies import assert_close

from elmokit import Elmo
from elmokit.compat.allennlp import ElmoEmbedder
from elmokit.errors import ConfigError, FileError, InputError

Pair = tuple[Path, Path]
LINES = ["The cat sat .", "고양이", "The cat sat .", "a / b"]


@pytest.fixture
def embedder(pair: Pair) -> ElmoEmbedder:
    return ElmoEmbedder(*pair)


def test_matches_allennlp_with_carried_state(
    fixtures: Path, allennlp_batches: list[list[list[str]]]
) -> None:
    folder = fixtures / "allennlp-elmo"
    embedder = ElmoEmbedder(folder / "options.json", folder / "lm_weights.hdf5")
    stream = embedder.embed_sentences([s for batch in allennlp_batches for s in batch], 3)
    files = [h5py.File(folder / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    for i in range(10):
        for file in files:
            expected = np.concatenate(list(file[str(i)][...]), axis=-1)
            np.testing.assert_allclose(next(stream)[-1], expected, atol=2e-6, rtol=0)
    assert not list(stream)


def test_all_layers_of_each_sentence(embedder: ElmoEmbedder, pair: Pair) -> None:
    batch = [["The", "cat"], [], ["e\u0301", "b", "c"]]
    expected = Elmo.from_files(*pair, normalization=None).embed(batch, layers="all")
    got = embedder.embed_batch(batch)
    assert [a.shape for a in got] == [(3, 2, 32), (3, 0, 32), (3, 3, 32)]
    for a, b in zip(got, expected, strict=True):
        assert_close(a, b)
    embedder.reset_states()
    layers, mask = embedder.batch_to_embeddings(batch)
    assert layers.shape == (3, 3, 3, 32)
    assert mask.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert_close(layers[2], expected[2])
    assert not layers[1].any()


def test_sentence_without_tokens_leaves_the_state_alone(embedder: ElmoEmbedder) -> None:
    first = embedder.embed_sentence(["a", "b"])
    embedder.reset_states()
    assert embedder.embed_sentence([]).shape == (3, 0, 32)
    assert embedder.embed_batch([]) == []
    np.testing.assert_array_equal(embedder.embed_sentence(["a", "b"]), first)
    assert np.abs(embedder.embed_sentence(["a", "b"]) - first).max() > 1e-3


def test_sentences_are_read_as_they_are_needed(embedder: ElmoEmbedder) -> None:
    def endless() -> Iterator[list[str]]:
        while True:
            yield ["a"]

    assert next(embedder.embed_sentences(endless(), batch_size=2)).shape == (3, 1, 32)
    with pytest.raises(ConfigError, match="batch_size=0"):
        next(embedder.embed_sentences(endless(), batch_size=0))


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_file_has_the_layout_of_allennlp(
    embedder: ElmoEmbedder, tmp_path: Path, output_format: str
) -> None:
    source = io.StringIO("\n".join(LINES))
    embedder.embed_file(source, tmp_path / "out.hdf5", output_format, batch_size=2)
    assert source.closed
    embedder.reset_states()
    expected = list(embedder.embed_sentences([line.split() for line in LINES], 2))
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"0", "1", "2", "3", "sentence_to_index"}
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
        assert index == {LINES[0]: "2", LINES[1]: "1", LINES[3]: "3"}
        for i, layers in enumerate(expected):
            reduced = {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}
            assert file[str(i)].dtype == np.float32
            assert_close(file[str(i)][...], reduced[output_format])


def test_file_with_sentences_as_keys(
    embedder: ElmoEmbedder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = io.StringIO("\n".join(LINES))
    embedder.embed_file(source, tmp_path / "out.hdf5", use_sentence_keys=True)
    assert "sentence 2 is already in the file" in caplog.text
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert "sentence_to_index" not in file
        assert all(file[line].shape == (3, len(line.split()), 32) for line in LINES)


def test_file_without_sentences(embedder: ElmoEmbedder, tmp_path: Path) -> None:
    embedder.embed_file(io.StringIO("a b"), tmp_path / "out.hdf5", forget_sentences=True)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert list(file) == ["0"]


def test_failed_file_leaves_no_trace(embedder: ElmoEmbedder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"empty lines at the indexes \[1, 2\]"):
        embedder.embed_file(io.StringIO("a\n\n  \nb"), tmp_path / "out.hdf5")
    with pytest.raises(ConfigError, match="output_format='best'"):
        embedder.embed_file(io.StringIO("a"), tmp_path / "out.hdf5", "best")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sentence 1 cannot be a key"):
        embedder.embed_file(io.StringIO("a\na/b"), tmp_path / "out.hdf5", use_sentence_keys=True)
    assert not list(tmp_path.iterdir())


def test_the_default_is_the_original_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path))
    with pytest.raises(FileError, match=r"2x4096_512_2048cnn_2xhighway_options\.json.*OFFLINE"):
        ElmoEmbedder()
