"""The fixtures of the original programs are matched, where `../shared` has them."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmokit import Elmo
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint

TOLERANCE = 2e-6


def assert_matches_allennlp(elmo: Elmo, fixture: Path) -> None:
    """The top layer of 10 batches of 3 rows that run in order, the state carried by row."""
    rows = [
        [sentence.split() for sentence in row]
        for row in json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    ]
    expected = [h5py.File(fixture / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    for i in range(10):
        batch = [row[i] for row in rows]
        for got, file in zip(elmo.embed(batch, layers="top"), expected, strict=True):
            both = file[str(i)][...]
            np.testing.assert_allclose(got, np.concatenate(list(both), -1), atol=TOLERANCE, rtol=0)


def assert_matches_layers(elmo: Elmo, fixture: Path, name: str) -> None:
    """All layers of every sentence, each from a zero state."""
    sentences = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    with h5py.File(fixture / name) as expected:
        for i, got in enumerate(elmo.embed(sentences, layers="all")):
            np.testing.assert_allclose(got, expected[str(i)][...], atol=TOLERANCE, rtol=0)
        assert len(expected) == len(sentences)


def assert_matches(source: Path, fixture: Path) -> None:
    if fixture.name == "allennlp-elmo":
        assert_matches_allennlp(Elmo.from_pretrained(source, state="carry"), fixture)
    elif fixture.name == "tf-checkpoint":
        assert_matches_layers(Elmo.from_pretrained(source), fixture, "zero_state_embeddings.hdf5")
    else:
        assert_matches_layers(Elmo.from_pretrained(source), fixture, "expected.hdf5")


MODELS = ["allennlp-elmo", "tf-checkpoint", "manylangs/char-only", "manylangs/word-and-char"]


@pytest.mark.parametrize("name", MODELS)
def test_published_model_matches_its_program(fixtures: Path, name: str) -> None:
    assert_matches(fixtures / name, fixtures / name)


@pytest.mark.parametrize("name", MODELS)
def test_converted_model_matches_and_back_is_bit_equal(
    fixtures: Path, name: str, tmp_path: Path
) -> None:
    original = read_checkpoint(fixtures / name)
    write_checkpoint(original, tmp_path / "ours")
    assert_matches(tmp_path / "ours", fixtures / name)
    back = "manylangs" if "manylangs" in name else "official"
    write_checkpoint(read_checkpoint(tmp_path / "ours"), tmp_path / "back", back)
    assert_matches(tmp_path / "back", fixtures / name)
    again = read_checkpoint(tmp_path / "back")
    assert again.config == original.config
    assert again.vocab == original.vocab
    assert again.tensors.keys() == original.tensors.keys()
    for key, tensor in original.tensors.items():
        assert again.tensors[key].equal(tensor), key


def test_official_dump_is_bit_equal_to_the_original_file(fixtures: Path, tmp_path: Path) -> None:
    source = fixtures / "allennlp-elmo"
    write_checkpoint(read_checkpoint(source), tmp_path / "weights.hdf5")

    def datasets(path: Path) -> dict[str, np.ndarray]:
        found = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda n, o: found.update({n: o[...]}) if isinstance(o, h5py.Dataset) else None
            )
        return found

    ours, theirs = datasets(tmp_path / "weights.hdf5"), datasets(source / "lm_weights.hdf5")
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_tf_checkpoint_equals_its_official_dump(fixtures: Path) -> None:
    folder = fixtures / "tf-checkpoint"
    checkpoint = read_checkpoint(folder)
    dump = read_checkpoint(folder / "lm_weights.hdf5")
    for name, tensor in dump.tensors.items():
        assert checkpoint.tensors[name].equal(tensor), name
    assert checkpoint.vocab is not None and len(checkpoint.vocab) == 1492
    assert checkpoint.tensors["softmax.weight"].shape == (1492, 16)


def test_token_vectors_match_the_cached_file(fixtures: Path) -> None:
    folder = fixtures / "allennlp-elmo"
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    elmo = Elmo.from_pretrained(folder)
    np.testing.assert_allclose(elmo.token_vectors(words), expected, atol=TOLERANCE, rtol=0)


def test_cached_token_embeddings_replace_the_characters(fixtures: Path) -> None:
    folder = fixtures / "allennlp-elmo"
    pair = (folder / "options.json", folder / "lm_weights.hdf5")
    cached = Elmo.from_files(
        *pair,
        vocab=folder / "vocab_test.txt",
        token_embeddings=folder / "elmo_token_embeddings.hdf5",
    )
    spelled = Elmo.from_files(*pair)
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    sentence = [words[3:20], words[100:130]]
    for a, b in zip(cached.embed(sentence), spelled.embed(sentence), strict=True):
        np.testing.assert_allclose(a, b, atol=TOLERANCE, rtol=0)
    unknown = cached.embed([["zyzzyva"]], layers=0)[0]
    np.testing.assert_array_equal(unknown, cached.embed([["<UNK>"]], layers=0)[0])
