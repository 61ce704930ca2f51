"""Twenty questions about five texts, in SQuAD's form, and the smallest model that learns them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from task_data import TRAIN, WORDS

from elmokit.tasks.config import ElmoPlacement
from elmokit.tasks.squad.model import SquadConfig

PEOPLE = ("Anna Lee", "Bob", "Chloé (a baker)", "김민수", "Eve Stone")
PLACES = ("Paris", "New York", "서울", "St. John's", "Rome, Italy")
YEARS = ("1901", "1,950", "2008", "44 BC", "1999–2001")
THINGS = ("a cat", "the red car", "3.5 kg of tea", "🙂 stickers", '"books"')


def paragraphs() -> list[dict[str, Any]]:
    """Texts of the same form, with the same questions, whose answers differ."""
    found = []
    for i, (person, place, year, thing) in enumerate(zip(PEOPLE, PLACES, YEARS, THINGS)):
        context = f"In {year}, {person} came to {place} and bought {thing}."
        asked = {"Who came?": person, "Where?": place, "When was it?": year, "What?": thing}
        qas = [
            {
                "id": f"{i}-{k}",
                "question": question,
                "answers": [{"text": answer, "answer_start": context.index(answer)}],
            }
            for k, (question, answer) in enumerate(asked.items())
        ]
        found.append({"context": context, "qas": qas})
    return found


def squad_json(version: str = "1.1") -> dict[str, Any]:
    """An article a text."""
    articles = [{"title": f"Article {i}", "paragraphs": [p]} for i, p in enumerate(paragraphs())]
    return {"version": version, "data": articles}


def write_squad(folder: Path) -> Path:
    """The file of all questions."""
    path = folder / "squad.json"
    path.write_text(json.dumps(squad_json(), ensure_ascii=False), encoding="utf-8")
    return path


def squad_config(train: dict[str, Any] | None = None, **elmo: Any) -> SquadConfig:
    """A model of a few units."""
    place = ElmoPlacement(**({"dropout": 0.0, "place": "both"} | elmo))
    config = replace(TRAIN, **({"batch_size": 5, "epochs": 40, "ema": 0.5} | (train or {})))
    return SquadConfig(elmo=place, words=WORDS, train=config, gru_dim=8, dropout=0.0)
