"""Summaries out of a text's own sentences: documents in, their k best sentences out.

A sentence is the mean and the maximum of its tokens' [x; ELMo]; a small network compares it with
the document and says how well it would do as the summary. The first k sentences (lead-k) are the
baseline that is scored beside it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor, nn

from ..config import within
from ..errors import FormatError, InputError, quoted
from ..nn.shapes import Float, Int
from ..text.normalize import without_surrogates
from ..text.reader import Reader
from .config import MAX_COUNT, MAX_WIDTH, TaskConfig, TrainerConfig, WordsConfig, below_one
from .parts.embedding import TaskEmbedding
from .parts.generation_metrics import ROUGE_TYPES, rouge_of_tokens, summary_scores
from .parts.lines import json_lines, json_object, split_held_out
from .parts.text_pairs import field_of, targets_of
from .results import ExtractResult, Result, ScoredSentence
from .snli import pooled
from .task import LabelSets, Read, Scores, Task, TaskModel

NUM_POSITIONS = 4
"""Numbers that say where a sentence stands, and how long it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractConfig(TaskConfig):
    """A classifier of sentences, each beside its document."""

    words: WordsConfig = field(default_factory=lambda: WordsConfig(char_filters=0, dropout=0.25))
    train: TrainerConfig = field(
        default_factory=lambda: TrainerConfig(batch_size=16, epochs=20, patience=4, halve_after=1)
    )
    num_sentences: int = 1
    """How many sentences a summary has: the k of lead-k."""
    dim: int = 128
    dropout: float = 0.3

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, MAX_WIDTH, "dim")
        within(self, 1, MAX_COUNT, "num_sentences")
        below_one(self, "dropout")


@dataclass(frozen=True, slots=True)
class Document:
    """A text in sentences, without those that have no tokens.

    Attributes:
        text: The whole text.
        offsets: Where each sentence begins and ends in it.
        tokens: The tokens of each sentence.
        targets: The summaries that people wrote, if they are known.
        is_best: Whether each sentence is one of the best to extract, if that is known.
    """

    text: str
    offsets: tuple[tuple[int, int], ...]
    tokens: tuple[tuple[str, ...], ...]
    targets: tuple[str, ...] = ()
    is_best: tuple[bool, ...] = ()

    def sentence(self, i: int) -> str:
        """The text of a sentence."""
        start, end = self.offsets[i]
        return self.text[start:end]


class Extraction(TypedDict):
    """The sentences chosen, in the order of the text, and the probability of each sentence."""

    chosen: list[int]
    probabilities: list[float]


def read_documents(path: Path | str, reader: Reader) -> list[Document]:
    """The documents of a file with one JSON object per line, with their summaries.

    An object has `target` or `targets`, and the text: `source`, or its `sentences` one by one.
    `labels` says with 1 and 0 which sentences are the best to extract; by default it is the one
    with the best ROUGE.
    """
    return [_labelled(record, where, reader) for where, record in json_lines(path)]


def _labelled(record: Mapping[str, Any], where: str, reader: Reader) -> Document:
    """A document with its summaries."""
    targets = tuple(targets_of(record, "target", where))
    document, kept = _document(record, where, reader)
    labels = _labels(record, where)
    is_best = [bool(labels[i]) for i in kept] if labels is not None else []
    if not any(is_best):
        is_best = best_sentences(document.tokens, [reader.tokens(target) for target in targets])
    return replace(document, targets=targets, is_best=tuple(is_best))


def _document(record: Mapping[str, Any], where: str, reader: Reader) -> tuple[Document, list[int]]:
    """A document without its summaries, and which of its sentences have tokens."""
    text, offsets = _text_and_sentences(record, where, reader)
    tokens = [tuple(reader.tokens(text[start:end])) for start, end in offsets]
    kept = [i for i, words in enumerate(tokens) if words]
    return Document(text, tuple(offsets[i] for i in kept), tuple(tokens[i] for i in kept)), kept


def _text_and_sentences(
    record: Mapping[str, Any], where: str, reader: Reader
) -> tuple[str, list[tuple[int, int]]]:
    """The text of an object, and where its sentences begin and end."""
    if "sentences" not in record:
        text = field_of(record, "source", where, "sentences")
        if not isinstance(text, str):
            raise FormatError(f"{where}: the source is {quoted(text)}; expected text")
        text = without_surrogates(text)
        return text, sentence_offsets(text, reader)
    sentences = record["sentences"]
    if not isinstance(sentences, list) or not all(isinstance(s, str) for s in sentences):
        raise FormatError(f"{where}: sentences={quoted(sentences)}; expected a list of texts")
    sentences = [without_surrogates(sentence) for sentence in sentences]
    # Each ends where the next begins, but for the space between them.
    starts = [0, *accumulate(len(sentence) + 1 for sentence in sentences)]
    return " ".join(sentences), [(start, end - 1) for start, end in pairwise(starts)]


def sentence_offsets(text: str, reader: Reader) -> list[tuple[int, int]]:
    """Where the sentences of a text begin and end, as the reader splits it."""
    found = reader.spans_of_sentences(text, "split")
    return [(min(t.start for t in s), max(t.end for t in s)) for s in found if s]


def _labels(record: Mapping[str, Any], where: str) -> list[int] | None:
    """A 1 for each of the `sentences` that is one of the best, 0 for the others; or None."""
    if "sentences" not in record or "labels" not in record:
        return None
    labels, number = record["labels"], len(record["sentences"])
    is_list = isinstance(labels, list) and len(labels) == number
    if not is_list or not all(type(x) is int and x in (0, 1) for x in labels):
        raise FormatError(
            f"{where}: labels={quoted(labels)}; expected 0 or 1 for each of {number} sentences"
        )
    return list(labels)


def best_sentences(tokens: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[bool]:
    """Which sentence is the most like one of the targets, by the sum of the three ROUGE scores."""
    lower = [[token.lower() for token in target] for target in targets]
    values = [
        max(sum(rouge_of_tokens([t.lower() for t in words], target)) for target in lower)
        for words in tokens
    ]
    best = max(range(len(values)), key=values.__getitem__, default=-1)
    return [i == best for i in range(len(values))]


class SentenceScorer(TaskModel[Document, Extraction]):
    """How good a summary each sentence is, from its vector, the document's, and its place."""

    def __init__(self, config: ExtractConfig, embedding: TaskEmbedding) -> None:
        super().__init__()
        self.embedding, self.num_sentences = embedding, config.num_sentences
        self.sentence = nn.Linear(2 * (embedding.dim + embedding.output_dim), config.dim)
        self.hidden = nn.Linear(3 * config.dim + NUM_POSITIONS, config.dim)
        self.score = nn.Linear(config.dim, 1)
        self.dropout = nn.Dropout(config.dropout)

    __call__: Callable[..., Tensor]

    def forward(self, examples: Sequence[Document], read: Read) -> Float[Tensor, " N"]:
        """The scores of the sentences of all documents, one after the other."""
        batch = read([tokens for example in examples for tokens in example.tokens])
        x = self.embedding.at_output(self.embedding(batch), batch)
        vectors = torch.cat(pooled(x, batch.mask), dim=-1)
        s = torch.relu(self.sentence(self.dropout(vectors)))
        sizes = torch.tensor([len(example.tokens) for example in examples], device=s.device)
        d = _document_means(s, sizes)
        places = torch.tensor([p for e in examples for p in _places(e)], device=s.device)
        h = torch.cat([s, d, s * d, places.to(s.dtype)], dim=-1)
        scores: Tensor = self.score(self.dropout(torch.relu(self.hidden(h)))).squeeze(-1)
        return scores

    def loss(self, examples: Sequence[Document], read: Read) -> Tensor:
        """The cross-entropy of the best sentences among those of their document."""
        losses = []
        for scores, example in zip(self._by_document(examples, read), examples, strict=True):
            is_best = torch.tensor(example.is_best, device=scores.device)
            losses.append(-scores.log_softmax(dim=0)[is_best].mean())
        return torch.stack(losses).mean()

    def predict(self, examples: Sequence[Document], read: Read) -> list[Extraction]:
        """The best sentences of each document; of equal ones, the first."""
        found: list[Extraction] = []
        for scores in self._by_document(examples, read):
            probabilities = scores.softmax(dim=0).tolist()
            order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])
            chosen = sorted(order[: self.num_sentences])
            found.append({"chosen": chosen, "probabilities": probabilities})
        return found

    def _by_document(self, examples: Sequence[Document], read: Read) -> tuple[Tensor, ...]:
        sizes = [len(example.tokens) for example in examples]
        return torch.split(self(examples, read), sizes)


def _document_means(s: Float[Tensor, "N D"], sizes: Int[Tensor, " B"]) -> Float[Tensor, "N D"]:
    """For each sentence, the mean of all sentences of its document."""
    sums = torch.stack([part.mean(dim=0) for part in torch.split(s, sizes.tolist())])
    return sums.repeat_interleave(sizes, dim=0)


def _places(example: Document) -> Iterator[list[float]]:
    """For each sentence: whether it is the first or the last, how far down, and how long."""
    last = len(example.tokens) - 1
    for i, tokens in enumerate(example.tokens):
        yield [float(i == 0), float(i == last), i / max(1, last), min(1.0, len(tokens) / 50)]


class ExtractTask(Task[ExtractConfig, Document, Extraction]):
    """The k best sentences of each document: JSON lines."""

    name: ClassVar[str] = "extract"
    metric: ClassVar[str] = "rougeL"
    config_class = ExtractConfig
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {"jsonl": (".jsonl", ".ndjson")}

    def read(
        self, path: Path, config: ExtractConfig, reader: Reader, *, is_training: bool
    ) -> list[Document]:
        """The documents of a file, with their summaries."""
        return split_held_out(
            read_documents(path, reader),
            lambda document: document.text,
            config.held_out,
            is_training=is_training,
        )

    def example(self, line: str, reader: Reader, config: ExtractConfig) -> Document:
        """A line of text, or a JSON object with `source` or `sentences`."""
        record = json_object(line) or {}
        if not record.keys() & {"source", "sentences"}:
            record = {"source": line}
        try:
            return _document(record, "the object", reader)[0]
        except FormatError as e:
            raise InputError(str(e)) from e

    def line(self, texts: Sequence[str], config: ExtractConfig) -> str:
        """The object with this text, which may have line breaks or look like an object itself."""
        return json.dumps({"source": texts[0]})

    def unlabelled(
        self, path: Path, form: str, config: ExtractConfig, reader: Reader
    ) -> list[list[Document]]:
        """The documents of a file, those without a summary too."""
        return [[_document(record, where, reader)[0]] for where, record in json_lines(path)]

    def sentences(self, example: Document) -> list[Sequence[str]]:
        return list(example.tokens)

    def has_words(self, example: Document) -> bool:
        return bool(example.tokens)

    def text(self, example: Document) -> str:
        return example.text

    def model(
        self, config: ExtractConfig, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> SentenceScorer:
        return SentenceScorer(config, embedding)

    def score(self, examples: Sequence[Document], predictions: Sequence[Extraction]) -> Scores:
        """ROUGE of the sentences chosen, of as many first ones (`lead`) and of the `labelled`.

        The labelled sentences are what the scorer learns to choose.
        """
        targets = [example.targets for example in examples]
        pairs = list(zip(examples, predictions, strict=True))
        scores = summary_scores([_summary(e, p["chosen"]) for e, p in pairs], targets)
        others = {
            "lead": [_summary(e, range(len(p["chosen"]))) for e, p in pairs],
            "labelled": [_summary(e, [i for i, x in enumerate(e.is_best) if x]) for e in examples],
        }
        for name, texts in others.items():
            found = summary_scores(texts, targets)
            scores[name] = {kind: found[kind] for kind in ROUGE_TYPES}
        return scores

    def result(self, example: Document, prediction: Extraction | None) -> Result:
        """The summary, and the sentences that it is made of."""
        if prediction is None:
            return ExtractResult(task=self.name, text=example.text)
        sentences = tuple(
            ScoredSentence(example.sentence(i), *example.offsets[i], prediction["probabilities"][i])
            for i in prediction["chosen"]
        )
        summary = _summary(example, prediction["chosen"])
        return ExtractResult(
            task=self.name, text=example.text, summary=summary, sentences=sentences
        )

    def as_text(self, example: Document, prediction: Extraction) -> str:
        """The summary on one line."""
        return " ".join(_summary(example, prediction["chosen"]).split())


def _summary(example: Document, chosen: Sequence[int]) -> str:
    return " ".join(map(example.sentence, chosen))
