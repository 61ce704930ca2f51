"""The tagger and the classifier learn, read ELMo where they are told, and ignore padding."""

from pathlib import Path
from typing import Any

import pytest
import torch
from strategies import make_tiny
from task_data import assert_gradients_reach_the_mixes, bcn_config, ner_config, write_data

from elmokit import Elmo
from elmokit.errors import ConfigError
from elmokit.tasks.classify import Bcn
from elmokit.tasks.config import ElmoPlacement, TaskConfig
from elmokit.tasks.parts.bilm import FrozenLayers, chosen_layers
from elmokit.tasks.parts.embedding import TokenReader, word_table
from elmokit.tasks.registry import TASKS
from elmokit.tasks.runs.trainer import Trainer, predict
from elmokit.tasks.task import TaskModel, new_model

CONFIGS = {"ner": ner_config, "classify": bcn_config}
PLACES = ("none", "input", "output", "both")


class Setup:
    """A new model with its data."""

    def __init__(self, name: str, config: TaskConfig, elmo: Elmo, folder: Path) -> None:
        self.task, self.config = TASKS[name], config
        path = write_data(folder)[name == "classify"]
        self.examples = self.task.read(path, config, elmo.reader, is_training=True)
        self.source = None if config.elmo.place == "none" else FrozenLayers(elmo)
        sentences = [s for e in self.examples for s in self.task.sentences(e)]
        table = word_table(sentences, config.words, None)
        facts = self.task.label_sets(self.examples)
        self.model: TaskModel = new_model(self.task, config, facts, table, self.source, seed=3)
        self.read = TokenReader(config.words, table, self.source)

    def train(self) -> None:
        trainer = Trainer(self.task, self.model, self.read, self.config.train, seed=3)
        trainer.run(self.examples, self.examples)

    def score(self, batch_size: int = 7) -> dict[str, Any]:
        found = predict(self.task, self.model, self.read, self.examples, batch_size)
        return self.task.score(self.examples, found)


@pytest.mark.parametrize("place", ["none", "both"])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_twenty_sentences_are_learned_by_heart(
    name: str, place: str, tiny: Elmo, tmp_path: Path
) -> None:
    setup = Setup(name, CONFIGS[name](place=place), tiny, tmp_path)
    assert setup.score()[setup.task.metric] < 1
    setup.train()
    assert setup.score()[setup.task.metric] == 1
    assert len(setup.examples) == 20


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", list(CONFIGS))
def test_gradients_reach_the_mixes_alone(name: str, place: str, tiny: Elmo, tmp_path: Path) -> None:
    setup = Setup(name, CONFIGS[name](place=place), tiny, tmp_path)
    before = {n: p.clone() for n, p in tiny.named_parameters()}
    setup.model.train()
    setup.model.loss(setup.examples, setup.read).backward()
    assert_gradients_reach_the_mixes(setup.model, place, tiny)
    for parameter_name, parameter in tiny.named_parameters():
        assert parameter.grad is None
        assert torch.equal(parameter, before[parameter_name])


@pytest.mark.parametrize("name", list(CONFIGS))
def test_place_changes_the_widths(name: str, tiny: Elmo, tmp_path: Path) -> None:
    dims = {}
    for place in PLACES:
        embedding = Setup(name, CONFIGS[name](place=place), tiny, tmp_path).model.embedding
        dims[place] = (embedding.dim, embedding.output_dim)
    width = 8 + 16
    assert dims == {
        "none": (width, 0),
        "input": (width + tiny.dim, 0),
        "output": (width, tiny.dim),
        "both": (width + tiny.dim, tiny.dim),
    }


@pytest.mark.parametrize("name", list(CONFIGS))
def test_padding_does_not_matter(name: str, tiny: Elmo, tmp_path: Path) -> None:
    setup = Setup(name, CONFIGS[name](place="both"), tiny, tmp_path)
    model = setup.model.eval()
    sentences = [setup.task.sentences(e)[0] for e in setup.examples]
    with torch.no_grad():
        together = model(setup.read(sentences))
        for i, sentence in enumerate(sentences):
            alone = model(setup.read([sentence]))[0]
            row = together[i][: len(alone)] if name == "ner" else together[i]
            torch.testing.assert_close(row, alone, atol=1e-5, rtol=1e-4)


def test_penalty_is_lambda_times_the_squares(tiny: Elmo, tmp_path: Path) -> None:
    embedding = Setup("ner", ner_config(place="both", l2=0.5), tiny, tmp_path).model.embedding
    assert embedding.penalty() == 0
    with torch.no_grad():
        for i, mix in enumerate(embedding.mixes.values()):
            mix.scalars.copy_(torch.tensor([1.0, 2.0, 3.0 + i]))
    assert embedding.penalty().item() == pytest.approx(0.5 * (14 + 21))
    weights = embedding.layer_weights()
    assert sum(weights["output"]["weights"]) == pytest.approx(1)
    assert weights["output"]["weights"] != weights["input"]["weights"]


def test_cached_training_equals_uncached(tmp_path: Path) -> None:
    tensors = []
    for is_cached in (True, False):
        config = ner_config({"epochs": 2}, place="both", dropout=0.3)
        setup = Setup("ner", config, make_tiny(), tmp_path)
        assert setup.source is not None
        setup.source.is_cached = is_cached
        setup.train()
        assert (setup.source.num_sentences > 0) == is_cached
        tensors.append(setup.model.state_dict())
    for name, tensor in tensors[0].items():
        torch.testing.assert_close(tensors[1][name], tensor, rtol=1e-3, atol=1e-3)


def test_classifier_drops_the_same_of_elmo_at_all_tokens(tiny: Elmo, tmp_path: Path) -> None:
    """Else the largest value over the tokens is twice as large in training as in prediction."""
    config = bcn_config(place="output").override("elmo.dropout=0.5")
    setup = Setup("classify", config, tiny, tmp_path)
    batch = setup.read([setup.task.sentences(e)[0] for e in setup.examples])
    model = setup.model.train()
    assert isinstance(model, Bcn)
    h = torch.zeros(*batch.mask.shape, 1)
    dropped = model.embedding.at_output(h, batch, model.elmo_dropout)[..., 1:]
    kept = model.embedding.mixes["output"].eval()(batch.layers, batch.mask)
    is_same = torch.isclose(dropped, 2 * kept).all(dim=1)
    assert (is_same | (dropped == 0).all(dim=1)).all()
    assert 0.3 < is_same.float().mean() < 0.7


def test_a_fixed_layer_can_be_counted_from_the_top() -> None:
    assert ElmoPlacement(layers=-1).layers == "-1"  # type: ignore[arg-type]
    assert [chosen_layers(name, 3) for name in ("-1", "2", "-3", "top")] == [2, 2, 0, "top"]
    with pytest.raises(ConfigError, match=r"layers=-4: .*0\.\.2, counted from the top"):
        chosen_layers("-4", 3)
