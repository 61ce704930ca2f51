"""Sentiment, intent and their like as a task: labelled texts in, accuracy out."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ..errors import ConfigError
from ..io.files import read_lines
from ..text.reader import Reader
from .bcn import Bcn
from .config import BcnConfig, TaskConfig
from .data.examples import LabelledText
from .data.held_out import one_side, text_of
from .data.labelled import read_jsonl, read_trees, read_tsv
from .embedding import TaskEmbedding
from .labels import LabelTask
from .task import Facts


class SentimentTask(LabelTask):
    """One label a text: PTB trees with their labels, TSV or JSON lines."""

    name: ClassVar[str] = "sentiment"
    config_class: ClassVar[type[TaskConfig]] = BcnConfig

    def read(
        self, path: Path, config: TaskConfig, reader: Reader, *, is_training: bool
    ) -> list[LabelledText]:
        """The texts of a file; of trees, also the phrases inside if they are to be learned."""
        assert isinstance(config, BcnConfig)
        start = _first_character(path)
        if start == "(":
            return _read_trees(path, config, is_training)
        texts = _read_lines(path, config, reader, is_json=start == "{")
        return one_side(
            texts, lambda t: text_of(t.tokens), config.held_out, is_training=is_training
        )

    def example(self, line: str, reader: Reader) -> LabelledText:
        """The tokens of a line, without a label."""
        return LabelledText(tuple(reader.tokens(line)), "")

    def sentences(self, example: LabelledText) -> list[Sequence[str]]:
        """The text itself."""
        return [example.tokens]

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> Bcn:
        """A new network."""
        assert isinstance(config, BcnConfig)
        return Bcn(config, embedding, facts["labels"])


def _read_lines(
    path: Path, config: BcnConfig, reader: Reader, *, is_json: bool
) -> list[LabelledText]:
    if is_json:
        return read_jsonl(path, reader.tokens, text=config.text, label=config.label)
    if config.text_column is not None and config.label_column is not None:
        text, label = config.text_column, config.label_column
        return read_tsv(path, reader.tokens, text=text, label=label)
    return read_tsv(path, reader.tokens, text=config.text, label=config.label)


def _read_trees(path: Path, config: BcnConfig, is_training: bool) -> list[LabelledText]:
    whole = read_trees(path, held_out=config.held_out, is_training=is_training)
    if not (is_training and config.phrases):
        return whole
    phrases = read_trees(path, phrases=True, held_out=config.held_out)
    long = [p for p in phrases if len(p.tokens) >= config.min_phrase]
    # Most short phrases occur many times, with the same label.
    return list(dict.fromkeys([*whole, *long]))


def _first_character(path: Path) -> str:
    for line in read_lines(path):
        if line.strip():
            return line.strip()[0]
    raise ConfigError(f"{path} is empty; expected labelled texts")
