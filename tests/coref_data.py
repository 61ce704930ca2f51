"""Short documents with clusters, and the smallest model that can learn them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from elmokit import Elmo
from elmokit.tasks.config import ElmoPlacement, TrainerConfig, WordsConfig
from elmokit.tasks.coref.document import CorefDocument, Span
from elmokit.tasks.coref.model import CorefConfig, CorefModel
from elmokit.tasks.coref.task import CorefTask
from elmokit.tasks.parts.bilm import FrozenLayers
from elmokit.tasks.parts.embedding import TokenReader, word_table
from elmokit.tasks.runs.trainer import predict
from elmokit.tasks.task import new_model

STORIES = [
    "(1 Anna 1) met (2 Bob 2) . (1 She 1) likes (2 him 2) .",
    "(1 Bob 1) saw (2 the old dog 2) . (2 It 2) barked . (1 He 1) ran home .",
    "(1 Anna 1) has (2 (1 her 1) dog 2) . (2 It 2) likes (1 her 1) .",
    "(1 Mia 1) sings . Rain falls . (2 Tom 2) hears (1 her 1) . (2 He 2) smiles .",
]


def story(text: str, name: str = "story") -> CorefDocument:
    """A document from text whose mentions stand between `(1` and `1)`."""
    sentences: list[list[str]] = [[]]
    begun: list[tuple[str, int]] = []
    clusters: dict[str, list[Span]] = {}
    place = 0
    for word in text.split():
        if word[0] == "(":
            begun.append((word[1:], place))
        elif word[-1] == ")":
            number, start = begun.pop()
            assert number == word[:-1]
            clusters.setdefault(number, []).append((start, place))
        else:
            sentences[-1].append(word)
            place += 1
            if word == ".":
                sentences.append([])
    spans = (tuple(sorted(cluster)) for cluster in clusters.values())
    return CorefDocument(name, tuple(tuple(s) for s in sentences if s), tuple(sorted(spans)))


def conll(document: CorefDocument, separator: str = "\t") -> str:
    """The document as CoNLL writes it."""
    cells: dict[int, list[str]] = {}
    mentions = [(s, -e, n) for n, c in enumerate(document.clusters) for s, e in c]
    for start, end, number in sorted(mentions):
        if -end - start == 1:
            cells.setdefault(start, []).append(f"({number})")
            continue
        cells.setdefault(start, []).insert(0, f"({number}")
        cells.setdefault(-end - 1, []).append(f"{number})")
    lines, place = [f"#begin document ({document.name}); part 0"], 0
    for sentence in document.sentences:
        for i, word in enumerate(sentence):
            cell = "|".join(cells.get(place, [])) or ("" if separator == "\t" else "-")
            lines.append(separator.join([document.name, "0", str(i), word, "_", "_", cell]))
            place += 1
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


def config(train: dict[str, Any] | None = None, **changes: Any) -> CorefConfig:
    """A model of a few units."""
    place = ElmoPlacement(dropout=0.0, l2=0.0, place=changes.pop("place", "both"))
    times = TrainerConfig(lr=1e-2, batch_size=2, epochs=40, patience=0, halve_after=0)
    values: dict[str, Any] = {
        "elmo": place,
        "words": WordsConfig(dim=8, min_count=1, char_filters=8, dropout=0.0),
        "train": replace(times, **(train or {})),
        "lstm_dim": 10,
        "ffnn_dim": 12,
        "feature_dim": 4,
        "max_width": 3,
        "spans_per_token": 1.0,
        "max_antecedents": 10,
        "lstm_dropout": 0.0,
        "dropout": 0.0,
    }
    return CorefConfig(**(values | changes))


class Setup:
    """A new model with its documents."""

    def __init__(self, settings: CorefConfig, elmo: Elmo, documents: list[CorefDocument]) -> None:
        self.task, self.config, self.documents = CorefTask(), settings, documents
        source = None if settings.elmo.place == "none" else FrozenLayers(elmo)
        sentences = [s for d in documents for s in d.sentences]
        table = word_table(sentences, settings.words, None)
        facts = self.task.label_sets(documents)
        model = new_model(self.task, settings, facts, table, source, seed=3)
        assert isinstance(model, CorefModel)
        self.model = model
        self.read = TokenReader(settings.words, table, source)

    def train(self, epochs: int = 80) -> None:
        """Learn until all is right, or the epochs are over."""
        optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        for epoch in range(epochs):
            self.model.train()
            for document in self.documents:
                optimizer.zero_grad()
                self.model.loss([document], self.read).backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                optimizer.step()
            if epoch % 5 == 4 and self.score()["f1"] == 1:
                return

    def score(self) -> dict[str, Any]:
        found = predict(self.task, self.model, self.read, self.documents, 2)
        return self.task.score(self.documents, found)


def write_stories(path: Path) -> Path:
    """All stories in one file."""
    texts = [conll(story(text, f"story-{i}")) for i, text in enumerate(STORIES)]
    path.write_text("".join(texts), encoding="utf-8")
    return path
