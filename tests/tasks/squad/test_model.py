"""The model learns, reads ELMo where it is told, ignores padding, and loses no long text."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from squad_data import squad_config, write_squad
from strategies import assert_refused, make_tiny
from task_data import assert_gradients_reach_the_mixes
from torch import Tensor

from elmokit import Elmo
from elmokit.tasks.parts.bilm import FrozenLayers
from elmokit.tasks.parts.embedding import TokenReader, word_table
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.runs.trainer import Row, Trainer, predict
from elmokit.tasks.squad.model import BiDaf, Passage, Question, SquadConfig
from elmokit.tasks.squad.task import SquadTask
from elmokit.tasks.task import new_model
from elmokit.text.reader import Reader

TASK = SquadTask()


class Setup:
    """A new model with its data."""

    def __init__(self, config: SquadConfig, elmo: Elmo, folder: Path) -> None:
        self.config = config
        self.examples = TASK.read(write_squad(folder), config, elmo.reader, is_training=True)
        self.source = None if config.elmo.place == "none" else FrozenLayers(elmo)
        sentences = [s for e in self.examples for s in TASK.sentences(e)]
        table = word_table(sentences, config.words, None)
        model = new_model(TASK, config, {}, table, self.source, seed=3)
        assert isinstance(model, BiDaf)
        self.model = model
        self.read = TokenReader(config.words, table, self.source)

    def train(self, on_epoch: Callable[[Row], None] | None = None) -> None:
        trainer = Trainer(TASK, self.model, self.read, self.config.train, seed=3)
        trainer.run(self.examples, self.examples, on_epoch=on_epoch)

    def score(self) -> dict[str, float]:
        found = predict(TASK, self.model, self.read, self.examples, 7)
        return TASK.score(self.examples, found)

    def scores(self, examples: list[Question]) -> tuple[Tensor, Tensor]:
        passages = self.read([e.passage.tokens for e in examples])
        return self.model(passages, self.read([e.tokens for e in examples]))


def test_twenty_questions_are_learned_by_heart(tiny: Elmo, tmp_path: Path) -> None:
    setup = Setup(squad_config({"ema": 0.0}, place="both"), tiny, tmp_path)
    assert setup.score()["f1"] < 0.5

    def stop_when_learned(row: Row) -> None:
        if row["dev"]["exact_match"] == 1:
            raise StopIteration

    with pytest.raises(StopIteration):
        setup.train(stop_when_learned)
    assert setup.score() == {"f1": 1, "exact_match": 1}


@pytest.mark.parametrize("place", ["none", "input", "output", "both"])
def test_gradients_reach_the_mixes_alone(place: str, tiny: Elmo, tmp_path: Path) -> None:
    setup = Setup(squad_config(place=place), tiny, tmp_path)
    before = {n: p.clone() for n, p in tiny.named_parameters()}
    setup.model.train()
    setup.model.loss(setup.examples, setup.read).backward()
    assert_gradients_reach_the_mixes(setup.model, place, tiny)
    for name, parameter in setup.model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    for name, parameter in tiny.named_parameters():
        assert parameter.grad is None and torch.equal(parameter, before[name])


@torch.no_grad()
def test_padding_does_not_matter(tiny: Elmo, tmp_path: Path) -> None:
    setup = Setup(squad_config(), tiny, tmp_path)
    setup.model.eval()
    examples = setup.examples[::3]
    one_token = replace(examples[0], passage=examples[0].passage.part(2, 3))
    examples = [*examples, one_token]
    together = setup.scores(examples)
    for i, example in enumerate(examples):
        length = len(example.passage.tokens)
        for batch, alone in zip(together, setup.scores([example]), strict=True):
            torch.testing.assert_close(batch[i, :length], alone[0], atol=1e-5, rtol=1e-4)
            assert (batch[i, length:] == -torch.inf).all()


def test_cached_training_equals_uncached(tmp_path: Path) -> None:
    tensors = []
    for is_cached in (True, False):
        config = replace(squad_config({"epochs": 1}, dropout=0.3), dropout=0.2)
        setup = Setup(config, make_tiny(), tmp_path)
        assert setup.source is not None
        setup.source.is_cached = is_cached
        setup.train()
        tensors.append(setup.model.state_dict())
    # Layers of other batches may differ in their last bit, before they are rounded.
    torch.testing.assert_close(tensors[0], tensors[1], atol=1e-3, rtol=1e-2)


@torch.no_grad()
def test_an_answer_is_found_anywhere_in_a_long_text(
    tiny: Elmo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(squad_config(place="none"), max_paragraph_tokens=8, max_answer_tokens=4)
    setup = Setup(config, tiny, tmp_path)
    model = setup.model.eval()
    sizes = []

    def score(passages: object, questions: object) -> tuple[Tensor, Tensor]:
        """Likes the words `here it is` wherever they are, and others a little."""
        rows = [list(tokens) for tokens in read_sentences[-2]]
        sizes.append(len(rows) * max(map(len, rows)))
        start, end = (torch.full((len(rows), max(map(len, rows))), -torch.inf) for _ in range(2))
        for i, tokens in enumerate(rows):
            start[i, : len(tokens)] = end[i, : len(tokens)] = 0.5
            for k, token in enumerate(tokens):
                start[i, k] = 9.0 if token == "here" else start[i, k]
                end[i, k] = 9.0 if token == "is" else end[i, k]
        return start, end

    read_sentences: list[list[tuple[str, ...]]] = []

    def read(sentences: list[tuple[str, ...]]) -> object:
        read_sentences.append(sentences)
        return None

    monkeypatch.setattr(BiDaf, "__call__", lambda self, *batches: score(*batches))
    monkeypatch.setattr("elmokit.tasks.squad.model.MAX_WINDOW_TOKENS", 40)
    examples = []
    for place in range(60):
        words = [f"w{i}" for i in range(60)]
        words[place:place] = ["here", "it", "is"]
        text = " ".join(words)
        examples.append(Question(Passage.read(text, Reader("whitespace")), "?", ("?",)))
    for example, found in zip(examples, model.predict(examples, read), strict=True):  # type: ignore[arg-type]
        assert (
            found["answer"] == "here it is" == example.passage.text[found["start"] : found["end"]]
        )
        assert 0 < found["probability"] < 1
    assert max(sizes) <= 40


@torch.no_grad()
def test_probability_is_that_of_start_and_end(tiny: Elmo, tmp_path: Path) -> None:
    setup = Setup(squad_config(place="none"), tiny, tmp_path)
    setup.model.eval()
    example = setup.examples[5]
    (found,) = setup.model.predict([example], setup.read)
    start, end = (scores[0].softmax(dim=0) for scores in setup.scores([example]))
    span = example.passage.cover(found["start"], found["end"])
    assert span is not None
    assert found["probability"] == pytest.approx(float(start[span.first] * end[span.last]), 1e-4)


def test_a_run_answers_questions(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "bilm")
    data = write_squad(tmp_path)
    config = squad_config({"epochs": 2})
    summary = train_task("squad", data, data, tmp_path / "bilm", tmp_path / "run", config,
                         device="cpu")  # fmt: skip
    trained = load_task(tmp_path / "run", device="cpu")
    metrics = trained.evaluate(data)
    assert metrics.pop("examples") == 20
    assert metrics == pytest.approx(summary["seeds"][0]["dev"])
    lines = ["Who?\tBob\u3000came.", "", '{"question": "Who?", "context": "Bob\\ncame."}', "Who?\t"]
    (example, first), (_, nothing), (_, third), (_, empty) = trained.predict_texts(lines)
    assert nothing is None and empty is None
    assert first["answer"] in "Bob\u3000came." and third["answer"] in "Bob\ncame."
    assert trained.task.result(example, first).to_dict() == {
        "task": "squad", "text": "Bob\u3000came.", "id": None, "question": "Who?", **first,
    }  # fmt: skip
    assert "\n" not in trained.task.as_text(example, {"answer": "Bob\ncame"})
    for bad in ("Who?", '{"question": "Who?"}', '{"question"', "{}"):
        assert_refused(lambda line=bad: trained.predict_texts([line]), bad[:8], "question")
