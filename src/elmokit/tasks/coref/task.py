"""Coreference as a task: documents with clusters in, CoNLL F1 out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...errors import FormatError
from ...text.reader import Reader
from ...text.sentences import split_sentences
from ..config import TaskConfig
from ..data.held_out import one_side
from ..embedding import TaskEmbedding
from ..task import Facts, Metrics
from .clusters import bracketed
from .config import CorefConfig
from .data import Cluster, CorefDocument, read_documents
from .metrics import coref_scores, require_libraries
from .model import CorefModel


class CorefTask:
    """Which mentions of a document mean the same: CoNLL files, or a folder of them."""

    name: ClassVar[str] = "coref"
    metric: ClassVar[str] = "f1"
    config_class: ClassVar[type[TaskConfig]] = CorefConfig

    def read(
        self, path: Path, config: TaskConfig, reader: Reader, *, is_training: bool
    ) -> list[CorefDocument]:
        """The documents, without singletons unless they are wanted."""
        assert isinstance(config, CorefConfig)
        require_libraries()
        every = read_documents(path)
        documents = one_side(every, lambda d: d.name, config.held_out, is_training=is_training)
        if config.singletons:
            return documents
        return [document.without_singletons() for document in documents]

    def example(self, line: str, reader: Reader, config: TaskConfig) -> CorefDocument:
        """A line of running text as a document of sentences."""
        sentences = [tuple(reader.tokens(sentence)) for sentence in split_sentences(line)]
        # An empty sentence marks a document without words.
        return CorefDocument("", tuple(s for s in sentences if s) or ((),))

    def sentences(self, example: CorefDocument) -> list[Sequence[str]]:
        """The sentences of the document."""
        return list(example.sentences)

    def facts(self, examples: Sequence[CorefDocument]) -> Facts:
        """Nothing; but there must be something to learn."""
        if not any(example.clusters for example in examples):
            raise FormatError("the training data have no clusters of two or more mentions")
        return {}

    def model(self, config: TaskConfig, facts: Facts, embedding: TaskEmbedding) -> CorefModel:
        """A new model."""
        assert isinstance(config, CorefConfig)
        return CorefModel(config, embedding)

    def score(
        self, examples: Sequence[CorefDocument], predictions: Sequence[list[Cluster]]
    ) -> Metrics:
        """MUC, B³, CEAFφ4 and the mean of their F1."""
        return coref_scores([example.clusters for example in examples], predictions)

    def row(self, example: CorefDocument, prediction: list[Cluster]) -> dict[str, Any]:
        """The tokens, and the clusters as [first token, the one after the last, text]."""
        tokens = example.tokens
        clusters = [
            [[start, end, " ".join(tokens[start:end])] for start, end in cluster]
            for cluster in prediction
        ]
        return {"tokens": tokens, "clusters": clusters}

    def text(self, example: CorefDocument, prediction: list[Cluster]) -> str:
        """A sentence a line, mentions in brackets with the numbers of their clusters."""
        return "".join(f"{line}\n" for line in bracketed(example.sentences, prediction))
