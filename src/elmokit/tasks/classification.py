"""Sentiment, intent and their like as a task: labelled texts in, accuracy out."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ..errors import FormatError, InputError, quoted
from ..text.reader import Reader
from .bcn import Bcn
from .config import BcnConfig, TaskConfig
from .data.examples import LabelledText
from .data.held_out import one_side, text_of
from .data.labelled import read_jsonl, read_trees, read_tsv
from .data.lines import Lines, filled_lines, json_object
from .embedding import TaskEmbedding
from .labels import LabelTask
from .metrics import require_libraries
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
        require_libraries()
        lines = filled_lines(path)
        if lines[0][1].lstrip().startswith("("):
            return _read_trees(path, lines, config, is_training)
        texts = _read_lines(path, lines, config, reader)
        return one_side(
            texts, lambda t: text_of(t.tokens), config.held_out, is_training=is_training
        )

    def example(self, line: str, reader: Reader, config: TaskConfig) -> LabelledText:
        """The tokens of a line, or of the text in a JSON object; without a label."""
        assert isinstance(config, BcnConfig)
        record = json_object(line)
        text = line if record is None else record.get(config.text)
        if not isinstance(text, str):
            found = ", ".join(map(repr, record or {}))
            raise InputError(
                f"a JSON object without text in the field {quoted(config.text)}; found {found:.80}"
            )
        return LabelledText(tuple(reader.tokens(text)), "")

    def sentences(self, example: LabelledText) -> list[Sequence[str]]:
        """The text itself."""
        return [example.tokens]

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> Bcn:
        """A new network."""
        assert isinstance(config, BcnConfig)
        return Bcn(config, embedding, facts["labels"])


def _read_lines(path: Path, lines: Lines, config: BcnConfig, reader: Reader) -> list[LabelledText]:
    text, label = config.text, config.label
    if lines[0][1].lstrip().startswith("{"):
        return read_jsonl(path, reader.tokens, text=text, label=label, lines=lines)
    if config.text_column is not None and config.label_column is not None:
        columns = config.text_column, config.label_column
        return read_tsv(path, reader.tokens, text=columns[0], label=columns[1], lines=lines)
    header = [name.strip() for name in lines[0][1].split("\t")]
    if not {text, label} <= {*header}:
        raise FormatError(
            f"{path}: expected columns {quoted(text)} and {quoted(label)}, parted by tabs; found "
            f"{', '.join(header):.200}. Name others with --set text=… --set label=…, or give "
            "text_column and label_column, numbers from 0, if there is no header"
        )
    return read_tsv(path, reader.tokens, text=text, label=label, lines=lines)


def _read_trees(
    path: Path, lines: Lines, config: BcnConfig, is_training: bool
) -> list[LabelledText]:
    held_out = config.held_out
    whole = read_trees(path, held_out=held_out, is_training=is_training, lines=lines)
    if not (is_training and config.phrases):
        return whole
    phrases = read_trees(path, phrases=True, held_out=held_out, lines=lines)
    long = [p for p in phrases if len(p.tokens) >= config.min_phrase]
    # Most short phrases occur many times, with the same label.
    return list(dict.fromkeys([*whole, *long]))
