"""Inference as a task: labelled pairs in, accuracy out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...errors import InputError
from ...text.reader import Reader
from ..config import TaskConfig
from ..data.held_out import one_side, text_of
from ..data.lines import json_object
from ..embedding import TaskEmbedding
from ..labels import LabelTask
from ..metrics import require_libraries
from ..task import Facts
from .config import SnliConfig
from .data import NAMES, SentencePair, read_inference
from .esim import Esim


class SnliTask(LabelTask):
    """One label a pair of sentences: JSON lines or TSV."""

    name: ClassVar[str] = "snli"
    config_class: ClassVar[type[TaskConfig]] = SnliConfig

    def read(
        self, path: Path, config: TaskConfig, reader: Reader, *, is_training: bool
    ) -> list[SentencePair]:
        """The pairs of a file that have a gold label."""
        require_libraries()
        pairs = read_inference(path, reader.tokens)
        return one_side(
            pairs, lambda p: text_of(p.premise), config.held_out, is_training=is_training
        )

    def example(self, line: str, reader: Reader, config: TaskConfig) -> SentencePair:
        """The premise and the hypothesis of a line, parted by a tab, or of a JSON object."""
        if not line.strip():
            return SentencePair((), ())
        sides = [tuple(reader.tokens(text)) for text in _texts(json_object(line), line)]
        if len(sides) != 2 or not all(sides):
            raise InputError(
                f"{line!r:.80}: expected a premise, a tab, and a hypothesis, or a JSON object with "
                "'premise' and 'hypothesis'"
            )
        premise, hypothesis = sides
        return SentencePair(premise, hypothesis)

    def sentences(self, example: SentencePair) -> list[Sequence[str]]:
        """Both."""
        return [example.premise, example.hypothesis]

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> Esim:
        """A new model."""
        assert isinstance(config, SnliConfig)
        return Esim(config, embedding, facts["labels"])


def _texts(values: dict[str, Any] | None, line: str) -> list[str]:
    """The two texts of a line, if it has two."""
    if values is None:
        return line.split("\t")
    return [values[n] for names in NAMES for n in names[:2] if isinstance(values.get(n), str)]
