"""Named entities: tagged sentences in, span scores out (paper, section 4: NER).

The model is the biLSTM-CRF tagger.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..config import within
from ..errors import FormatError
from ..nn.shapes import Float
from ..text.reader import Reader
from .config import MAX_LAYERS, MAX_WIDTH, ElmoPlacement, TaskConfig, below_one
from .parts.conll import TaggedSentence, read_columns, read_klue, read_tagged
from .parts.crf import Crf, bioul_transitions
from .parts.embedding import TaskEmbedding, TokenBatch
from .parts.encoders import BiLstm
from .parts.lines import split_held_out
from .parts.metrics import require_libraries, span_scores
from .parts.passage import Passage
from .parts.tags import bio_to_bioul, bioul_to_bio, spans
from .results import Entity, NerResult, Result
from .task import LabelSets, Read, Scores, Task, TaskModel


@dataclass(frozen=True, kw_only=True, slots=True)
class NerConfig(TaskConfig):
    """The biLSTM-CRF tagger: two biLSTM layers over [x; ELMo], then a CRF."""

    elmo: ElmoPlacement = field(default_factory=lambda: ElmoPlacement(l2=0.1))
    lstm_dim: int = 200
    lstm_layers: int = 2
    dropout: float = 0.5

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, MAX_WIDTH, "lstm_dim")
        within(self, 1, MAX_LAYERS, "lstm_layers")
        below_one(self, "dropout")


class ScoredTags(list[str]):
    """BIO tags of a sentence, and the probability of each of its spans.

    `find_scores` is asked for these only when they are wanted: an evaluation needs none.
    """

    def __init__(self, tags: Iterable[str], find_scores: Callable[[], Sequence[float]]) -> None:
        super().__init__(tags)
        self._find_scores = find_scores

    @property
    def scores(self) -> Sequence[float]:
        """The probability of each span, from left to right."""
        return self._find_scores()


class NerTagger(TaskModel[TaggedSentence, ScoredTags]):
    """[x; ELMo] → biLSTM layers → scores of the tags → a CRF over the sentence.

    It reads and gives BIO tags; inside it scores BIOUL tags, with the transitions that make no
    sense ruled out.
    """

    def __init__(self, config: NerConfig, embedding: TaskEmbedding, types: Sequence[str]) -> None:
        super().__init__()
        self.tags = ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BILU")]
        self.embedding = embedding
        self.encoder = BiLstm(embedding.dim, config.lstm_dim, config.lstm_layers, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.scores = nn.Linear(self.encoder.dim + embedding.output_dim, len(self.tags))
        self.crf = Crf(len(self.tags), bioul_transitions(self.tags))
        self._ids = {tag: i for i, tag in enumerate(self.tags)}

    __call__: Callable[..., Tensor]

    def forward(self, batch: TokenBatch) -> Float[Tensor, "B T K"]:
        """The scores of the BIOUL tags of each token."""
        h = self.encoder(self.embedding(batch), batch.mask)
        scores: Tensor = self.scores(self.embedding.at_output(self.dropout(h), batch))
        return scores

    def loss(self, examples: Sequence[TaggedSentence], read: Read) -> Tensor:
        """The mean negative log-likelihood of the sentences' tags."""
        batch = read([example.tokens for example in examples])
        tags = torch.zeros_like(batch.mask, dtype=torch.long)
        tags[batch.mask] = torch.tensor(
            [self._ids[tag] for example in examples for tag in bio_to_bioul(example.tags)],
            device=tags.device,
        )
        return -self.crf.log_likelihood(self(batch), tags, batch.mask).mean()

    def predict(self, examples: Sequence[TaggedSentence], read: Read) -> list[ScoredTags]:
        """The BIO tags of each sentence, and how probable its entities are."""
        batch = read([example.tokens for example in examples])
        logits = self(batch)
        paths = self.crf.decode(logits, batch.mask)
        tags = [bioul_to_bio([self.tags[i] for i in path]) for path in paths]
        pieces = [[(start, end) for _, start, end in spans(row)] for row in tags]
        every = cache(lambda: self.crf.span_probabilities(logits, batch.mask, paths, pieces))

        def scores_of(i: int) -> Sequence[float]:
            return every()[i]

        return [ScoredTags(row, partial(scores_of, i)) for i, row in enumerate(tags)]


class NerTask(Task[NerConfig, TaggedSentence, ScoredTags]):
    """Entities in BIO tags: CoNLL columns, IOB2 or KLUE's character tags."""

    name: ClassVar[str] = "ner"
    metric: ClassVar[str] = "f1"
    config_class = NerConfig
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "conll": (".conll", ".iob", ".iob2", ".bio", ".tsv"),
        "klue": (".tsv",),
    }

    def read(
        self, path: Path, config: NerConfig, reader: Reader, *, is_training: bool
    ) -> list[TaggedSentence]:
        """The sentences of a file."""
        require_libraries()
        sentences = read_tagged(path, tokenizer=reader.spans)
        return split_held_out(
            sentences, lambda s: " ".join(s.tokens), config.held_out, is_training=is_training
        )

    def unlabelled(
        self, path: Path, form: str, config: NerConfig, reader: Reader
    ) -> list[list[TaggedSentence]]:
        """The sentences of a file; CoNLL's may have no tags."""
        if form == "klue":
            found = read_klue(path, reader.spans, labelled=False)
        else:
            found = read_columns(path, labelled=False)
        return [[sentence] for sentence in found]

    def example(self, line: str, reader: Reader, config: NerConfig) -> TaggedSentence:
        """The tokens of a line, without tags."""
        source = Passage.read(line, reader)
        return TaggedSentence(source.tokens, ("O",) * len(source.tokens), source)

    def sentences(self, example: TaggedSentence) -> list[Sequence[str]]:
        return [example.tokens]

    def label_sets(self, examples: Sequence[TaggedSentence]) -> LabelSets:
        """The entity types."""
        types = {tag[2:] for example in examples for tag in example.tags if tag != "O"}
        if not types:
            raise FormatError("the training data have no entity: all tags are O")
        return {"types": sorted(types)}

    def model(
        self, config: NerConfig, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> NerTagger:
        return NerTagger(config, embedding, label_sets["types"])

    def score(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[ScoredTags]
    ) -> Scores:
        """Precision, recall and F1 of the entities."""
        return dict(span_scores([list(e.tags) for e in examples], list(predictions)))

    def result(self, example: TaggedSentence, prediction: ScoredTags | None) -> Result:
        """The entities, where they are in the text, and how probable they are."""
        source = example.source or Passage.of_tokens(example.tokens)
        tags = prediction or ScoredTags((), tuple)
        entities = []
        for (label, first, stop), score in zip(spans(tags), tags.scores, strict=True):
            text, start, end = source.piece(first, stop)
            entities.append(Entity(text, label, start, end, score))
        return NerResult(
            task=self.name,
            text=source.text,
            entities=tuple(entities),
            tokens=source.tokens,
            tags=tuple(tags),
        )

    def as_text(self, example: TaggedSentence, prediction: ScoredTags) -> str:
        """A token and its tag per line, as in CoNLL's files; an empty line ends the sentence."""
        pairs = zip(example.tokens, prediction, strict=True)
        return "".join(f"{token}\t{tag}\n" for token, tag in pairs)
