"""The sizes of the inference model."""

from dataclasses import dataclass, field

from ...config import within
from ..config import ElmoPlace, TaskConfig, TrainConfig, WordsConfig, share

_WIDE = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class SnliConfig(TaskConfig):
    """ESIM (Chen et al. 2017) as the paper trains it, half as wide.

    The paper's own: `dim` 300, `elmo.layer_norm` true (which makes an answer depend on its batch)
    and, with ELMo, `train.weight_decay` 1e-4.
    """

    elmo: ElmoPlace = field(default_factory=lambda: ElmoPlace(place="both", dropout=0.0))
    words: WordsConfig = field(default_factory=lambda: WordsConfig(char_filters=0, dropout=0.0))
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(lr=4e-4, epochs=20, patience=5, halve_after=1)
    )
    dim: int = 150
    """Width of the feed-forward layers and of each direction of the biLSTMs; 300 in the paper."""
    dropout: float = 0.5
    """Of what each biLSTM reads, the same for all tokens, and of what the last two layers read."""
    attention_dropout: float = 0.5
    """Of the aligned tokens; only where there is ELMo, as in the paper."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, _WIDE, "dim")
        share(self, "dropout", "attention_dropout")
