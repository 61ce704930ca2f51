"""Twenty pairs of texts, and the smallest models that can learn them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from elmokit.tasks.config import ElmoPlacement, TrainerConfig
from elmokit.tasks.translate import TranslateConfig

SUBJECTS = (("Anna", "Ana"), ("the dog", "el perro"), ("a cat", "un gato"), ("Bob", "Roberto"))
VERBS = (
    ("sees", "ve"),
    ("eats", "come"),
    ("wants", "quiere"),
    ("has", "tiene"),
    ("sells", "vende"),
)
OBJECTS = (("bread", "pan"), ("the red house", "la casa roja"), ("3 €", "3 €"))
SMALL = {
    "units": 400, "embed_dim": 32, "dim": 64, "layers": 1, "dropout": 0.0, "word_dropout": 0.0,
    "smoothing": 0.0, "batch_units": 0,
}  # fmt: skip
TRAIN = TrainerConfig(lr=1e-2, batch_size=5, epochs=120, patience=0, halve_after=10)


def pairs(number: int = 20) -> list[tuple[str, str]]:
    """Sentences of five to seven words, all different."""
    found = []
    for i in range(number):
        parts = SUBJECTS[i % 4], VERBS[i % 5], OBJECTS[i % 3]
        source, target = (" ".join(words) + "." for words in zip(*parts, strict=True))
        found.append((source[0].upper() + source[1:], target[0].upper() + target[1:]))
    return found


def write_pairs(path: Path, number: int = 20) -> Path:
    """A table with a header."""
    rows = [("source", "target"), *pairs(number)]
    path.write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    return path


def translate_config(
    train: dict[str, Any] | None = None, elmo: dict[str, Any] | None = None, **changes: Any
) -> TranslateConfig:
    """A translator of a few units."""
    place = ElmoPlacement(**({"dropout": 0.0} | (elmo or {})))
    return TranslateConfig(elmo=place, train=replace(TRAIN, **(train or {})), **(SMALL | changes))
