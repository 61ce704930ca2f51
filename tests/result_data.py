"""A file and a tiny model for each task, a text to ask it about, and the schema of the answers."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from coref_data import config as coref_config
from coref_data import write_stories
from generation_data import translate_config, write_pairs
from jsonschema import Draft202012Validator
from squad_data import squad_config, write_squad
from task_data import TRAIN, WORDS, bcn_config, ner_config, write_data

from elmokit.tasks import find_task

SCHEMA = Draft202012Validator(
    json.loads((files("elmokit.tasks") / "predictions.schema.json").read_text(encoding="utf-8"))
)
FRAMES = [
    {"words": ["Anna", "gave", "him", "tea"],
     "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "B-ARG2", "B-ARG1"]}]},
    {"words": ["Bob", "sings"], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V"]}]},
    {"words": ["Rain"], "frames": []},
]  # fmt: skip
PAIRS = [("a dog runs", "an animal moves", "yes"), ("a dog runs", "it sleeps", "no")]
TEXTS = {
    "ner": ["Bob met Anna Lee in Paris."],
    "classify": ["a fine film!"],
    "snli": ["a dog runs", "it moves"],
    "srl": ["Anna [gave] him tea and Bob [sings]."],
    "coref": ["Anna met Bob. She likes him."],
    "translate": ["Bob eats bread."],
    "squad": ["Who came?", "In 1901, Bob came to Rome."],
    "extract": ["Hello Bob. We sing a song. Thanks."],
}


def write_task_data(task: str, folder: Path) -> tuple[Path, Any]:
    """A file that the task trains on, and the settings of a tiny model."""
    short = {"epochs": 1}
    if task == "translate":
        return write_pairs(folder / "pairs.tsv"), translate_config(short, {"place": "none"})
    if task in ("ner", "classify"):
        make = ner_config if task == "ner" else bcn_config
        return write_data(folder)[task == "classify"], make(short, place="none")
    if task == "squad":
        return write_squad(folder), squad_config(short, place="none")
    if task == "coref":
        return write_stories(folder / "stories.conll"), coref_config(short, place="none")
    path = folder / "data.jsonl"
    rows: list[Any] = FRAMES
    if task == "snli":
        rows = [dict(zip(("premise", "hypothesis", "label"), pair)) for pair in PAIRS]
    if task == "extract":
        rows = [{"source": "We sing. They do not.", "target": "we sing"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings = find_task(task).config_class().override("elmo.place=none")
    sizes = ("lstm_dim=4", "lstm_layers=1", "predicate_dim=4") if task == "srl" else ("dim=4",)
    settings = settings.override(*sizes)
    return path, replace(settings, words=WORDS, train=replace(TRAIN, **short))
