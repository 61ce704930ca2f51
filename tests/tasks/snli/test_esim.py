"""ESIM learns, attends as the paper says, reads ELMo where it is told, and ignores padding."""

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
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.runs.trainer import Trainer, predict
from elmokit.tasks.snli import Esim, SentencePair, SnliConfig, SnliTask, pooled, soft_alignment
from elmokit.tasks.task import new_model

TASK = SnliTask()
PAIRS = """
the cat sleeps | the animal sleeps | yes
the cat sleeps | the cat runs | no
the cat sleeps | the cat is old | maybe
a dog runs | an animal runs | yes
a dog runs | the dog sleeps | no
a dog runs | a dog runs home | maybe
two girls are singing a song | girls sing | yes
two girls are singing a song | nobody sings | no
two girls are singing a song | the song is sad | maybe
고양이가 잔다 | 동물이 잔다 | yes
고양이가 잔다 | 고양이가 뛴다 | no
고양이가 잔다 | 고양이는 늙었다 | maybe
Anna eats | somebody eats | yes
Anna eats | nobody eats | no
Anna eats | Anna eats bread | maybe
men play cards at a table | men are playing | yes
men play cards at a table | men stand in the rain outside of a house | no
men play cards at a table | the men are brothers | maybe
it rains | it does not rain | no
it rains | water falls | yes
"""


def examples() -> list[SentencePair]:
    rows = [line.split(" | ") for line in PAIRS.strip().splitlines()]
    return [SentencePair(tuple(a.split()), tuple(b.split()), label) for a, b, label in rows]


def config(epochs: int = 15, **elmo: Any) -> SnliConfig:
    train = TrainerConfig(lr=1e-2, batch_size=7, epochs=epochs, patience=0, halve_after=0)
    words = WordsConfig(dim=8, min_count=1, char_filters=0, dropout=0.0)
    place = ElmoPlacement(**({"place": "both", "dropout": 0.0} | elmo))
    return SnliConfig(
        elmo=place, words=words, train=train, dim=12, dropout=0.0, attention_dropout=0.0
    )


class Setup:
    """A new model with its data."""

    def __init__(self, config: SnliConfig, elmo: Elmo) -> None:
        self.config, self.examples = config, examples()
        source = None if config.elmo.place == "none" else FrozenLayers(elmo)
        sentences = [s for e in self.examples for s in TASK.sentences(e)]
        table = word_table(sentences, config.words, None)
        model = new_model(TASK, config, TASK.label_sets(self.examples), table, source, seed=3)
        assert isinstance(model, Esim)
        self.model = model
        self.read = TokenReader(config.words, table, source)

    def score(self) -> dict[str, Any]:
        found = predict(TASK, self.model, self.read, self.examples, 6)
        return TASK.score(self.examples, found)


@pytest.mark.parametrize("place", ["none", "both"])
def test_twenty_pairs_are_learned_by_heart(place: str, tiny: Elmo) -> None:
    setup = Setup(config(place=place), tiny)
    assert setup.score()["accuracy"] < 1
    Trainer(TASK, setup.model, setup.read, setup.config.train, seed=3).run(
        setup.examples, setup.examples
    )
    assert setup.score()["accuracy"] == 1
    assert len(setup.examples) == 20


@pytest.mark.parametrize("place", ["none", "input", "output", "both"])
def test_gradients_reach_the_mixes_but_not_the_bilm(place: str, tiny: Elmo) -> None:
    setup = Setup(config(place=place), tiny)
    setup.model.train()
    setup.model.loss(setup.examples, setup.read).backward()
    assert_gradients_reach_the_mixes(setup.model, place, tiny)


def test_elmo_widens_what_is_aligned(tiny: Elmo) -> None:
    widths = {}
    for place in ("none", "input", "output", "both"):
        model = Setup(config(place=place), tiny).model
        widths[place] = (model.encoder.forward_layers[0].input_size, model.projection.in_features)
    assert widths == {
        "none": (8, 4 * 24),
        "input": (8 + tiny.dim, 4 * 24),
        "output": (8, 4 * (24 + tiny.dim)),
        "both": (8 + tiny.dim, 4 * (24 + tiny.dim)),
    }


def test_other_pairs_and_padding_do_not_matter(tiny: Elmo) -> None:
    setup = Setup(config(), tiny)
    model = setup.model.eval()
    with torch.no_grad():
        together = model.predict(setup.examples, setup.read)
        for example, found in zip(setup.examples, together, strict=True):
            [alone] = model.predict([example], setup.read)
            assert alone["label"] == found["label"]
            assert alone["probabilities"] == pytest.approx(found["probabilities"], abs=1e-5)


def test_alignment_equals_its_equations() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(3, 5, 4), torch.randn(3, 6, 4)
    lengths = [(5, 2), (1, 6), (3, 4)]
    a_mask = torch.arange(5) < torch.tensor([[m] for m, _ in lengths])
    b_mask = torch.arange(6) < torch.tensor([[n] for _, n in lengths])
    to_b, to_a = soft_alignment(a, b, a_mask, b_mask)
    for k, (m, n) in enumerate(lengths):
        for i in range(m):
            weights = [torch.exp(a[k, i] @ b[k, j]) for j in range(n)]
            expected = sum(w * b[k, j] for j, w in enumerate(weights)) / sum(weights)
            torch.testing.assert_close(to_b[k, i], expected)
        for j in range(n):
            weights = [torch.exp(a[k, i] @ b[k, j]) for i in range(m)]
            expected = sum(w * a[k, i] for i, w in enumerate(weights)) / sum(weights)
            torch.testing.assert_close(to_a[k, j], expected)


def test_pools_see_real_tokens_only() -> None:
    v = torch.tensor(
        [[[-1.0, 2.0], [-3.0, 4.0], [9.0, 9.0]], [[-5.0, 1.0], [0.0, 0.0], [0.0, 0.0]]]
    )
    mask = torch.tensor([[True, True, False], [True, False, False]])
    mean, largest = pooled(v, mask)
    assert mean.tolist() == [[-2.0, 3.0], [-5.0, 1.0]]
    assert largest.tolist() == [[-1.0, 4.0], [-5.0, 1.0]]


def test_attention_dropout_comes_with_elmo(tiny: Elmo) -> None:
    rates = {}
    for place in ("none", "output"):
        settings = config(place=place).override("attention_dropout=0.3")
        rates[place] = Setup(settings, tiny).model.attention_dropout.p
    assert rates == {"none": 0.0, "output": 0.3}


def test_scores_by_label() -> None:
    gold = [SentencePair(("a",), ("b",), label) for label in ("x", "x", "x", "y")]
    found = [{"label": label} for label in ("x", "x", "z", "x")]
    assert TASK.score(gold, found) == {
        "accuracy": 0.5,
        "labels": {
            "x": {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "support": 3},
            "y": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1},
            "z": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0},
        },
    }


def test_one_label_cannot_be_learned() -> None:
    assert_refused(lambda: TASK.label_sets(examples()[:1]), "one label only", "yes")


def test_a_run_is_trained_loaded_and_asked(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "bilm")
    rows = [" ".join(e.premise) + "\t" + " ".join(e.hypothesis) for e in examples()]
    table = [f"{row}\t{e.label}" for row, e in zip(rows, examples(), strict=True)]
    data = tmp_path / "pairs.tsv"
    data.write_text("\n".join(["premise\thypothesis\tlabel", *table]), encoding="utf-8")
    summary = train_task(
        "snli", data, data, tmp_path / "bilm", tmp_path / "run", config(2), device="cpu"
    )
    trained = load_task(tmp_path / "run", device="cpu")
    metrics = trained.evaluate(data)
    assert metrics.pop("examples") == 20
    assert metrics == summary["seeds"][0]["dev"]
    [(_, nothing), (example, found)] = trained.predict_texts(["", rows[0]])
    assert nothing is None and sum(found["probabilities"].values()) == pytest.approx(1)
    first, *shares = TASK.as_text(example, found).split("\t")
    assert first == found["label"] and [s.split("=")[0] for s in shares] == ["maybe", "no", "yes"]
