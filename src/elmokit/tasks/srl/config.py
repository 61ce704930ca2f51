"""The sizes of the semantic role labeller."""

from dataclasses import dataclass, field

from ...config import within
from ..config import MAX_LAYERS, ElmoPlace, TaskConfig, TrainConfig, WordsConfig, share

_MANY = 1 << 40
_WIDE = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class SrlConfig(TaskConfig):
    """The tagger of He et al. (2017), narrower and shallower.

    The paper's own: `lstm_dim` 300, `lstm_layers` 8, `train.optimizer` adadelta, `train.lr` 1,
    `train.batch_size` 80, `train.epochs` 500, `train.patience` 200 and `train.halve_after` 0.
    """

    elmo: ElmoPlace = field(default_factory=lambda: ElmoPlace(dropout=0.1))
    words: WordsConfig = field(
        default_factory=lambda: WordsConfig(char_filters=0, tune_static=True, dropout=0.1)
    )
    train: TrainConfig = field(default_factory=lambda: TrainConfig(clip_norm=1.0))
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
        within(self, 1, _WIDE, "predicate_dim", "lstm_dim")
        within(self, 1, MAX_LAYERS, "lstm_layers")
        within(self, 0, _MANY, "max_frames")
        share(self, "dropout")
