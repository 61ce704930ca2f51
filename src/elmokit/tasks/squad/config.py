"""The settings of a question answering run."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ...config import one_of, within
from ...errors import ConfigError
from ..config import ElmoPlace, TaskConfig, TrainConfig, WordsConfig, share

Rules: TypeAlias = Literal["squad", "korquad"]

_WIDE = 1 << 16
_MANY = 1 << 40


@dataclass(frozen=True, kw_only=True, slots=True)
class SquadConfig(TaskConfig):
    """BiDAF with self-attention (Clark and Gardner 2017), at the paper's sizes."""

    elmo: ElmoPlace = field(default_factory=lambda: ElmoPlace(place="both", l2=0.0))
    words: WordsConfig = field(
        default_factory=lambda: WordsConfig(
            char_dim=20, char_filters=100, char_width=5, dropout=0.0
        )
    )
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            optimizer="adadelta", lr=1.0, batch_size=45, epochs=24, halve_after=0, ema=0.999
        )
    )
    gru_dim: int = 90
    """Units of each direction of the GRUs; other layers are twice as wide."""
    dropout: float = 0.2
    """Variational: the same values are dropped at all tokens of a text."""
    max_answer_tokens: int = 17
    """Longest answer that is predicted."""
    max_paragraph_tokens: int = 400
    """Longest text that is read at once; a longer one is read in windows (see `passage.py`)."""
    max_questions: int = 0
    """Number of training questions, of whole paragraphs drawn from all articles; 0 for all."""
    rules: Literal["auto", "squad", "korquad"] = "auto"
    """How answers are scored; `auto` is by what the file calls itself."""

    def __post_init__(self) -> None:
        TaskConfig.__post_init__(self)
        within(self, 1, _WIDE, "gru_dim", "max_answer_tokens")
        within(self, 0, _MANY, "max_questions")
        within(self, 2, _MANY, "max_paragraph_tokens")
        share(self, "dropout")
        one_of("rules", self.rules, ("auto", "squad", "korquad"))
        if self.max_paragraph_tokens < 2 * self.max_answer_tokens:
            raise ConfigError(
                f"max_paragraph_tokens={self.max_paragraph_tokens}: expected at least "
                f"{2 * self.max_answer_tokens}, twice max_answer_tokens"
            )
