"""The settings of the coreference model."""

from dataclasses import dataclass, field

from ...config import within
from ...errors import ConfigError
from ..config import MAX_LAYERS, ElmoPlace, TaskConfig, TrainConfig, WordsConfig, share

_WIDE = 1 << 16
_MANY = 1 << 40


@dataclass(frozen=True, kw_only=True, slots=True)
class CorefConfig(TaskConfig):
    """Span ranking (Lee et al. 2017): the paper's model, at sizes for two processor cores."""

    elmo: ElmoPlace = field(default_factory=lambda: ElmoPlace(l2=0.0))
    words: WordsConfig = field(
        default_factory=lambda: WordsConfig(char_dim=8, char_filters=50, char_width=4)
    )
    """The paper has 50 filters of each width 3, 4 and 5."""
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(batch_size=1, epochs=40, halve_after=4)
    )
    """A batch is of documents."""
    lstm_dim: int = 100
    """Units of each direction; 200 in the paper."""
    lstm_layers: int = 1
    ffnn_dim: int = 100
    """Width of the hidden layers of all feed-forward networks; 150 in the paper."""
    ffnn_layers: int = 2
    feature_dim: int = 20
    """Width of the embeddings of widths and distances."""
    max_width: int = 10
    """Longest mention, in tokens."""
    spans_per_token: float = 0.3
    """λ: a document of T tokens keeps λT spans; 0.4 in the paper."""
    max_antecedents: int = 100
    """K: how many of the spans before it a span is compared with; 250 in the paper."""
    mention_loss: float = 0.5
    """Weight of -log likelihood of all spans being mentions or not; 0 in the paper, which has many
    more documents to learn mentions from by their links alone."""
    max_train_tokens: int = 1200
    """Longer documents are learned from in windows of whole sentences, drawn anew every epoch; the
    paper's are of 50 sentences."""
    singletons: bool = False
    """Mentions that nothing else refers to: dropped from the data, as in CoNLL-2012, or kept, and
    then learned and predicted, too."""
    lstm_dropout: float = 0.2
    """Of the biLSTM's states."""
    dropout: float = 0.2
    """Of the hidden layers and of the features."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, _WIDE, "lstm_dim", "ffnn_dim", "feature_dim", "max_width")
        within(self, 1, MAX_LAYERS, "lstm_layers", "ffnn_layers")
        within(self, 1, _MANY, "max_antecedents", "max_train_tokens")
        share(self, "lstm_dropout", "dropout")
        if not self.spans_per_token > 0:
            raise ConfigError(f"spans_per_token={self.spans_per_token}: expected more than 0")
        if not self.mention_loss >= 0:
            raise ConfigError(f"mention_loss={self.mention_loss}: expected 0 or more")
        if self.singletons and not self.mention_loss:
            raise ConfigError("singletons: they are learned by mention_loss; set it above 0")
