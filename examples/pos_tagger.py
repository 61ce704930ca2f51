"""A task of your own in about 100 lines: a part-of-speech tagger, one linear layer on frozen ELMo.

    python examples/pos_tagger.py [TRAIN.conllu DEV.conllu] [--model en] [-o RUN]

Reads CoNLL-U, trains with `train_task`, then loads the run and tags a sentence. All that
`elmokit train` does works for it: layer mixes, static vectors, seeds, resuming, fine-tuning.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmokit import load_task, train_task
from elmokit.tasks.config import TaskConfig, TrainerConfig, WordsConfig
from elmokit.tasks.parts.conll import TaggedSentence, read_conllu
from elmokit.tasks.parts.embedding import TaskEmbedding
from elmokit.tasks.parts.passage import Passage
from elmokit.tasks.task import LabelSets, Read, Scores, Task, TaskModel
from elmokit.text.reader import Reader

DATA = Path(__file__).with_name("pos.conllu")
Sentences = Sequence[TaggedSentence]


@dataclass(frozen=True, kw_only=True, slots=True)
class PosConfig(TaskConfig):
    """ELMo alone, without word vectors and characters of the task's own."""

    words: WordsConfig = field(default_factory=lambda: WordsConfig(dim=0, char_filters=0))
    train: TrainerConfig = field(default_factory=lambda: TrainerConfig(lr=1e-2, epochs=20))


class LinearTagger(TaskModel[TaggedSentence, list[str]]):
    """ELMo → the scores of the tags of each token."""

    def __init__(self, embedding: TaskEmbedding, tags: list[str]) -> None:
        super().__init__()
        self.embedding, self.tags = embedding, tags
        self.scores = nn.Linear(embedding.dim, len(tags))

    def loss(self, examples: Sentences, read: Read) -> Tensor:
        batch = read([example.tokens for example in examples])
        scores = self.scores(self.embedding(batch))[batch.mask]
        gold = [self.tags.index(tag) for example in examples for tag in example.tags]
        return nn.functional.cross_entropy(scores, torch.tensor(gold, device=scores.device))

    def predict(self, examples: Sentences, read: Read) -> list[list[str]]:
        batch = read([example.tokens for example in examples])
        best = self.scores(self.embedding(batch)).argmax(dim=-1).tolist()
        return [[self.tags[i] for i in row[: len(e.tokens)]] for row, e in zip(best, examples)]


class PosTask(Task[PosConfig, TaggedSentence, list[str]]):
    """Universal part-of-speech tags of CoNLL-U files."""

    name, metric, formats = "pos", "accuracy", {"conllu": (".conllu",)}
    config_class = PosConfig

    def read(
        self, path: Path, config: PosConfig, reader: Reader, *, is_training: bool
    ) -> list[TaggedSentence]:
        return read_conllu(path)

    def example(self, line: str, reader: Reader, config: PosConfig) -> TaggedSentence:
        source = Passage.read(line, reader)
        return TaggedSentence(source.tokens, (), source)

    def text(self, example: TaggedSentence) -> str:
        return example.source.text if example.source else super().text(example)

    def sentences(self, example: TaggedSentence) -> list[Sequence[str]]:
        return [example.tokens]

    def label_sets(self, examples: Sentences) -> LabelSets:
        return {"tags": sorted({tag for example in examples for tag in example.tags})}

    def model(self, config: PosConfig, labels: LabelSets, embedding: TaskEmbedding) -> LinearTagger:
        return LinearTagger(embedding, labels["tags"])

    def score(self, examples: Sentences, predictions: Sequence[list[str]]) -> Scores:
        pairs = [p for e, tags in zip(examples, predictions) for p in zip(e.tags, tags)]
        return {"accuracy": sum(gold == found for gold, found in pairs) / len(pairs)}

    def as_json(self, example: TaggedSentence, prediction: list[str]) -> dict[str, Any]:
        return {"tokens": list(example.tokens), "tags": prediction}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("train", nargs="?", default=DATA)
    parser.add_argument("dev", nargs="?", default=DATA)
    parser.add_argument("--model", default="en")
    parser.add_argument("-o", "--output", default=Path(tempfile.mkdtemp()) / "run")
    args = parser.parse_args()
    done = train_task(PosTask(), args.train, args.dev, args.model, args.output)
    print(f"accuracy on the development data: {done['mean']:.3f}")
    found = load_task(args.output, task=PosTask())("She has a gift.").to_dict()
    print(" ".join(f"{word}/{tag}" for word, tag in zip(found["tokens"], found["tags"])))
