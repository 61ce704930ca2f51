"""Semantic role labelling: who did what to whom, for each predicate of a sentence.

Frames in, argument scores out. The model is the deep tagger of He et al. (2017; paper, section 4:
SRL). Arguments are counted as by srl-eval.pl, the CoNLL-2005 scorer:

- An argument is right if its label and all of its pieces are.
- A piece C-X belongs to the last X before it: both are one argument, which is right as a whole or
  not at all. Without an X before it, it is an X itself.
- R-X, a reference such as a relative pronoun, is an argument of its own label.
- V, with its pieces C-V, does not count: the predicate is given.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..config import within
from ..errors import FormatError, InputError
from ..files.read import json_field
from ..nn.shapes import Float, Int
from ..text.reader import Reader, parse_marked
from .config import (
    MAX_COUNT,
    MAX_LAYERS,
    MAX_WIDTH,
    ElmoPlacement,
    TaskConfig,
    TrainerConfig,
    WordsConfig,
    below_one,
)
from .parts.crf import decode_bio
from .parts.embedding import TaskEmbedding, TokenBatch
from .parts.encoders import AlternatingLstm
from .parts.lines import json_lines, split_held_out
from .parts.metrics import check_lengths, precision_recall_f1
from .parts.passage import Passage
from .parts.tags import bio_fault, spans
from .results import Argument as FoundArgument
from .results import Result, SrlFrame, SrlResult, TextSpan
from .task import LabelSets, Read, Scores, Task, TaskModel

NOT_COUNTED = "V"
NO_PREDICATE = -1
"""In place of a predicate, where nothing is asked about a sentence."""
_MARKED = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class SrlConfig(TaskConfig):
    """The tagger of He et al. (2017), narrower and shallower.

    The paper's own: `lstm_dim` 300, `lstm_layers` 8, `train.optimizer` adadelta, `train.lr` 1,
    `train.batch_size` 80, `train.epochs` 500, `train.patience` 200 and `train.halve_after` 0.
    """

    elmo: ElmoPlacement = field(default_factory=lambda: ElmoPlacement(dropout=0.1))
    words: WordsConfig = field(
        default_factory=lambda: WordsConfig(char_filters=0, tune_static=True, dropout=0.1)
    )
    train: TrainerConfig = field(default_factory=lambda: TrainerConfig(clip_norm=1.0))
    predicate_dim: int = 100
    """Width of the vector that says whether a token is the predicate."""
    lstm_dim: int = 150
    """Units of each layer; 300 in the paper."""
    lstm_layers: int = 4
    """Layers, the first from left to right, the next from right to left, and so on; 8 there."""
    dropout: float = 0.1
    """Of the states of each layer, the same for all tokens of a sentence."""
    max_frames: int = 0
    """Frames to learn from, at even distances in the file; 0 for all."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, MAX_WIDTH, "predicate_dim", "lstm_dim")
        within(self, 1, MAX_LAYERS, "lstm_layers")
        within(self, 0, MAX_COUNT, "max_frames")
        below_one(self, "dropout")


@dataclass(frozen=True, slots=True)
class Frame:
    """A sentence, one of its predicates, and the BIO tags of that predicate's arguments.

    `source` is the text that it was, if it was one, and `marked` where in it the predicate is.
    """

    tokens: tuple[str, ...]
    predicate: int
    tags: tuple[str, ...]
    source: Passage | None = field(default=None, repr=False, compare=False)
    marked: tuple[int, int] | None = field(default=None, repr=False, compare=False)


def read_frames(path: Path | str) -> list[Frame]:
    """The frames of a file of sentences, one JSON object per line.

    An object has `words` and `frames`; each frame has `pred`, the position of the predicate from 0,
    and `tags`, one BIO tag per word. Sentences without frames give none.
    """
    frames = []
    for where, record in json_lines(path):
        tokens = _words(record, where)
        for i, frame in enumerate(json_field(record, "frames", list, where=where)):
            frames.append(_frame(frame, tokens, f"{where}, frame {i}"))
    if not frames:
        raise InputError(f"{path} has no frames: no sentence has a predicate")
    return frames


def read_predicates(path: Path | str) -> list[list[Frame]]:
    """The predicates of each sentence of such a file, whatever their tags, if they have any."""
    return [
        [
            _unlabelled(tokens, _predicate(frame, tokens, f"{where}, frame {i}"))
            for i, frame in enumerate(json_field(record, "frames", list, where=where))
        ]
        or [_unlabelled(tokens, NO_PREDICATE)]
        for where, record in json_lines(path)
        for tokens in [_words(record, where)]
    ]


def _unlabelled(tokens: tuple[str, ...], predicate: int, source: Passage | None = None) -> Frame:
    return Frame(tokens, predicate, ("O",) * len(tokens), source)


def _words(record: dict[str, Any], where: str) -> tuple[str, ...]:
    tokens = _texts(json_field(record, "words", list, where=where), "words", where)
    if not all(token.strip() for token in tokens):
        blank = next(i for i, token in enumerate(tokens) if not token.strip())
        raise FormatError(f"{where}: word {blank} is empty")
    return tokens


def _predicate(record: Any, tokens: tuple[str, ...], where: str) -> int:
    if not isinstance(record, dict):
        raise FormatError(f"{where}: expected an object with pred and tags, found {record!r:.40}")
    predicate: int = json_field(record, "pred", int, where=where)
    if not 0 <= predicate < len(tokens):
        raise FormatError(f"{where}: pred={predicate}, but the sentence has {len(tokens)} words")
    return predicate


def _frame(record: Any, tokens: tuple[str, ...], where: str) -> Frame:
    predicate = _predicate(record, tokens, where)
    tags = _texts(json_field(record, "tags", list, where=where), "tags", where)
    if len(tags) != len(tokens):
        raise FormatError(f"{where}: found {len(tags)} tags for {len(tokens)} words")
    if fault := bio_fault(tags):
        raise FormatError(f"{where}, word {fault[0]}: {fault[1]}")
    return Frame(tokens, predicate, tags)


def _texts(values: list[Any], name: str, where: str) -> tuple[str, ...]:
    for value in values:
        if not isinstance(value, str):
            raise FormatError(f"{where}: {name} has {value!r:.40}; expected text")
    return tuple(values)


class SrlTagger(TaskModel[Frame, list[str]]):
    """[x; ELMo; is it the predicate?] → alternating highway LSTMs → a softmax over BIO tags.

    It learns each token's tag alone; that tags fit together is up to the decoder.
    """

    def __init__(self, config: SrlConfig, embedding: TaskEmbedding, labels: Sequence[str]) -> None:
        super().__init__()
        self.tags = bio_tags(labels)
        self._ids = {tag: i for i, tag in enumerate(self.tags)}
        self.embedding = embedding
        self.predicate = nn.Embedding(2, config.predicate_dim)
        self.encoder = AlternatingLstm(
            embedding.dim + config.predicate_dim,
            config.lstm_dim,
            config.lstm_layers,
            config.dropout,
        )
        self.scores = nn.Linear(config.lstm_dim + embedding.output_dim, len(self.tags))
        nn.init.orthogonal_(self.scores.weight)
        nn.init.zeros_(self.scores.bias)

    __call__: Callable[..., Tensor]

    def forward(self, batch: TokenBatch, predicates: Int[Tensor, " B"]) -> Float[Tensor, "B T K"]:
        """The scores of the tags of each token.

        Args:
            batch: The sentences.
            predicates: The position of each predicate.
        """
        positions = torch.arange(batch.mask.shape[1], device=batch.mask.device)
        is_predicate = (positions == predicates[:, None]).long()
        x = torch.cat([self.embedding(batch), self.predicate(is_predicate)], dim=-1)
        h = self.encoder(x, batch.mask)
        scores: Tensor = self.scores(self.embedding.at_output(h, batch))
        return scores

    def loss(self, examples: Sequence[Frame], read: Read) -> Tensor:
        """The mean negative log-likelihood of a token's tag."""
        batch, logits = self._read(examples, read)
        tags = [self._ids[tag] for example in examples for tag in example.tags]
        target = torch.tensor(tags, device=logits.device)
        return nn.functional.cross_entropy(logits[batch.mask], target)

    def predict(self, examples: Sequence[Frame], read: Read) -> list[list[str]]:
        """The BIO tags of each frame."""
        batch, logits = self._read(examples, read)
        return [[self.tags[i] for i in path] for path in decode_bio(logits, batch.mask)]

    def _read(self, examples: Sequence[Frame], read: Read) -> tuple[TokenBatch, Tensor]:
        batch = read([example.tokens for example in examples])
        positions = [example.predicate for example in examples]
        return batch, self(batch, torch.tensor(positions, device=batch.mask.device))


def _marked_token(source: Passage, start: int, end: int) -> int | None:
    """The first token of a marked word of several, such as the stem of 태어났다; else None."""
    span = source.cover(start, end)
    if span is None or span.first == span.last or any(map(str.isspace, source.text[start:end])):
        return None
    return span.first if source.characters(span) == (start, end) else None


def bio_tags(labels: Sequence[str]) -> list[str]:
    """The tags in the order of their ids."""
    return ["O", *(f"B-{label}" for label in labels), *(f"I-{label}" for label in labels)]


class Argument(NamedTuple):
    """A label and its pieces, each from its first token to the one after its last."""

    label: str
    pieces: tuple[tuple[int, int], ...]


def arguments(tags: Sequence[str]) -> list[Argument]:
    """The arguments of BIO tags, in the order of their first tokens, V among them.

    Example:
        >>> arguments(["B-ARG1", "B-V", "B-C-ARG1"])
        [Argument(label='ARG1', pieces=((0, 1), (2, 3))), Argument(label='V', pieces=((1, 2),))]
    """
    found: list[Argument] = []
    last: dict[str, int] = {}
    for tag, start, end in spans(tags):
        label = tag.removeprefix("C-")
        if label != tag and label in last:
            head = found[last[label]]
            found[last[label]] = Argument(label, (*head.pieces, (start, end)))
        else:
            last[label] = len(found)
            found.append(Argument(label, ((start, end),)))
    return found


def argument_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """The scores of the BIO tags of frames; what would be 0/0 is 0.

    Returns:
        `precision`, `recall`, `f1` and `support` (arguments in `gold`) of all frames together,
        `perfect`, the fraction of frames without a mistake, and under `labels` the scores of each
        label.
    """
    check_lengths(gold, predicted, "frames")
    num_right, num_predicted, num_gold = Counter[str](), Counter[str](), Counter[str]()
    num_perfect = 0
    for expected, found in zip(gold, predicted, strict=True):
        if len(expected) != len(found):
            raise InputError(f"{len(found)} tags are predicted of {len(expected)}")
        a, b = (
            {arg for arg in arguments(t) if arg.label != NOT_COUNTED} for t in (expected, found)
        )
        num_perfect += a == b
        for counts, counted in ((num_right, a & b), (num_predicted, b), (num_gold, a)):
            counts.update(argument.label for argument in counted)
    labels = sorted({*num_predicted, *num_gold})
    return {
        **precision_recall_f1(num_right.total(), num_predicted.total(), num_gold.total()),
        "perfect": num_perfect / len(gold),
        "labels": {
            label: precision_recall_f1(num_right[label], num_predicted[label], num_gold[label])
            for label in labels
        },
    }


class SrlTask(Task[SrlConfig, Frame, list[str]]):
    """The arguments of given predicates in BIO tags: JSON lines."""

    name: ClassVar[str] = "srl"
    metric: ClassVar[str] = "f1"
    config_class = SrlConfig
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {"jsonl": (".jsonl", ".ndjson")}

    def read(
        self, path: Path, config: SrlConfig, reader: Reader, *, is_training: bool
    ) -> list[Frame]:
        """The frames of a file, or so many of them for training."""
        frames = split_held_out(
            read_frames(path),
            lambda frame: " ".join(frame.tokens),
            config.held_out,
            is_training=is_training,
        )
        if is_training and 0 < config.max_frames < len(frames):
            kept = np.linspace(0, len(frames), config.max_frames, endpoint=False).astype(int)
            frames = [frames[i] for i in kept.tolist()]
        return frames

    def unlabelled(
        self, path: Path, form: str, config: SrlConfig, reader: Reader
    ) -> list[list[Frame]]:
        """The predicates of each sentence of a file."""
        return read_predicates(path)

    def example(self, line: str, reader: Reader, config: SrlConfig) -> Frame:
        """The tokens of a line and the first predicate in brackets."""
        return self.examples(line, reader, config)[0]

    def examples(self, line: str, reader: Reader, config: SrlConfig) -> list[Frame]:
        """A frame for each predicate of a line that is in brackets."""
        if not line.strip():
            return [Frame((), NO_PREDICATE, (), Passage.read(line, reader))]
        text = _MARKED.sub(r"\1", line)
        if text == line or "[" in text or "]" in text:
            raise InputError(
                f"{line!r:.80}: expected predicates in brackets, as in 'She [gave] him a book .'"
            )
        source = Passage.read(text, reader)
        found = []
        for number, match in enumerate(_MARKED.finditer(line)):
            inside = match[1].strip()
            start = match.start(1) + match[1].index(inside) - 2 * number - 1  # without brackets
            end = start + len(inside)
            predicate = _marked_token(source, start, end)
            if predicate is None:
                _, predicate = parse_marked(reader, f"{text[:start]}[{inside}]{text[end:]}")
            frame = _unlabelled(source.tokens, predicate, source)
            found.append(replace(frame, marked=(start, end)))
        return found

    def has_words(self, example: Frame) -> bool:
        """Whether there is a predicate to ask about."""
        return bool(example.tokens) and example.predicate != NO_PREDICATE

    def sentences(self, example: Frame) -> list[Sequence[str]]:
        return [example.tokens]

    def label_sets(self, examples: Sequence[Frame]) -> LabelSets:
        """The labels of the arguments."""
        labels = {tag[2:] for example in examples for tag in example.tags if tag != "O"}
        if not labels - {"V"}:
            raise FormatError("the training data have no argument: all tags are O or V")
        return {"labels": sorted(labels)}

    def model(
        self, config: SrlConfig, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> SrlTagger:
        return SrlTagger(config, embedding, label_sets["labels"])

    def score(self, examples: Sequence[Frame], predictions: Sequence[list[str]]) -> Scores:
        """Precision, recall and F1 of the arguments."""
        return argument_scores([example.tags for example in examples], predictions)

    def result(self, example: Frame, prediction: list[str] | None) -> Result:
        """The predicate and its arguments, and where they are in the text."""
        source = example.source or Passage.of_tokens(example.tokens)
        frames = []
        if prediction is not None:
            arguments = []
            for label, first, stop in spans(prediction):
                if label != NOT_COUNTED:
                    text, start, end = source.piece(first, stop)
                    arguments.append(FoundArgument(text, label, start, end))
            place = example.predicate
            start, end = example.marked or source.piece(place, place + 1)[1:]
            predicate = TextSpan(source.text[start:end], start, end)
            frames.append(SrlFrame(predicate, tuple(arguments), tuple(prediction)))
        return SrlResult(
            task=self.name, text=source.text, frames=tuple(frames), tokens=source.tokens
        )

    def joined(self, results: Sequence[Result]) -> Result:
        """The frames of a text together."""
        every = [result for result in results if isinstance(result, SrlResult)]
        return replace(every[0], frames=tuple(f for result in every for f in result.frames))

    def as_text(self, example: Frame, prediction: list[str]) -> str:
        """The sentence with its labelled spans in brackets, such as [ARG0 She] [V gave] …"""
        pieces: list[str] = []
        at = 0
        for label, start, end in spans(prediction):
            pieces += example.tokens[at:start]
            pieces.append(f"[{label} {' '.join(example.tokens[start:end])}]")
            at = end
        return " ".join([*pieces, *example.tokens[at:]])
