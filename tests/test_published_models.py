"""Every published format gives the numbers of the program that wrote it.

`reference/` holds what AllenNLP, simple_elmo and ELMoForManyLangs compute from tiny models of our
own, which `reference_models.py` writes; `benchmarks/peers/make_reference.py` made it.
`test_official_fixtures.py` does the same with the programs' own fixtures.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_models as models

from elmokit import Elmo
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint

TOLERANCE = 2e-6
REFERENCE = Path(__file__).parent / "reference"
ACTIVATIONS = dict(np.load(REFERENCE / "activations.npz"))


def written(folder: Path, name: str) -> Path:
    """The folder of a model, whose weights are those that the original program had."""
    write = models.write_official if name in models.OFFICIAL else models.write_manylangs
    weights = write(folder / "model", name)
    assert models.digest(weights) == str(ACTIVATIONS[f"digest/{name}"])
    return folder / "model"


def assert_embeds(elmo: Elmo, sentences: list[list[str]], expected: np.ndarray) -> None:
    """All layers of the tokens of all sentences."""
    got = np.concatenate(elmo.embed(sentences, layers="all"), axis=1)
    np.testing.assert_allclose(got, expected, atol=TOLERANCE, rtol=0)


ACTIVATED = sorted(name for name in ACTIVATIONS if name.endswith("/zero"))


@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("key", ACTIVATED)
def test_tiny_model_matches_its_program(key: str, engine: Any, tmp_path: Path) -> None:
    name = key.split("/")[1]
    elmo = Elmo.from_pretrained(written(tmp_path, name), engine=engine)
    assert_embeds(elmo, models.sentences(name), ACTIVATIONS[key])


@pytest.mark.parametrize("key", ACTIVATED)
def test_tiny_model_matches_after_conversion_and_back(key: str, tmp_path: Path) -> None:
    name = key.split("/")[1]
    back = "official" if name in models.OFFICIAL else "manylangs"
    write_checkpoint(read_checkpoint(written(tmp_path, name)), tmp_path / "ours")
    write_checkpoint(read_checkpoint(tmp_path / "ours"), tmp_path / "back", back)
    for folder in ("ours", "back"):
        elmo = Elmo.from_pretrained(tmp_path / folder)
        assert_embeds(elmo, models.sentences(name), ACTIVATIONS[key])


@pytest.mark.parametrize("key", sorted(n for n in ACTIVATIONS if n.endswith("/carried")))
def test_carried_state_matches_allennlp(key: str, tmp_path: Path) -> None:
    name = key.split("/")[1]
    elmo = Elmo.from_pretrained(written(tmp_path, name), state="carry")
    sentences = models.sentences(name)
    half = len(sentences) // 2
    elmo.embed(sentences[:half])
    assert_embeds(elmo, sentences[half:], ACTIVATIONS[key])


def test_checkpoint_of_tensorflow_scores_as_its_trainer() -> None:
    elmo = Elmo.from_pretrained(REFERENCE)
    score = elmo.score([models.SCORED.split()])[0]
    losses = [-score.forward / score.num_tokens, -score.backward / score.num_tokens]
    expected = ACTIVATIONS["simple_elmo/checkpoint/losses"]
    np.testing.assert_allclose(losses, expected, atol=TOLERANCE, rtol=0)
    assert score.num_unknown == 2  # "He" and "has"
