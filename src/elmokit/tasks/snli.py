"""Natural language inference: does a premise entail a hypothesis, contradict it, or neither?

Labelled pairs in, accuracy out. The model is ESIM, the enhanced sequential inference model (Chen et
al. 2017; paper, section 4: SNLI). Shapes: P pairs, B = 2P sentences (all premises, then all
hypotheses), T tokens, K labels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..config import within
from ..errors import FormatError, InputError
from ..files.read import json_field
from ..nn.shapes import Bool, Float
from ..text.reader import Reader
from .config import MAX_WIDTH, ElmoPlacement, TaskConfig, TrainerConfig, WordsConfig, below_one
from .parts.embedding import TaskEmbedding, TokenBatch
from .parts.encoders import BiLstm, VariationalDropout
from .parts.lines import (
    LabelledRow,
    Lines,
    filled_lines,
    json_lines,
    json_object,
    split_held_out,
    table_rows,
    tokenized_rows,
)
from .parts.metrics import require_libraries
from .results import Result, SnliResult
from .task import LabelModel, LabelPrediction, LabelSets, LabelTask, Read

NAMES = (("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label"))
"""What the files call the three: ours, and the original ones."""
NO_GOLD = ("-", "-1")
"""Labels of a pair about which its annotators did not agree, by name and by number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnliConfig(TaskConfig):
    """ESIM (Chen et al. 2017) as the paper trains it, half as wide.

    The paper's own: `dim` 300, `elmo.layer_norm` true (which makes an answer depend on its batch)
    and, with ELMo, `train.weight_decay` 1e-4.
    """

    elmo: ElmoPlacement = field(default_factory=lambda: ElmoPlacement(place="both", dropout=0.0))
    words: WordsConfig = field(default_factory=lambda: WordsConfig(char_filters=0, dropout=0.0))
    train: TrainerConfig = field(
        default_factory=lambda: TrainerConfig(lr=4e-4, epochs=20, patience=5, halve_after=1)
    )
    dim: int = 150
    """Width of the feed-forward layers and of each direction of the biLSTMs; 300 in the paper."""
    dropout: float = 0.5
    """Of what each biLSTM reads, the same for all tokens, and of what the last two layers read."""
    attention_dropout: float = 0.5
    """Of the aligned tokens; only where there is ELMo, as in the paper."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, MAX_WIDTH, "dim")
        below_one(self, "dropout", "attention_dropout")


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A premise and a hypothesis, in tokens, and what the one means for the other.

    `texts` are the two as they were written, where that matters.
    """

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str = ""
    texts: tuple[str, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, premise: str, hypothesis: str, reader: Reader) -> "SentencePair":
        """Two texts without a label."""
        sides = tuple(reader.tokens(premise)), tuple(reader.tokens(hypothesis))
        return cls(*sides, texts=(premise, hypothesis))


def read_inference(path: Path | str, tokenizer: Callable[[str], list[str]]) -> list[SentencePair]:
    """The pairs of a file that have a gold label; pairs with an empty side are logged.

    The file is JSON lines, or a table with tabs and a header; either has premise, hypothesis and
    label, or sentence1, sentence2 and gold_label, and whatever else.

    Args:
        path: The file, plain or compressed.
        tokenizer: Text → tokens.
    """
    lines = filled_lines(path)
    is_json = lines[0][1].lstrip().startswith("{")
    rows = _json_rows(path, lines) if is_json else _table_rows(path, lines)
    gold = (row for row in rows if row[2].strip() not in NO_GOLD)
    found = tokenized_rows(path, gold, tokenizer, "pairs with an empty side")
    pairs = [SentencePair(premise, hypothesis, label) for (premise, hypothesis), label in found]
    if not pairs:
        raise InputError(f"{path} has no pair with a gold label")
    return pairs


def read_sides(path: Path | str, *, is_json: bool) -> list[tuple[str, str]]:
    """Premise and hypothesis of each row of a file, whatever its label, if it has one."""
    if is_json:
        records = json_lines(path)
        return [(_side(record, 0, where), _side(record, 1, where)) for where, record in records]
    lines = filled_lines(path)
    sides = _header_names(path, lines, 2)[:2]
    return [(first, second) for _, (first, second) in table_rows(path, *sides, lines=lines)]


def _json_rows(path: Path | str, lines: Lines) -> Iterator[LabelledRow]:
    for where, record in json_lines(path, lines):
        sides = [_side(record, i, where) for i in (0, 1)]
        label = json_field(record, _names(record)[2], str, int, where=where)
        yield where, sides, str(label)


def _side(record: dict[str, Any], i: int, where: str) -> str:
    text: str = json_field(record, _names(record)[i], str, where=where)
    return text


def _names(record: dict[str, Any]) -> tuple[str, str, str]:
    """What an object calls the three."""
    return NAMES[1] if NAMES[1][0] in record and NAMES[0][0] not in record else NAMES[0]


def _table_rows(path: Path | str, lines: Lines) -> Iterator[LabelledRow]:
    names = _header_names(path, lines, 3)
    for where, (*sides, label) in table_rows(path, *names, lines=lines):
        yield where, sides, label


def _header_names(path: Path | str, lines: Lines, number: int) -> tuple[str, str, str]:
    """What the header of a table calls the three, of which the first `number` must be there."""
    header = lines[0][1]
    columns = {name.strip() for name in header.split("\t")}
    for names in NAMES:
        if columns.issuperset(names[:number]):
            return names
    raise FormatError(
        f"{path}: expected JSON lines, or a header with {', '.join(NAMES[0][:number])} "
        f"(or {', '.join(NAMES[1][:number])}); the first line is {header!r:.80}"
    )


class Esim(LabelModel[SentencePair]):
    """Two sentences that attend to each other, compared token by token, then pooled.

    One biLSTM reads both; ELMo is at its input, its output or both. Each token is compared with
    what it is aligned to in the other sentence, a second biLSTM composes the comparisons, and two
    feed-forward layers say the label.
    """

    def __init__(self, config: SnliConfig, embedding: TaskEmbedding, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.embedding = embedding
        self.encoder = BiLstm(embedding.dim, config.dim)
        width = self.encoder.dim + embedding.output_dim
        self.projection = nn.Linear(4 * width, config.dim)
        self.composer = BiLstm(config.dim, config.dim)
        self.input_dropout = VariationalDropout(config.dropout)
        has_elmo = len(embedding.mixes) > 0
        self.attention_dropout = nn.Dropout(config.attention_dropout if has_elmo else 0.0)
        self.classifier = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(4 * self.composer.dim, config.dim),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.dim, len(self.labels)),
        )

    __call__: Callable[..., Tensor]

    def forward(self, batch: TokenBatch) -> Float[Tensor, "P K"]:
        """The scores of the labels; the first half of the batch are the premises."""
        h = self.encoder(self.input_dropout(self.embedding(batch)), batch.mask)
        h = self.embedding.at_output(h, batch)
        aligned = torch.cat(soft_alignment(*h.chunk(2), *batch.mask.chunk(2)))
        x = h.new_zeros(*batch.mask.shape, self.projection.out_features)
        x[batch.mask] = self._compared(h[batch.mask], aligned[batch.mask])
        v = self.composer(self.input_dropout(x), batch.mask)
        premise, hypothesis = torch.cat(pooled(v, batch.mask), dim=-1).chunk(2)
        scores: Tensor = self.classifier(torch.cat([premise, hypothesis], dim=-1))
        return scores

    def scores(self, examples: Sequence[SentencePair], read: Read) -> Float[Tensor, "P K"]:
        """The scores of the labels of each pair."""
        sentences = [e.premise for e in examples] + [e.hypothesis for e in examples]
        return self(read(sentences))

    def _compared(self, h: Float[Tensor, "N W"], aligned: Float[Tensor, "N W"]) -> Tensor:
        """Each real token beside what it is aligned to, their difference and their product."""
        enhanced = torch.cat([h, aligned, h - aligned, h * aligned], dim=-1)
        return torch.relu(self.projection(self.attention_dropout(enhanced)))


def soft_alignment(
    a: Float[Tensor, "P S D"],
    b: Float[Tensor, "P T D"],
    a_mask: Bool[Tensor, "P S"],
    b_mask: Bool[Tensor, "P T"],
) -> tuple[Float[Tensor, "P S D"], Float[Tensor, "P T D"]]:
    """What each token of a looks like in b, and the reverse (Chen et al. 2017, eq. 11 to 13).

    ã_i = Σ_j softmax_j(a_i·b_j) b_j over the real tokens of b; likewise b̃_j.
    """
    affinity = a @ b.mT
    over_b = affinity.masked_fill(~b_mask[:, None, :], -torch.inf).softmax(dim=2)
    over_a = affinity.masked_fill(~a_mask[:, :, None], -torch.inf).softmax(dim=1)
    return over_b @ b, over_a.mT @ a


def pooled(v: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> list[Float[Tensor, "B D"]]:
    """The mean and the largest value over the real tokens."""
    real = mask[..., None]
    mean = torch.where(real, v, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return [mean, v.masked_fill(~real, -torch.inf).amax(dim=1)]


class SnliTask(LabelTask[SnliConfig, SentencePair]):
    """One label per pair of sentences: JSON lines or TSV."""

    name: ClassVar[str] = "snli"
    config_class = SnliConfig
    inputs: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "tsv": (".tsv",),
        "jsonl": (".jsonl", ".ndjson"),
    }

    def read(
        self, path: Path, config: SnliConfig, reader: Reader, *, is_training: bool
    ) -> list[SentencePair]:
        """The pairs of a file that have a gold label."""
        require_libraries()
        pairs = read_inference(path, reader.tokens)
        return split_held_out(
            pairs, lambda p: " ".join(p.premise), config.held_out, is_training=is_training
        )

    def example(self, line: str, reader: Reader, config: SnliConfig) -> SentencePair:
        """The premise and the hypothesis of a line, separated by a tab, or of a JSON object."""
        if not line.strip():
            return SentencePair((), (), texts=("", ""))
        record = json_object(line)
        texts = _texts(record, line)
        if len(texts) == 2 and (record is not None or all(map(str.strip, texts))):
            return SentencePair.read(texts[0], texts[1], reader)
        raise InputError(
            f"{line!r:.80}: expected a premise, a tab, and a hypothesis, or a JSON object with "
            "'premise' and 'hypothesis'"
        )

    def unlabelled(
        self, path: Path, form: str, config: SnliConfig, reader: Reader
    ) -> list[list[SentencePair]]:
        """The pairs of a file, those without a gold label too."""
        sides = read_sides(path, is_json=form == "jsonl")
        return [[SentencePair.read(*texts, reader)] for texts in sides]

    def result(self, example: SentencePair, prediction: LabelPrediction | None) -> Result:
        """The label, the probabilities of all, and the two texts."""
        joined = " ".join(example.premise), " ".join(example.hypothesis)
        premise, hypothesis = example.texts or joined
        said: dict[str, Any] = {} if prediction is None else {**prediction}
        return SnliResult(
            task=self.name,
            text=f"{premise}\t{hypothesis}",
            premise=premise,
            hypothesis=hypothesis,
            **said,
        )

    def sentences(self, example: SentencePair) -> list[Sequence[str]]:
        return [example.premise, example.hypothesis]

    def model(self, config: SnliConfig, label_sets: LabelSets, embedding: TaskEmbedding) -> Esim:
        return Esim(config, embedding, label_sets["labels"])


def _texts(values: dict[str, Any] | None, line: str) -> list[str]:
    """The two texts of a line, if it has two."""
    if values is None:
        return line.split("\t")
    return [values[n] for names in NAMES for n in names[:2] if isinstance(values.get(n), str)]
