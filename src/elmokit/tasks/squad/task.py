"""Question answering as a task: SQuAD's JSON in, exact match and F1 out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...errors import InputError
from ...text.reader import Reader
from ..config import TaskConfig
from ..embedding import TaskEmbedding
from ..task import Facts, Metrics
from .config import SquadConfig
from .data import Question, read_squad
from .metrics import answer_scores
from .model import BiDaf
from .passage import Passage


class SquadTask:
    """Questions about a text: SQuAD 1.1, KorQuAD 1.0 and others of their form."""

    name: ClassVar[str] = "squad"
    metric: ClassVar[str] = "f1"
    config_class: ClassVar[type[TaskConfig]] = SquadConfig

    def read(
        self, path: Path, config: TaskConfig, reader: Reader, *, is_training: bool
    ) -> list[Question]:
        """The questions of a file."""
        assert isinstance(config, SquadConfig)
        return read_squad(path, config, reader, is_training=is_training)

    def example(self, line: str, reader: Reader, config: TaskConfig) -> Question:
        """A question, a tab and a text; or a JSON object: `question`, `context`, perhaps `id`."""
        question, context, name = _split(line)
        tokens = tuple(reader.tokens(question))
        return Question(Passage.read(context, reader), question, tokens, name=name)

    def sentences(self, example: Question) -> list[Sequence[str]]:
        """The text, read as one sentence, and the question."""
        return [example.passage.tokens, example.tokens]

    def facts(self, examples: Sequence[Question]) -> Facts:
        """Nothing: an answer is a part of its text."""
        return {}

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> BiDaf:
        """A new model."""
        assert isinstance(config, SquadConfig)
        return BiDaf(config, embedding)

    def score(self, examples: Sequence[Question], predictions: Sequence[dict[str, Any]]) -> Metrics:
        """F1 and exact match."""
        return dict(
            answer_scores(
                [example.answers for example in examples],
                [prediction["answer"] for prediction in predictions],
                [example.rules for example in examples],
            )
        )

    def row(self, example: Question, prediction: dict[str, Any]) -> dict[str, Any]:
        """The question, its answer, where that is in the text, and its probability."""
        name = {"id": example.name} if example.name else {}
        return {**name, "question": example.text, **prediction}

    def text(self, example: Question, prediction: dict[str, Any]) -> str:
        """The answer, as one line."""
        return " ".join(prediction["answer"].split("\n"))


def _split(line: str) -> tuple[str, str, str]:
    """Question, text and id of a line; an empty line has none of them."""
    if line.lstrip().startswith("{"):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as e:
            raise InputError(f"{line!r:.60} is not JSON: {e}") from e
        question, context = values.get("question"), values.get("context")
        if isinstance(question, str) and isinstance(context, str):
            return question, context, str(values.get("id", ""))
    elif "\t" in line or not line.strip():
        question, _, context = line.partition("\t")
        return question, context, ""
    raise InputError(
        f"{line!r:.60}: expected a question, a tab and a text, or a JSON object with "
        "'question' and 'context'"
    )
