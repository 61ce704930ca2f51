"""Coreference as a task: documents with clusters in, CoNLL F1 out.

The scores are MUC, B³, CEAFφ4 and their mean, as the CoNLL scorer counts them. Each metric sums
numerators and denominators over documents before it divides (Pradhan et al. 2014, "Scoring
coreference partitions of predicted mentions"). A mention is right if both of its ends are. What
would be 0/0 is 0. Clusters of one mention count as they come: B³ and CEAFφ4 see them, MUC does not,
having no links in them.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ...errors import FormatError, InputError, MissingExtra
from ...text.reader import Reader
from ...text.sentences import split_sentences
from ..parts.embedding import TaskEmbedding
from ..parts.lines import split_held_out
from ..parts.passage import Passage
from ..results import CorefResult, Result, TextSpan
from ..task import LabelSets, Scores, Task
from .document import Cluster, CorefDocument, bracketed, read_documents
from .model import CorefConfig, CorefModel

Clusters: TypeAlias = Sequence[Sequence[Hashable]]
Tally: TypeAlias = tuple[float, float]
"""What a metric adds for a document: right, of how many."""


class CorefTask(Task[CorefConfig, CorefDocument, list[Cluster]]):
    """Which mentions of a document mean the same: CoNLL files, or a folder of them."""

    name: ClassVar[str] = "coref"
    metric: ClassVar[str] = "f1"
    config_class = CorefConfig
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {"conll": (".conll", "_conll")}

    def read(
        self, path: Path, config: CorefConfig, reader: Reader, *, is_training: bool
    ) -> list[CorefDocument]:
        """The documents, without singletons unless `config` keeps them."""
        require_libraries()
        every = read_documents(path)
        documents = split_held_out(
            every, lambda d: d.name, config.held_out, is_training=is_training
        )
        if config.singletons:
            return documents
        return [document.without_singletons() for document in documents]

    def unlabelled(
        self, path: Path, form: str, config: CorefConfig, reader: Reader
    ) -> list[list[CorefDocument]]:
        """The documents of a file."""
        return [[document] for document in read_documents(path, labelled=False)]

    def example(self, line: str, reader: Reader, config: CorefConfig) -> CorefDocument:
        """A line of running text as a document of sentences."""
        sentences, offsets, end = [], [], 0
        for sentence in split_sentences(line):
            start = line.index(sentence, end)
            end = start + len(sentence)
            tokens = reader.spans(sentence)
            if tokens:
                sentences.append(tuple(token.text for token in tokens))
                offsets += [(start + token.start, start + token.end) for token in tokens]
        every = tuple(token for tokens in sentences for token in tokens)
        # An empty sentence marks a document without words.
        return CorefDocument(
            "", tuple(sentences) or ((),), source=Passage(line, every, tuple(offsets))
        )

    def sentences(self, example: CorefDocument) -> list[Sequence[str]]:
        return list(example.sentences)

    def label_sets(self, examples: Sequence[CorefDocument]) -> LabelSets:
        """Nothing; but there must be something to learn."""
        if not any(example.clusters for example in examples):
            raise FormatError("the training data have no clusters of two or more mentions")
        return {}

    def model(
        self, config: CorefConfig, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> CorefModel:
        return CorefModel(config, embedding)

    def score(
        self, examples: Sequence[CorefDocument], predictions: Sequence[list[Cluster]]
    ) -> Scores:
        """MUC, B³, CEAFφ4 and the mean of their F1."""
        return coref_scores([example.clusters for example in examples], predictions)

    def result(self, example: CorefDocument, prediction: list[Cluster] | None) -> Result:
        """The clusters, and where their mentions are in the text."""
        source = example.source or Passage.of_tokens(example.tokens)
        clusters = tuple(
            tuple(TextSpan(*source.piece(first, stop)) for first, stop in cluster)
            for cluster in prediction or ()
        )
        return CorefResult(
            task=self.name, text=source.text, clusters=clusters, tokens=source.tokens
        )

    def as_text(self, example: CorefDocument, prediction: list[Cluster]) -> str:
        """One sentence per line, mentions in brackets with the numbers of their clusters."""
        return "".join(f"{line}\n" for line in bracketed(example.sentences, prediction))


def coref_scores(gold: Sequence[Clusters], predicted: Sequence[Clusters]) -> dict[str, Any]:
    """The scores over documents.

    Args:
        gold: The clusters of each document, of mentions of any kind.
        predicted: The clusters that were found in it.

    Returns:
        `f1`, the mean of the three F1 (CoNLL F1); under `metrics` the precision, recall and F1 of
        `muc`, `b3` and `ceaf`, and of `mentions` on their own.
    """
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} documents are to be scored, {len(predicted)} are predicted")
    if not gold:
        raise InputError("there are no documents to score")
    pairs = [(_distinct(a), _distinct(b)) for a, b in zip(gold, predicted, strict=True)]
    scores = {
        "muc": _both_ways(pairs, muc),
        "b3": _both_ways(pairs, b_cubed),
        "ceaf": _both_ways(pairs, ceaf),
    }
    average = sum(score["f1"] for score in scores.values()) / len(scores)
    return {"f1": average, "metrics": scores | {"mentions": _both_ways(pairs, mentions)}}


def muc(key: Clusters, response: Clusters) -> Tally:
    """Links of the key that the response has: |K| less the parts that K falls into, of |K| - 1."""
    cluster_of = _cluster_of(response)
    right = total = 0
    for cluster in key:
        known = {cluster_of[m] for m in cluster if m in cluster_of}
        num_parts = len(known) + sum(m not in cluster_of for m in cluster)
        right += len(cluster) - num_parts
        total += len(cluster) - 1
    return right, total


def b_cubed(key: Clusters, response: Clusters) -> Tally:
    """For each mention of the key, the fraction of its cluster that the response puts with it."""
    cluster_of = _cluster_of(response)
    right, total = 0.0, 0
    for cluster in key:
        common = Counter(cluster_of[m] for m in cluster if m in cluster_of)
        right += sum(count**2 for count in common.values()) / len(cluster)
        total += len(cluster)
    return right, total


def ceaf(key: Clusters, response: Clusters) -> Tally:
    """φ4(K, R) = 2|K ∩ R| / (|K| + |R|) under the best one-to-one matching of the clusters."""
    if not (key and response):
        return 0.0, len(key)
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as e:
        raise MissingExtra("tasks", "scipy") from e
    cluster_of = _cluster_of(response)
    similarity = np.zeros((len(key), len(response)))
    for i, cluster in enumerate(key):
        for j, count in Counter(cluster_of[m] for m in cluster if m in cluster_of).items():
            similarity[i, j] = 2 * count / (len(cluster) + len(response[j]))
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return float(similarity[rows, columns].sum()), len(key)


def require_libraries() -> None:
    """Refuse where a library is missing: before a training, not after its first epoch."""
    ceaf(["a"], ["a"])


def mentions(key: Clusters, response: Clusters) -> Tally:
    """Mentions of the key that the response has."""
    found = _cluster_of(response)
    of_key = [m for cluster in key for m in cluster]
    return sum(m in found for m in of_key), len(of_key)


def _both_ways(
    pairs: Iterable[tuple[Clusters, Clusters]], metric: Callable[[Clusters, Clusters], Tally]
) -> dict[str, float]:
    """Recall, precision with key and response exchanged, and their F1."""
    totals = np.zeros(4)
    for key, response in pairs:
        totals += (*metric(key, response), *metric(response, key))
    recall, precision = _ratio(totals[0], totals[1]), _ratio(totals[2], totals[3])
    f1 = _ratio(2 * precision * recall, precision + recall)
    return {"precision": precision, "recall": recall, "f1": f1}


def _ratio(right: float, total: float) -> float:
    return float(right / total) if total else 0.0


def _cluster_of(clusters: Clusters) -> dict[Hashable, int]:
    return {mention: i for i, cluster in enumerate(clusters) for mention in cluster}


def _distinct(clusters: Clusters) -> Clusters:
    """The clusters, none of which is empty; an error for a mention of two."""
    counts = Counter(mention for cluster in clusters for mention in cluster)
    for mention, count in counts.items():
        if count > 1:
            raise InputError(f"the mention {mention!r:.40} is in the clusters {count} times")
    return [cluster for cluster in clusters if cluster]
