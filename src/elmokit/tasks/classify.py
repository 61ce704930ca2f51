"""Texts with one label each, such as sentiment: labelled texts in, accuracy out.

The model is the biattentive classification network (McCann et al. 2017; paper, section 4:
sentiment), or a linear head (see `linear`), which is better where there are few texts. Both read
PTB trees with labels, TSV and JSON lines.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from ..config import one_of, within
from ..errors import ConfigError, FormatError, InputError, quoted
from ..nn.shapes import Bool, Float
from ..text.reader import Reader
from .config import (
    MAX_WIDTH,
    ElmoPlacement,
    Place,
    TaskConfig,
    TrainerConfig,
    WordsConfig,
    below_one,
)
from .linear import LinearHead
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
from .task import LabelModel, LabelSets, LabelTask, Read

Head: TypeAlias = Literal["bcn", "linear"]
HEADS: tuple[Head, ...] = ("bcn", "linear")
FEW_TEXTS = 2000
"""Below so many training texts, the linear head is worth a try (docs/tasks.md)."""

_TREE_TOKEN = re.compile(r"[()]|[^()\s]+")
_TREE_LABELS = ("0", "1", "2", "3", "4")
# What the treebank had to write otherwise; a biLM has read it as people do.
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "``": '"', "''": '"'}


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifyConfig(TaskConfig):
    """A classifier of a single text: the biattentive network (McCann et al. 2017), or linear.

    The linear head has no use for the sizes of the network, nor for most of `train`.
    """

    head: Head = "bcn"
    elmo: ElmoPlacement = field(default_factory=lambda: ElmoPlacement(place="both"))
    words: WordsConfig = field(default_factory=lambda: WordsConfig(char_filters=0, dropout=0.25))
    train: TrainerConfig = field(default_factory=lambda: TrainerConfig(batch_size=64, epochs=20))
    dim: int = 150
    """Width of the feed-forward layer and of each direction of the biLSTMs; 300 in the paper."""
    maxout_pieces: int = 4
    reduction: int = 2
    """Each maxout layer is so many times narrower than what it reads."""
    dropout: float = 0.2
    phrases: bool = True
    """Train on the labelled phrases of a treebank, too."""
    min_phrase: int = 1
    """Shortest phrase, in tokens, to train on."""
    l2: float | None = None
    """Penalty of the linear head's weights; by default chosen on the training texts."""
    text: str = "text"
    """Name of the text in the header of a TSV file, or in a JSON line."""
    label: str = "label"
    text_column: int | None = None
    """Number of the text's column, from 0, in a TSV file that has no header."""
    label_column: int | None = None

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, MAX_WIDTH, "dim", "maxout_pieces", "reduction", "min_phrase")
        below_one(self, "dropout")
        one_of("head", self.head, HEADS)
        if self.head == "linear":
            self._check_linear()
        if (self.text_column is None) != (self.label_column is None):
            raise ConfigError("text_column and label_column: expected both or neither")

    def _check_linear(self) -> None:
        """Refuse what the linear head cannot do."""
        if self.l2 is not None and not self.l2 >= 0:
            raise ConfigError(f"l2={self.l2}: expected 0 or more, or null to choose it")
        if self.elmo.place == "output":
            raise ConfigError("elmo.place='output': the linear head has ELMo at its input only")
        for name, is_set in (
            ("elmo.finetune", self.elmo.finetune),
            ("elmo.layer_norm", self.elmo.layer_norm),
            ("words.tune_static", self.words.tune_static),
        ):
            if is_set:
                raise ConfigError(
                    f"{name}=True: the linear head reads frozen vectors, which it standardises "
                    "itself; use --head bcn"
                )


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, in tokens, of one class; and as it was written, where that matters."""

    tokens: tuple[str, ...]
    label: str
    text: str | None = field(default=None, repr=False, compare=False)


def read_trees(
    path: Path | str,
    *,
    phrases: bool = False,
    min_phrase: int = 1,
    held_out: float = 0.0,
    is_training: bool = True,
    lines: Lines | None = None,
) -> list[LabelledText]:
    """The sentences of a file of sentiment trees, one per line, with the labels "0" to "4".

    Brackets, quotes and slashes come as people write them: `-LRB-` as `(`, an opening or closing
    quote as `"`, an escaped slash without its backslash.

    Args:
        path: The file, plain or compressed.
        phrases: Also every distinct phrase of the trees, after the sentences: for training.
        min_phrase: Tokens of the shortest of these phrases.
        held_out: Fraction of the trees that is held out for development.
        is_training: Whether to return the other trees.
        lines: The lines of the file, if they have been read already.
    """
    lines = filled_lines(path) if lines is None else lines
    every = [_parse_tree(line, f"{path}, line {number}") for number, line in lines]
    trees = split_held_out(
        every, lambda t: " ".join(t[-1].tokens), held_out, is_training=is_training
    )
    sentences = [tree[-1] for tree in trees]
    if not phrases:
        return sentences
    inner = dict.fromkeys(phrase for tree in trees for phrase in tree[:-1])
    known = set(sentences)
    return sentences + [p for p in inner if p not in known and len(p.tokens) >= min_phrase]


def _parse_tree(line: str, where: str) -> list[LabelledText]:
    """The phrases of a tree, each after those that it is made of; the sentence is the last."""
    phrases: list[LabelledText] = []
    open_nodes: list[tuple[str, list[str]]] = []
    tokens: list[str] = []
    parts = iter(_TREE_TOKEN.findall(line))
    closed = False
    for part in parts:
        if closed or (part != "(" and not open_nodes):
            raise FormatError(f"{where}: {part!r:.40} stands outside the tree")
        if part == "(":
            label = next(parts, "the end")
            if label not in _TREE_LABELS:
                raise FormatError(f"{where}: the label {label!r:.40} is not one of 0..4")
            open_nodes.append((label, []))
        elif part == ")":
            label, tokens = open_nodes.pop()
            if not tokens:
                raise FormatError(f"{where}: a phrase without words")
            phrases.append(LabelledText(tuple(tokens), label))
            if open_nodes:
                open_nodes[-1][1].extend(tokens)
            closed = not open_nodes
        else:
            open_nodes[-1][1].append(_unescaped(part))
    if not closed:
        raise FormatError(f"{where}: the tree does not close; {len(open_nodes)} `)` are missing")
    return phrases


def _unescaped(word: str) -> str:
    return _ESCAPED.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def read_tsv(
    path: Path | str,
    tokenizer: Callable[[str], list[str]],
    *,
    text: str | int,
    label: str | int,
    lines: Lines | None = None,
) -> list[LabelledText]:
    """The texts of a tab-separated table; quotation marks are text like any other.

    Rows without a text are left out, and their number is logged.

    Args:
        path: The file, plain or compressed.
        tokenizer: Text → tokens.
        text: The column of the texts: its name, or its number from 0.
        label: The column of the labels, likewise. If either is a name, the first line is a header.
        lines: The lines of the file, if they have been read already.
    """
    rows = table_rows(path, text, label, lines=lines)
    texts = ((where, [words], name) for where, (words, name) in rows)
    return _labelled(path, texts, tokenizer)


def read_jsonl(
    path: Path | str,
    tokenizer: Callable[[str], list[str]],
    *,
    text: str,
    label: str,
    lines: Lines | None = None,
) -> list[LabelledText]:
    """The texts of a file with one JSON object per line; a label may be text or a whole number."""
    rows = (
        (where, [_field(record, where, text, str)], str(_field(record, where, label, str, int)))
        for where, record in json_lines(path, lines)
    )
    return _labelled(path, rows, tokenizer)


def _labelled(
    path: Path | str, rows: Iterable[LabelledRow], tokenizer: Callable[[str], list[str]]
) -> list[LabelledText]:
    found = tokenized_rows(path, rows, tokenizer, "examples without a text")
    return [LabelledText(text, label) for (text,), label in found]


def _field(record: dict[str, Any], where: str, name: str, *kinds: type) -> Any:
    if name not in record:
        raise FormatError(
            f"{where}: the field {quoted(name)} is missing; "
            f"found {', '.join(map(repr, record)):.200}"
        )
    if type(record[name]) not in kinds:
        kind = " or ".join(k.__name__ for k in kinds)
        raise FormatError(f"{where}: {name}={record[name]!r:.40}; expected {kind}")
    return record[name]


class Bcn(LabelModel[LabelledText]):
    """A sentence that attends to itself, pooled four ways, and classified by maxout layers.

    The original reads two texts; of a single one, both are the same, and one half is enough.
    """

    def __init__(
        self, config: ClassifyConfig, embedding: TaskEmbedding, labels: Sequence[str]
    ) -> None:
        super().__init__(labels)
        self.embedding = embedding
        self.feed_forward = nn.Linear(embedding.dim, config.dim)
        self.encoder = BiLstm(config.dim, config.dim)
        self.integrator = BiLstm(3 * self.encoder.dim, config.dim)
        width = self.integrator.dim + embedding.output_dim
        self.attention = nn.Linear(width, 1)
        self.dropout = nn.Dropout(config.dropout)
        # The largest of values that are dropped and doubled one by one is twice that of prediction.
        self.elmo_dropout = VariationalDropout(config.elmo.dropout)
        pooled = 4 * width
        hidden = max(1, pooled // config.reduction), max(1, pooled // config.reduction**2)
        self.classifier = nn.Sequential(
            Maxout(pooled, hidden[0], config.maxout_pieces),
            nn.Dropout(config.dropout),
            Maxout(hidden[0], hidden[1], config.maxout_pieces),
            nn.Dropout(config.dropout),
            nn.Linear(hidden[1], len(self.labels)),
        )

    __call__: Callable[..., Tensor]

    def forward(self, batch: TokenBatch) -> Float[Tensor, "B K"]:
        """The scores of the classes."""
        x = self.dropout(torch.relu(self.feed_forward(self.embedding(batch))))
        h = self.encoder(x, batch.mask)
        context = biattention(h, batch.mask)
        h = self.integrator(torch.cat([h, h - context, h * context], dim=-1), batch.mask)
        h = self.embedding.at_output(self.dropout(h), batch, self.elmo_dropout)
        pooled = torch.cat([*pools(h, batch.mask), self._attentive(h, batch.mask)], dim=-1)
        scores: Tensor = self.classifier(self.dropout(pooled))
        return scores

    def scores(self, examples: Sequence[LabelledText], read: Read) -> Float[Tensor, "B K"]:
        """The scores of the labels of each text."""
        return self(read([example.tokens for example in examples]))

    def _attentive(self, h: Tensor, mask: Tensor) -> Tensor:
        """The mean of the tokens, weighted by how much each matters."""
        scores = self.attention(h).squeeze(-1).masked_fill(~mask, -torch.inf)
        return torch.einsum("bt,btd->bd", scores.softmax(dim=-1), h)


class Maxout(nn.Module):
    """The largest of several linear functions, value by value (Goodfellow et al. 2013)."""

    def __init__(self, input_dim: int, dim: int, num_pieces: int) -> None:
        super().__init__()
        self.num_pieces = num_pieces
        self.linear = nn.Linear(input_dim, dim * num_pieces)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B E"]:
        pieces: Tensor = self.linear(x).unflatten(-1, (-1, self.num_pieces))
        return pieces.amax(dim=-1)


def biattention(h: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    """What the whole sentence looks like to each of its tokens: softmax(H Hᵀ) H."""
    affinity = torch.einsum("bsd,btd->bst", h, h).masked_fill(~mask[:, None], -torch.inf)
    return affinity.softmax(dim=-1) @ h


def pools(h: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> list[Tensor]:
    """The largest, the mean and the smallest value over the tokens."""
    is_padding = ~mask[..., None]
    mean = (h * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return [
        h.masked_fill(is_padding, -torch.inf).amax(dim=1),
        mean,
        h.masked_fill(is_padding, torch.inf).amin(dim=1),
    ]


class ClassifyTask(LabelTask[ClassifyConfig, LabelledText]):
    """One label per text: PTB trees with their labels, TSV or JSON lines."""

    name: ClassVar[str] = "classify"
    config_class = ClassifyConfig
    formats: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "tsv": (".tsv",),
        "jsonl": (".jsonl", ".ndjson"),
        "trees": (".ptb", ".tree", ".trees"),
    }

    def resolved(self, config: ClassifyConfig) -> ClassifyConfig:
        """For the linear head: ELMo at the input, no words of its own, and one epoch."""
        if config.head != "linear":
            return config
        place: Place = "none" if config.elmo.place == "none" else "input"
        return replace(
            config,
            elmo=replace(config.elmo, place=place),
            words=replace(config.words, dim=0, char_filters=0),
            train=replace(config.train, epochs=1, ema=0.0),
        )

    def advice(self, config: ClassifyConfig, examples: Sequence[LabelledText]) -> str | None:
        """The linear head, where a network has few texts to learn from."""
        if config.head == "linear" or len(examples) >= FEW_TEXTS:
            return None
        return (
            f"{len(examples):,} texts are few for this network; --head linear trains in seconds "
            f"and is often better below {FEW_TEXTS:,}"
        )

    def read(
        self, path: Path, config: ClassifyConfig, reader: Reader, *, is_training: bool
    ) -> list[LabelledText]:
        """The texts of a file; of trees, also the phrases inside if they are to be learned."""
        require_libraries()
        lines = filled_lines(path)
        if lines[0][1].lstrip().startswith("("):
            phrases = is_training and config.phrases
            trees = read_trees(
                path,
                phrases=phrases,
                min_phrase=config.min_phrase,
                held_out=config.held_out,
                is_training=is_training,
                lines=lines,
            )
            # Most short phrases occur many times, with the same label.
            return list(dict.fromkeys(trees)) if phrases else trees
        texts = _read_lines(path, lines, config, reader)
        return split_held_out(
            texts, lambda t: " ".join(t.tokens), config.held_out, is_training=is_training
        )

    def example(self, line: str, reader: Reader, config: ClassifyConfig) -> LabelledText:
        """The tokens of a line, or of the text in a JSON object; without a label."""
        record = json_object(line)
        text = line if record is None else record.get(config.text)
        if not isinstance(text, str):
            found = ", ".join(map(repr, record or {}))
            raise InputError(
                f"a JSON object without text in the field {quoted(config.text)}; found {found:.80}"
            )
        return LabelledText(tuple(reader.tokens(text)), "", text)

    def line(self, texts: Sequence[str], config: ClassifyConfig) -> str:
        return json.dumps({config.text: texts[0]})

    def unlabelled(
        self, path: Path, form: str, config: ClassifyConfig, reader: Reader
    ) -> list[list[LabelledText]]:
        """The texts of a file, the empty ones too."""
        if form == "trees":
            return [[tree] for tree in read_trees(path)]
        if form == "jsonl":
            rows = json_lines(path)
            texts = [_field(record, where, config.text, str) for where, record in rows]
        else:
            column = config.text if config.text_column is None else config.text_column
            texts = [text for _, (text,) in table_rows(path, column)]
        return [[LabelledText(tuple(reader.tokens(text)), "", text)] for text in texts]

    def text(self, example: LabelledText) -> str:
        return " ".join(example.tokens) if example.text is None else example.text

    def sentences(self, example: LabelledText) -> list[Sequence[str]]:
        return [example.tokens]

    def model(
        self, config: ClassifyConfig, label_sets: LabelSets, embedding: TaskEmbedding
    ) -> LabelModel[LabelledText]:
        if config.head == "linear":
            return LinearHead(embedding, label_sets["labels"], config.l2)
        return Bcn(config, embedding, label_sets["labels"])


def _read_lines(
    path: Path, lines: Lines, config: ClassifyConfig, reader: Reader
) -> list[LabelledText]:
    text, label = config.text, config.label
    if lines[0][1].lstrip().startswith("{"):
        return read_jsonl(path, reader.tokens, text=text, label=label, lines=lines)
    if config.text_column is not None and config.label_column is not None:
        columns = config.text_column, config.label_column
        return read_tsv(path, reader.tokens, text=columns[0], label=columns[1], lines=lines)
    header = [name.strip() for name in lines[0][1].split("\t")]
    if not {text, label} <= {*header}:
        raise FormatError(
            f"{path}: expected columns {quoted(text)} and {quoted(label)}, parted by tabs; found "
            f"{', '.join(header):.200}. Name others with --set text=… --set label=…, or give "
            "text_column and label_column, numbers from 0, if there is no header"
        )
    return read_tsv(path, reader.tokens, text=text, label=label, lines=lines)
