"""The tagger learns frames, knows its predicate, and reads ELMo where it is told."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from strategies import assert_refused, make_tiny
from task_data import assert_gradients_reach_the_mixes

from elmokit import Elmo
from elmokit.tasks.config import ElmoPlacement, TrainerConfig, WordsConfig
from elmokit.tasks.parts.bilm import FrozenLayers
from elmokit.tasks.parts.embedding import TokenReader, word_table
from elmokit.tasks.parts.tags import bio_fault
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.runs.trainer import Trainer, predict
from elmokit.tasks.srl import Frame, SrlConfig, SrlTagger, SrlTask
from elmokit.tasks.task import new_model

TASK = SrlTask()
# Two frames a sentence: the tags depend on which word is the predicate.
FRAMES = """
Anna/A0 wants/V to/A1 sing/A1+ | Anna/A0 wants to sing/V
Bob/A0 wants/V to/A1 eat/A1+ bread/A1+ | Bob/A0 wants to eat/V bread/A1
the/A0 dog/A0+ saw/V Eve/A1 leave/C-A1 | the dog saw Eve/A0 leave/V
the/A0 man/A0+ who/R-A0 slept/V woke/ | the/A0 man/A0+ who/A0+ slept/A0+ woke/V
today/T Anna/A0 said/V it/A1 rains/A1+ | today/T Anna said it rains/V
고양이가/A0 자고/V 개가 뛴다 | 고양이가 자고 개가/A0 뛴다/V
Eve/A1 was/ seen/V by/A0 Bob/A0+ singing/ | Eve was seen by Bob/A0 singing/V
she/A0 picked/V it/A1 up/C-V and/ ran/ | she/A0 picked it up and ran/V
they/A0 gave/V Bob/A2 a/A1 book/A1+ to/ read/ | they gave Bob/A0 a/A1 book/A1+ to read/V
go/V and/ see/ him/ | go and see/V him/A1
"""


def frames() -> list[Frame]:
    found = []
    for text in FRAMES.strip().replace("|", "\n").splitlines():
        parts = [word.partition("/")[::2] for word in text.split()]
        tags = tuple(
            "O" if not tag else f"I-{tag[:-1]}" if tag.endswith("+") else f"B-{tag}"
            for _, tag in parts
        )
        found.append(Frame(tuple(word for word, _ in parts), tags.index("B-V"), tags))
    return found


def config(epochs: int = 30, **elmo: Any) -> SrlConfig:
    train = TrainerConfig(lr=1e-2, batch_size=10, epochs=epochs, patience=0, halve_after=0)
    words = WordsConfig(dim=12, min_count=1, char_filters=0, dropout=0.0)
    place = ElmoPlacement(**({"place": "both", "dropout": 0.0} | elmo))
    return SrlConfig(
        elmo=place,
        words=words,
        train=train,
        predicate_dim=4,
        lstm_dim=24,
        lstm_layers=2,
        dropout=0.0,
    )


class Setup:
    """A new model with its data."""

    def __init__(self, config: SrlConfig, elmo: Elmo) -> None:
        self.config, self.examples = config, frames()
        source = None if config.elmo.place == "none" else FrozenLayers(elmo)
        table = word_table([e.tokens for e in self.examples], config.words, None)
        model = new_model(TASK, config, TASK.label_sets(self.examples), table, source, seed=3)
        assert isinstance(model, SrlTagger)
        self.model = model
        self.read = TokenReader(config.words, table, source)

    def predict(self) -> list[list[str]]:
        return predict(TASK, self.model, self.read, self.examples, 6)

    def score(self) -> dict[str, Any]:
        return TASK.score(self.examples, self.predict())


@pytest.mark.parametrize("place", ["none", "both"])
def test_twenty_frames_are_learned_by_heart(place: str, tiny: Elmo) -> None:
    setup = Setup(config(place=place), tiny)
    before = setup.predict()
    assert TASK.score(setup.examples, before)["f1"] < 1
    # Also a model that knows nothing gives tags that fit together.
    assert all(bio_fault(tags) is None for tags in before)
    Trainer(TASK, setup.model, setup.read, setup.config.train, seed=3).run(
        setup.examples, setup.examples
    )
    assert setup.score()["f1"] == setup.score()["perfect"] == 1
    assert len(setup.examples) == 20 and len({e.tokens for e in setup.examples}) == 10


@pytest.mark.parametrize("place", ["none", "input", "output", "both"])
def test_gradients_reach_the_mixes_but_not_the_bilm(place: str, tiny: Elmo) -> None:
    setup = Setup(config(place=place), tiny)
    setup.model.train()
    setup.model.loss(setup.examples, setup.read).backward()
    assert_gradients_reach_the_mixes(setup.model, place, tiny)
    assert setup.model.scores.in_features == 24 + (tiny.dim if place in ("output", "both") else 0)


def test_only_the_predicate_is_marked(tiny: Elmo) -> None:
    setup = Setup(config(place="none"), tiny)
    with torch.no_grad():
        setup.model.predicate.weight.zero_()
    model = setup.model.eval()
    batch = setup.read([frames()[0].tokens])
    unmarked = [model(batch, torch.tensor([place])) for place in (1, 3)]
    assert torch.equal(*unmarked)
    with torch.no_grad():
        model.predicate.weight[1] = 1
    marked = [model(batch, torch.tensor([place])) for place in (1, 3)]
    assert not torch.allclose(*marked)


def test_loss_is_the_mean_over_tokens(tiny: Elmo) -> None:
    setup = Setup(config(), tiny)
    model = setup.model.eval()
    with torch.no_grad():
        together = model.loss(setup.examples, setup.read).item()
        each = [(model.loss([e], setup.read).item(), len(e.tokens)) for e in setup.examples]
    assert together == pytest.approx(sum(a * n for a, n in each) / sum(n for _, n in each), 1e-4)


def test_data_without_arguments_cannot_be_learned() -> None:
    frame = Frame(("It", "rains"), 1, ("O", "B-V"))
    assert_refused(lambda: TASK.label_sets([frame]), "no argument", "O or V")


def test_a_run_is_trained_loaded_and_asked(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "bilm")
    rows = [
        {"words": f.tokens, "frames": [{"pred": f.predicate, "tags": f.tags}]} for f in frames()
    ]
    data = tmp_path / "frames.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = config(2).override("train.optimizer=adadelta", "train.lr=1")
    summary = train_task(
        "srl", data, data, tmp_path / "bilm", tmp_path / "run", settings, device="cpu"
    )
    trained = load_task(tmp_path / "run", device="cpu")
    metrics = trained.evaluate(data)
    assert metrics.pop("examples") == 20
    assert metrics == summary["seeds"][0]["dev"]
    [(_, nothing), (example, found)] = trained.predict_texts(["", "Anna [wants] to sing"])
    assert nothing is None and example.predicate == 1
    assert len(found) == 4 and bio_fault(found) is None
