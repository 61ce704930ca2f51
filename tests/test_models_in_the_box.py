"""The models that come with the package work as its first page says."""

from pathlib import Path

import numpy as np
import pytest

from elmokit import Elmo
from elmokit.formats.catalogue.entries import builtin_folder, builtin_names
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint
from elmokit.text.reader import parse_marked

MOST_BYTES = 20_000_000

SENSES = {
    "en": (
        ["He has a [gift] for music.", "She had a natural [gift] for languages."],
        ["My watch was a birthday [gift].", "The ring was a wedding [gift]."],
    ),
    "ko": (
        ["그는 [배]를 타고 섬으로 갔다.", "사람들은 [배]를 타고 강을 건넜다."],
        ["달고 시원한 [배]를 깎아 먹었다.", "그는 사과와 [배]를 깎아 먹었다."],
    ),
}


@pytest.fixture(scope="module", params=builtin_names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def elmo(name: str) -> Elmo:
    return Elmo.from_pretrained(name, device="cpu")


def test_english_and_korean_are_there() -> None:
    assert {"en", "ko"} <= set(builtin_names())


def test_it_is_small_and_has_a_card(name: str) -> None:
    folder = builtin_folder(name)
    assert folder is not None
    assert sum(path.stat().st_size for path in folder.iterdir()) < MOST_BYTES
    card = (folder / "README.md").read_text(encoding="utf-8")
    for word in ("Wikipedia", "CC BY-SA", "perplexity", "elmokit pretrain"):
        assert word in card


def test_a_word_is_nearer_to_itself_in_the_same_meaning(name: str, elmo: Elmo) -> None:
    groups = SENSES[name]
    vectors = []
    for sentence in groups[0] + groups[1]:
        tokens, position = parse_marked(elmo.reader, sentence)
        vectors.append(elmo.embed([tokens], layers="all")[0][:, position])
    for layer in range(elmo.num_layers):
        rows = np.stack([v[layer] for v in vectors])
        cosines = elmo.similarity(rows, rows)
        same = (cosines[0, 1] + cosines[2, 3]) / 2
        other = cosines[:2, 2:].mean()
        if layer == 0:
            np.testing.assert_allclose(other, 1, atol=1e-5)
        else:
            assert same > other + 0.02


def test_its_language_model_prefers_language(name: str, elmo: Elmo) -> None:
    text = {"en": "The king of France was born in Paris.", "ko": "그는 서울에서 태어났다."}[name]
    (tokens,) = elmo.tokenize(text)
    assert elmo.perplexity([tokens]).mean < elmo.perplexity([sorted(tokens)]).mean
    marked = text.replace("king", "[king]").replace("서울", "[서울]")
    found = elmo.substitutes(marked, k=5)
    assert len(found.best) == 5 and found.original is not None


def test_it_becomes_an_official_model_and_stays_the_same(name: str, tmp_path: Path) -> None:
    write_checkpoint(read_checkpoint(name), tmp_path / "weights.hdf5")
    old = Elmo.from_files(tmp_path / "options.json", tmp_path / "weights.hdf5", device="cpu")
    new = Elmo.from_pretrained(name, device="cpu", state="zero")
    words = [["a", "b", "배", "gift"], ["one"]]
    for a, b in zip(old.embed(words, layers="all"), new.embed(words, layers="all"), strict=True):
        np.testing.assert_array_equal(a, b)
