"""Tasks that write text: what `translate` and `summarise` share.

Source and target are subword units. Each source unit carries its own embedding and the ELMo vector
of its word, so that a model with ELMo and one without read the same units. Shapes: B texts,
S source units, T target units, X width of the encoder's input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn

from ...config import Config, within
from ...errors import ConfigError, FormatError, InputError, import_extra
from ...files.read import json_field
from ...nn.shapes import Bool, Float, Int
from ...text.normalize import normalize
from ...text.reader import Reader
from ..config import (
    MAX_LAYERS,
    MAX_WIDTH,
    ElmoPlacement,
    TaskConfig,
    TrainerConfig,
    WordsConfig,
    below_one,
)  # fmt: skip
from ..results import Alignment, ScoredText
from ..task import LabelSets, Read, Task, TaskModel
from .beam_search import Hypothesis, beam_search, greedy_search
from .embedding import TaskEmbedding, TokenBatch
from .lines import json_lines, split_held_out, table_rows
from .passage import Passage
from .seq2seq import Seq2Seq, drop_units, smoothed_loss
from .text_pairs import TextPair, read_text_pairs, with_all_targets
from .units import EXTRA, MAX_UNITS, Units

JOINT, SOURCE, TARGET = "units.model", "source-units.model", "target-units.model"

SIZES: tuple[tuple[int, dict[str, Any]], ...] = (
    (2_000, {"units": 500, "embed_dim": 128, "dim": 256, "layers": 1, "dropout": 0.5,
             "word_dropout": 0.3, "smoothing": 0.2, "batch_units": 500}),
    (6_000, {"units": 1_000, "embed_dim": 128, "dim": 256, "layers": 1, "dropout": 0.5,
             "word_dropout": 0.3, "smoothing": 0.2, "batch_units": 1_000}),
    (20_000, {"units": 2_000, "embed_dim": 256, "dim": 384, "layers": 1, "dropout": 0.5,
              "word_dropout": 0.2, "smoothing": 0.1, "batch_units": 1_000}),
    (60_000, {"units": 4_000, "embed_dim": 256, "dim": 512, "layers": 2, "dropout": 0.4,
              "word_dropout": 0.1, "smoothing": 0.1, "batch_units": 2_000}),
    (1 << 62, {"units": 8_000, "embed_dim": 256, "dim": 512, "layers": 2, "dropout": 0.3,
               "word_dropout": 0.1, "smoothing": 0.1, "batch_units": 4_000}),
)  # fmt: skip
"""The settings of a model by the number of training pairs, which is below the first number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig(Config):
    """How a trained model searches; the evaluation of each epoch is greedy."""

    beam: int = 5
    """Hypotheses per text; 1 is greedy search."""
    n_best: int = 1
    """How many of them to return."""
    length_penalty: float = 1.0
    """α: log probabilities are divided by length^α."""
    max_length: int = 200
    """Target units; a short text also gets at most 10 and twice its own number."""
    align: bool = False
    """Return the attention of the best hypothesis, too."""

    def __post_init__(self) -> None:
        within(self, 1, 1000, "beam", "n_best")
        within(self, 1, MAX_UNITS, "max_length")
        if self.n_best > self.beam:
            raise ConfigError(f"n_best={self.n_best}: expected at most beam={self.beam}")
        if not 0 <= self.length_penalty <= 10:
            raise ConfigError(f"length_penalty={self.length_penalty}: expected 0 to 10")


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateConfig(TaskConfig):
    """Attention between a biLSTM and an LSTM over subword units.

    What is null follows the number of training pairs; `task.json` has what came of it.
    """

    elmo: ElmoPlacement = field(default_factory=lambda: ElmoPlacement(dropout=0.0))
    words: WordsConfig = field(
        default_factory=lambda: WordsConfig(dim=0, char_filters=0, dropout=0.0)
    )
    train: TrainerConfig = field(
        default_factory=lambda: TrainerConfig(lr=5e-4, epochs=100, clip_norm=1.0)
    )
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    source: str = "source"
    """Column or field of the sources."""
    target: str = "target"
    """Column or field of the targets."""
    train_target: str | None = None
    """File with the target of each line of the training file, which has the sources alone."""
    dev_target: str | None = None
    joint: bool = True
    """One vocabulary for both sides; for two scripts, such as Korean and English, false."""
    source_embedding: bool = True
    """False: ELMo in place of the embedding of source units, not beside it."""
    max_words: int = 400
    """Longer sources are cut."""
    units: int | None = None
    """Subword units of a vocabulary, beside the 256 bytes and the special ones."""
    embed_dim: int | None = None
    dim: int | None = None
    """Width of the states; each direction of the encoder has half of it."""
    layers: int | None = None
    dropout: float | None = None
    word_dropout: float | None = None
    """Share of the units whose embedding is hidden from the model in training."""
    smoothing: float | None = None
    batch_units: int | None = None
    """Target units of a batch, from which `train.batch_size` follows; 0: that stays as it is."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        given = {name for name in SIZES[0][1] if getattr(self, name) is not None}
        within(self, 1, MAX_UNITS // 2, *given & {"units"})
        within(self, 1, MAX_WIDTH, "max_words", *given & {"embed_dim", "dim"})
        within(self, 1, MAX_LAYERS, *given & {"layers"})
        within(self, 0, MAX_UNITS, *given & {"batch_units"})
        below_one(self, *given & {"dropout", "word_dropout", "smoothing"})
        if self.dim is not None and self.dim % 2:
            raise ConfigError(f"dim={self.dim}: expected an even number, for two directions")
        if self.elmo.at_output:
            raise ConfigError(
                f"elmo.place={self.elmo.place!r}: expected input or none; text is written by a "
                "model that has ELMo at its input only"
            )
        if not self.source_embedding and self.elmo.place == "none":
            raise ConfigError("source_embedding=False: without ELMo there is nothing in its place")


ConfigT = TypeVar("ConfigT", bound=GenerateConfig)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text and what may become of it.

    Attributes:
        text: The text as it was given.
        passage: The normalised text with its words.
        targets: Good texts to become; none if they are not known.
    """

    text: str
    passage: Passage
    targets: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, reader: Reader, max_words: int, targets: tuple[str, ...] = ()) -> Self:
        """A text as a model reads it, up to so many words."""
        passage = Passage.read(normalize(text, reader.normalization), reader)
        if len(passage.tokens) > max_words:
            end = max(end for _, end in passage.offsets[:max_words])
            passage = replace(passage.part(0, max_words), text=passage.text[:end])
        return cls(text, passage, targets)


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote, from the best to the worst; the first is always there."""

    hypotheses: tuple[ScoredText, ...]
    alignment: Alignment | None = None


class Writer(TaskModel[SourceText, Written]):
    """[unit embedding; ELMo of its word] → `Seq2Seq` → text.

    `decode` says how it searches: greedily, until `use` is called.
    """

    def __init__(
        self,
        config: GenerateConfig,
        embedding: TaskEmbedding,
        source_units: Units,
        target_units: Units,
        *,
        has_pointer: bool,
    ) -> None:
        super().__init__()
        sizes = {name: getattr(config, name) for name in SIZES[0][1]}
        missing = [name for name, value in sizes.items() if value is None]
        if missing:
            raise ConfigError(f"{missing[0]}=None: the size of the training data is not known")
        self.config, self.decode = config, replace(config.decode, beam=1, n_best=1, align=False)
        self.embedding = embedding
        self.source_units, self.target_units = source_units, target_units
        has_own = config.source_embedding and not config.joint
        self.own_embedding = (
            nn.Embedding(len(source_units), sizes["embed_dim"]) if has_own else None
        )
        if self.own_embedding is not None:
            nn.init.normal_(self.own_embedding.weight, std=sizes["embed_dim"] ** -0.5)
        self.seq2seq = Seq2Seq(
            embedding.dim + (sizes["embed_dim"] if config.source_embedding else 0),
            len(target_units),
            embed_dim=sizes["embed_dim"],
            dim=sizes["dim"],
            num_layers=sizes["layers"],
            dropout=sizes["dropout"],
            word_dropout=sizes["word_dropout"],
            never=Units.never,
            has_pointer=has_pointer,
        )

    def use(self) -> None:
        """Search as the settings say."""
        self.decode = self.config.decode

    def loss(self, examples: Sequence[SourceText], read: Read) -> Tensor:
        """The smoothed cross-entropy per target unit."""
        x, mask, units = self._sources(examples, read)
        limit = self.config.decode.max_length
        encoded = [self.target_units.encode(e.targets[0])[:limit] for e in examples]
        previous, target_mask = _padded([[Units.bos, *row] for row in encoded], x.device)
        targets, _ = _padded([[*row, Units.eos] for row in encoded], x.device)
        log_p = self.seq2seq(x, mask, units, previous)
        return smoothed_loss(log_p, targets, target_mask, self.config.smoothing or 0.0)

    def predict(self, examples: Sequence[SourceText], read: Read) -> list[Written]:
        """What becomes of each text."""
        x, mask, units = self._sources(examples, read)
        state = self.seq2seq.encode(x, mask, units)
        longest = self.decode.max_length
        limits = [min(longest, 10 + 2 * n) for n in mask.sum(dim=1).tolist()]
        options: dict[str, Any] = {
            "bos": Units.bos, "eos": Units.eos, "device": x.device,
            "length_penalty": self.decode.length_penalty,
        }  # fmt: skip
        step, beam = self.seq2seq.step, self.decode.beam
        found: list[list[Hypothesis]]
        if beam == 1:
            found = [[h] for h in greedy_search(step, state, limits, **options)]
        else:
            found = beam_search(step, state, limits, beam=beam, **options)
        alignments: Sequence[Alignment | None] = [None] * len(found)
        if self.decode.align:
            alignments = self._alignments(x, mask, units, [row[0] for row in found])
        return [
            Written(
                tuple(
                    ScoredText(self.target_units.decode(h.units), h.score)
                    for h in row[: self.decode.n_best]
                ),
                alignment,
            )
            for row, alignment in zip(found, alignments, strict=True)
        ]

    def _sources(
        self, examples: Sequence[SourceText], read: Read
    ) -> tuple[Float[Tensor, "B S X"], Bool[Tensor, "B S"], Int[Tensor, "B S"]]:
        """What the encoder reads of each text, the mask, and the units."""
        batch = read([example.passage.tokens for example in examples])
        rows = [self.source_units.encode(example.passage.text) for example in examples]
        words = [
            self.source_units.words_of(row, example.passage.offsets)
            for row, example in zip(rows, examples, strict=True)
        ]
        units, mask = _padded(rows, batch.mask.device)
        parts = []
        if self.config.source_embedding:
            table = self.own_embedding or self.seq2seq.embedding
            parts.append(drop_units(table(units), self.config.word_dropout or 0.0, self.training))
        if self.embedding.dim:
            of_words, _ = _padded(words, batch.mask.device)
            parts.append(self.embedding(_of_units(batch, of_words, mask)))
        return torch.cat(parts, dim=-1), mask, units

    def _alignments(
        self, x: Tensor, mask: Tensor, units: Tensor, best: Sequence[Hypothesis]
    ) -> list[Alignment]:
        """Where the decoder looked for each unit, and for the end, of given hypotheses."""
        previous, _ = _padded([[Units.bos, *h.units] for h in best], x.device)
        attention = self.seq2seq.decode(self.seq2seq.encode(x, mask, units), previous).attention
        found = []
        for weights, row, is_real, h in zip(attention, units, mask, best, strict=True):
            sources = self.source_units.pieces(row[is_real].tolist())
            rows = weights[: len(h.units) + 1, : len(sources)].tolist()
            targets = [*self.target_units.pieces(h.units), "</s>"]
            found.append(Alignment(tuple(sources), tuple(targets), tuple(map(tuple, rows))))
        return found


class GenerateTask(Task[ConfigT, SourceText, Written]):
    """Half of a task that writes: readers, units, the model. A subclass scores and shows it."""

    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "tsv": (".tsv",),
        "jsonl": (".jsonl", ".ndjson"),
    }
    has_own_input: ClassVar[bool] = True
    learned_files: ClassVar[tuple[str, ...]] = (JOINT, SOURCE, TARGET)
    has_pointer: ClassVar[bool] = False

    def __init__(self, learned: Mapping[str, bytes] | None = None) -> None:
        self.units: dict[str, Units] = {}
        for name, data in (learned or {}).items():
            try:
                self.units[name] = Units(data)
            except FormatError as e:
                raise FormatError(f"{name} of the run: {e}; get a complete copy of it") from e

    def learn(
        self, config: ConfigT, examples: Sequence[SourceText], saved: Mapping[str, bytes]
    ) -> tuple[ConfigT, dict[str, bytes]]:
        """Settings that fit the number of pairs, and subword units."""
        sizes = next(sizes for limit, sizes in SIZES if len(examples) < limit)
        config = replace(config, **{k: v for k, v in sizes.items() if getattr(config, k) is None})
        assert config.units is not None
        sides = {
            SOURCE: dict.fromkeys(e.passage.text for e in examples),
            TARGET: dict.fromkeys(target for e in examples for target in e.targets),
        }
        if config.joint:
            sides = {JOINT: sides[SOURCE] | sides[TARGET]}
        files = dict(saved)
        if files.keys() != sides.keys():
            files = {name: Units.train(texts, config.units).data for name, texts in sides.items()}
        if config.batch_units:
            units = Units(files[JOINT if config.joint else TARGET])
            length = mean(len(units.encode(e.targets[0])) + 1 for e in examples)
            size = max(1, round(config.batch_units / length))
            config = replace(config, train=replace(config.train, batch_size=size))
        return config, files

    def with_learned(self, files: Mapping[str, bytes]) -> Self:
        return type(self)(files)

    def model(
        self, config: ConfigT, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> TaskModel[SourceText, Written]:
        names = (JOINT, JOINT) if config.joint else (SOURCE, TARGET)
        for name in names:
            if name not in self.units:
                raise FormatError(f"{name} of the run is missing; get a complete copy of it")
        source, target = (self.units[name] for name in names)
        return Writer(config, embedding, source, target, has_pointer=self.has_pointer)

    def read(
        self, path: Path, config: ConfigT, reader: Reader, *, is_training: bool
    ) -> list[SourceText]:
        """The pairs of a file; to be scored, a source has the targets of all of its rows."""
        for package in ("sentencepiece", "sacrebleu"):  # before anything is learned
            import_extra(package, EXTRA)
        other = config.train_target if is_training else config.dev_target
        pairs = read_text_pairs(path, other, source=config.source, target=config.target)
        pairs = split_held_out(pairs, lambda p: p.source, config.held_out, is_training=is_training)
        if is_training:
            pairs = [TextPair(p.source, (target,)) for p in pairs for target in p.targets]
        else:
            pairs = with_all_targets(pairs)
        return [SourceText.read(p.source, reader, config.max_words, p.targets) for p in pairs]

    def example(self, line: str, reader: Reader, config: ConfigT) -> SourceText:
        """A line, whatever it looks like."""
        return SourceText.read(line, reader, config.max_words)

    def unlabelled(
        self, path: Path, form: str, config: ConfigT, reader: Reader
    ) -> list[list[SourceText]]:
        """The sources of a file."""
        if form == "jsonl":
            rows = json_lines(path)
            texts = [json_field(row, config.source, str, where=where) for where, row in rows]
        else:
            texts = [text for _, (text,) in table_rows(path, config.source)]
        return [[self.example(text, reader, config)] for text in texts]

    def sentences(self, example: SourceText) -> list[Sequence[str]]:
        return [example.passage.tokens]

    def text(self, example: SourceText) -> str:
        return example.text

    def as_text(self, example: SourceText, prediction: Written) -> str:
        """The text alone; of several, one line each with its score before a tab."""
        texts = [" ".join(h.text.splitlines()) for h in prediction.hypotheses]
        if len(texts) == 1:
            return texts[0]
        scores = [f"{h.score:.4f}" for h in prediction.hypotheses]
        return "\n".join(map("\t".join, zip(scores, texts, strict=True)))


def references(examples: Sequence[SourceText]) -> list[tuple[str, ...]]:
    """What the predictions about some texts are scored by."""
    if not all(example.targets for example in examples):
        raise InputError("a text without a target cannot be scored")
    return [example.targets for example in examples]


def best_texts(predictions: Sequence[Written]) -> list[str]:
    """The best of each prediction."""
    return [prediction.hypotheses[0].text for prediction in predictions]


def _padded(
    rows: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Rows of numbers as a tensor, filled up with zeros, and the mask."""
    longest = max(map(len, rows), default=0)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)
    return padded, torch.arange(longest, device=device) < lengths[:, None]


def _of_units(
    batch: TokenBatch, words: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
) -> TokenBatch:
    """What a batch says of each unit's word, in place of each word."""

    def spread(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.gather(1, words)

    layers = batch.layers
    if layers is not None:
        index = words[None, :, :, None].expand(len(layers), -1, -1, layers.shape[-1])
        layers = layers.gather(2, index)
    return TokenBatch(mask, spread(batch.words), batch.characters, spread(batch.spelled), layers)
