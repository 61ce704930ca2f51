"""`compat.simple_elmo.ElmoModel`: its batches and warm-up, without its errors."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from strategies import assert_close

from elmokit import Elmo
from elmokit.compat.simple_elmo import ElmoModel
from elmokit.errors import ConfigError, FileError, InputError

Pair = tuple[Path, Path]
TEXTS = [["The", "cat", "sat"], ["고양이"], [], ["a", "b"], ["e\u0301"]]


def load(pair: Pair, **arguments: object) -> ElmoModel:
    model = ElmoModel()
    model.load(pair[0].parent, **arguments)  # type: ignore[arg-type]
    return model


def expected(pair: Pair, batch_size: int, warmup: bool) -> list[np.ndarray]:
    """All layers; each batch continues the one before by row, the first one itself if warm."""
    elmo = Elmo.from_files(*pair, state="carry", normalization=None)
    starts = range(0, len(TEXTS), batch_size)
    batches = [TEXTS[start : start + batch_size] for start in starts]
    if warmup:
        elmo.embed(batches[0])
    return [v for batch in batches for v in elmo.embed(batch, layers="all")]


@pytest.mark.parametrize("warmup", [False, True])
@pytest.mark.parametrize("batch_size", [2, 32])
def test_vectors_of_tokens(pair: Pair, batch_size: int, warmup: bool) -> None:
    model = load(pair, max_batch_size=batch_size)
    want = expected(pair, batch_size, warmup)
    for _ in range(2):  # a call does not depend on the one before
        every = model.get_elmo_vectors(TEXTS, warmup=warmup, layers="all")
        assert every.shape == (5, 3, 3, 32) and every.dtype == np.float32
        for row, layers in zip(every, want, strict=True):
            assert_close(row[:, : layers.shape[1]], layers)
            assert not row[:, layers.shape[1] :].any()
    assert_close(model.get_elmo_vectors(TEXTS, warmup=warmup, layers="top"), every[:, -1])
    assert_close(model.get_elmo_vectors(TEXTS, warmup=warmup), every.mean(axis=1))


def test_averages_are_over_the_tokens_of_each_sentence(pair: Pair) -> None:
    model = load(pair)
    got = model.get_elmo_vector_average(TEXTS, layers="all")
    assert got.shape == (5, 3, 32)
    for row, layers in zip(got, expected(pair, 32, warmup=True), strict=True):
        assert_close(row, layers.mean(axis=1) if layers.size else np.zeros((3, 32), np.float32))
    assert_close(model.get_elmo_vector_average(TEXTS, layers="top"), got[:, -1])
    assert_close(model.get_elmo_vector_average(TEXTS), got.mean(axis=1))


def test_nothing_to_embed(pair: Pair) -> None:
    model = load(pair)
    assert model.get_elmo_vectors([]).shape == (0, 0, 32)
    assert model.get_elmo_vectors([[]], layers="all").shape == (1, 3, 0, 32)
    assert model.get_elmo_vector_average([]).shape == (0, 32)


def test_kept_session_continues(pair: Pair) -> None:
    model = load(pair)
    first = model.get_elmo_vectors(TEXTS, warmup=False, session=object())
    second = model.get_elmo_vectors(TEXTS, warmup=False, session=object())
    assert np.abs(first - second).max() > 1e-3
    # A warm-up is the first batch, once.
    assert_close(model.get_elmo_vectors(TEXTS, warmup=True), second)


def test_attributes(pair: Pair) -> None:
    model = ElmoModel()
    assert isinstance(model.load(pair[0].parent, max_batch_size=7, limit=1000), str)
    found = (model.batch_size, model.max_chars, model.vector_size, model.n_layers, model.vocab)
    assert found == (7, 50, 32, 3, None)


def test_sources(pair: Pair, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "166.zip", "w") as archive:
        for file in pair:
            archive.write(file, file.name)
    want = load(pair).get_elmo_vectors(TEXTS)
    for source in (pair[1], tmp_path / "166.zip"):
        model = ElmoModel()
        model.load(source)
        assert_close(model.get_elmo_vectors(TEXTS), want)


def test_folder_of_several_files(fixtures: Path) -> None:
    model = ElmoModel()
    model.load(fixtures / "allennlp-elmo")  # no model.hdf5, but two others
    assert model.get_elmo_vectors([["a", "b"]]).shape == (1, 2, 32)
    model.load(fixtures / "tf-checkpoint", full=True)
    assert model.vocab is not None and "<UNK>" in model.vocab
    model.load(fixtures / "tf-checkpoint")
    assert model.vocab is None


def test_what_cannot_work_is_refused(pair: Pair) -> None:
    model = ElmoModel()
    with pytest.raises(ConfigError, match="call load"):
        model.get_elmo_vectors(TEXTS)
    with pytest.raises(ConfigError, match="max_batch_size=0"):
        model.load(pair[0].parent, max_batch_size=0)
    with pytest.raises(FileError, match="full=True reads a TensorFlow checkpoint"):
        model.load(pair[0].parent, full=True)
    model.load(pair[0].parent)
    with pytest.raises(InputError, match="sentence 0 is a text"):
        model.get_elmo_vectors(["a text"])
    with pytest.raises(ConfigError, match="expected one of 'average', 'top', 'all'"):
        model.get_elmo_vectors(TEXTS, layers="mix")  # type: ignore[arg-type]
