"""Twenty sentences with entities and sentiment, and the smallest models that can learn them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from elmokit import Elmo
from elmokit.tasks.classify import ClassifyConfig
from elmokit.tasks.config import ElmoPlacement, TrainerConfig, WordsConfig
from elmokit.tasks.ner import NerConfig
from elmokit.tasks.task import TaskModel

PEOPLE = ("Anna Lee", "Bob", "Chloé", "김 민수", "Eve Stone Park")
PLACES = ("Paris", "New York", "서울", "Rome")
WORDS = WordsConfig(dim=8, min_count=1, char_filters=16, dropout=0.0)
TRAIN = TrainerConfig(lr=1e-2, batch_size=8, epochs=30, patience=0, halve_after=0)


def tagged_lines(number: int = 20) -> str:
    """Sentences in CoNLL columns."""
    blocks = []
    for i in range(number):
        person, place = PEOPLE[i % len(PEOPLE)], PLACES[i % len(PLACES)]
        parts = [(person, "PER"), ("met" if i % 2 else "saw", ""), (PEOPLE[i % 3], "PER")]
        parts += [("in", ""), (place, "LOC"), (".", "")][: 2 + 2 * (i % 3)]
        rows = []
        for text, kind in parts:
            for k, word in enumerate(text.split()):
                tag = f"{'I' if k else 'B'}-{kind}" if kind else "O"
                rows.append(f"{word}\t{tag}")
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks) + "\n"


def labelled_lines(number: int = 20) -> str:
    """Texts in a TSV file with a header."""
    nouns = ("film", "plot", "cast", "end", "영화")
    kinds = (("good", "a fine"), ("bad", "no good"), ("so-so", "just a"))
    rows = ["label\ttext"]
    for i in range(number):
        label, words = kinds[i % 3]
        rows.append(f"{label}\t{words} {nouns[i % 5]} {'and more ' * (i % 4)}!")
    return "\n".join(rows) + "\n"


def write_data(folder: Path) -> tuple[Path, Path]:
    """Files of both kinds."""
    tagged, labelled = folder / "tagged.conll", folder / "labelled.tsv"
    tagged.write_text(tagged_lines(), encoding="utf-8")
    labelled.write_text(labelled_lines(), encoding="utf-8")
    return tagged, labelled


def ner_config(train: dict[str, Any] | None = None, **elmo: Any) -> NerConfig:
    """A tagger of a few units."""
    place = ElmoPlacement(**({"dropout": 0.0} | elmo))
    config = replace(TRAIN, **(train or {}))
    return NerConfig(elmo=place, words=WORDS, train=config, lstm_dim=12, lstm_layers=1, dropout=0.0)


def bcn_config(train: dict[str, Any] | None = None, **elmo: Any) -> ClassifyConfig:
    """A network of a few units."""
    place = ElmoPlacement(**({"dropout": 0.0, "place": "both"} | elmo))
    config = replace(TRAIN, **({"lr": 5e-3, "epochs": 40} | (train or {})))
    return ClassifyConfig(
        elmo=place, words=WORDS, train=config, dim=8, maxout_pieces=2, dropout=0.0
    )


def assert_gradients_reach_the_mixes(model: TaskModel, place: str, bilm: Elmo) -> None:
    """After a backward pass: all of the task model has learned, and nothing of the biLM."""
    mixes = model.embedding.mixes
    assert set(mixes) == {"none": set(), "both": {"input", "output"}}.get(place, {place})
    for mix in mixes.values():
        assert mix.scalars.grad.abs().min() > 0 and mix.gamma.grad != 0
    assert all(p.grad is not None for p in model.parameters())
    assert all(p.grad is None for p in bilm.parameters())
