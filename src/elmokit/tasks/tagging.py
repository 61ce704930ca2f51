"""Named entities as a task: tagged sentences in, span scores out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..errors import FormatError
from ..text.reader import Reader
from .config import NerConfig, TaskConfig
from .data.examples import TaggedSentence
from .data.held_out import one_side, text_of
from .data.tagging import read_tagged
from .embedding import TaskEmbedding
from .metrics import require_libraries, span_scores
from .ner import NerTagger
from .task import Facts, Metrics


class NerTask:
    """Entities in BIO tags: CoNLL columns, IOB2 or KLUE's character tags."""

    name: ClassVar[str] = "ner"
    metric: ClassVar[str] = "f1"
    config_class: ClassVar[type[TaskConfig]] = NerConfig

    def read(
        self, path: Path, config: TaskConfig, reader: Reader, *, is_training: bool
    ) -> list[TaggedSentence]:
        """The sentences of a file."""
        require_libraries()
        sentences = read_tagged(path, tokenizer=reader.spans)
        return one_side(
            sentences, lambda s: text_of(s.tokens), config.held_out, is_training=is_training
        )

    def example(self, line: str, reader: Reader, config: TaskConfig) -> TaggedSentence:
        """The tokens of a line, without tags."""
        tokens = tuple(reader.tokens(line))
        return TaggedSentence(tokens, ("O",) * len(tokens))

    def sentences(self, example: TaggedSentence) -> list[Sequence[str]]:
        """The sentence itself."""
        return [example.tokens]

    def facts(self, examples: Sequence[TaggedSentence]) -> Facts:
        """The entity types."""
        types = {tag[2:] for example in examples for tag in example.tags if tag != "O"}
        if not types:
            raise FormatError("the training data have no entity: all tags are O")
        return {"types": sorted(types)}

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> NerTagger:
        """A new tagger."""
        assert isinstance(config, NerConfig)
        return NerTagger(config, embedding, facts["types"])

    def score(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[list[str]]
    ) -> Metrics:
        """Precision, recall and F1 of the entities."""
        return dict(span_scores([list(e.tags) for e in examples], list(predictions)))

    def row(self, example: TaggedSentence, prediction: list[str]) -> dict[str, Any]:
        """Tokens and tags."""
        return {"tokens": list(example.tokens), "tags": prediction}

    def text(self, example: TaggedSentence, prediction: list[str]) -> str:
        """A token and its tag a line, as in CoNLL's files; an empty line ends the sentence."""
        pairs = zip(example.tokens, prediction, strict=True)
        return "".join(f"{token}\t{tag}\n" for token, tag in pairs)
