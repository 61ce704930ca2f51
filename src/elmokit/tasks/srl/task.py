"""Semantic roles as a task: frames in, argument scores out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...errors import FormatError, InputError
from ...text.marked import parse_marked, split_marked
from ...text.reader import Reader
from ..config import TaskConfig
from ..data.held_out import one_side, text_of
from ..embedding import TaskEmbedding
from ..tags import spans
from ..task import Facts, Metrics
from .config import SrlConfig
from .data import Frame, read_frames
from .scorer import argument_scores
from .tagger import SrlTagger


class SrlTask:
    """The arguments of given predicates in BIO tags: JSON lines."""

    name: ClassVar[str] = "srl"
    metric: ClassVar[str] = "f1"
    config_class: ClassVar[type[TaskConfig]] = SrlConfig

    def read(
        self, path: Path, config: TaskConfig, reader: Reader, *, is_training: bool
    ) -> list[Frame]:
        """The frames of a file, or so many of them for training."""
        assert isinstance(config, SrlConfig)
        frames = one_side(
            read_frames(path),
            lambda frame: text_of(frame.tokens),
            config.held_out,
            is_training=is_training,
        )
        if is_training and 0 < config.max_frames < len(frames):
            kept = np.linspace(0, len(frames), config.max_frames, endpoint=False).astype(int)
            frames = [frames[i] for i in kept.tolist()]
        return frames

    def example(self, line: str, reader: Reader, config: TaskConfig) -> Frame:
        """The tokens of a line whose predicate is in brackets."""
        if not line.strip():
            return Frame((), 0, ())
        if split_marked(line) is None:
            raise InputError(
                f"{line!r:.80}: expected one predicate in brackets, as in 'She [gave] him a book .'"
            )
        tokens, predicate = parse_marked(reader, line)
        return Frame(tuple(tokens), predicate, ("O",) * len(tokens))

    def sentences(self, example: Frame) -> list[Sequence[str]]:
        """The sentence itself."""
        return [example.tokens]

    def facts(self, examples: Sequence[Frame]) -> Facts:
        """The labels of the arguments."""
        labels = {tag[2:] for example in examples for tag in example.tags if tag != "O"}
        if not labels - {"V"}:
            raise FormatError("the training data have no argument: all tags are O or V")
        return {"labels": sorted(labels)}

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> SrlTagger:
        """A new tagger."""
        assert isinstance(config, SrlConfig)
        return SrlTagger(config, embedding, facts["labels"])

    def score(self, examples: Sequence[Frame], predictions: Sequence[list[str]]) -> Metrics:
        """Precision, recall and F1 of the arguments."""
        return argument_scores([example.tags for example in examples], predictions)

    def row(self, example: Frame, prediction: list[str]) -> dict[str, Any]:
        """Tokens, predicate, tags, and the spans that they mean."""
        found = [
            {
                "label": label,
                "start": start,
                "end": end,
                "text": " ".join(example.tokens[start:end]),
            }
            for label, start, end in spans(prediction)
        ]
        return {
            "tokens": list(example.tokens),
            "predicate": example.predicate,
            "tags": prediction,
            "spans": found,
        }

    def text(self, example: Frame, prediction: list[str]) -> str:
        """The sentence with its labelled spans in brackets, such as [ARG0 She] [V gave] …"""
        pieces: list[str] = []
        at = 0
        for label, start, end in spans(prediction):
            pieces += example.tokens[at:start]
            pieces.append(f"[{label} {' '.join(example.tokens[start:end])}]")
            at = end
        return " ".join([*pieces, *example.tokens[at:]])
