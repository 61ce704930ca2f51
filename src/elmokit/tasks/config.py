"""What a task run is made of: where ELMo goes, the other inputs, the model, the training.

The defaults are the paper's, at sizes that two processor cores train in minutes.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..config import Config, one_of, within
from ..errors import ConfigError

Place: TypeAlias = Literal["none", "input", "output", "both"]

PLACES: tuple[Place, ...] = ("none", "input", "output", "both")
LAYERS = ("mix", "top", "average", *map(str, range(10)), *map(str, range(-1, -11, -1)))
MAX_COUNT = 1 << 40
MAX_WIDTH = 1 << 16
MAX_LAYERS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class ElmoPlacement(Config):
    """Where ELMo enters the task model, and how (paper, equation 1 and section 3.3)."""

    place: Place = "input"
    """`input` for [x; ELMo], `output` for [h; ELMo], `both`, each with its own mix, or `none`."""
    layers: str = "mix"
    """`mix` learns the weights; `top`, `average` or a number is fixed. γ is learned in any case."""
    l2: float = 0.001
    """λ‖s‖² in the loss: 1 keeps the mix near the average, 0.001 frees it."""
    layer_norm: bool = False
    dropout: float = 0.5
    finetune: bool = False
    """Train the biLM, too; nothing is computed in advance then."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", str(self.layers))  # a setting's 1 is a number
        one_of("place", self.place, PLACES)
        one_of("layers", self.layers, LAYERS)
        below_one(self, "dropout")
        if not self.l2 >= 0:
            raise ConfigError(f"l2={self.l2}: expected 0 or more")

    @property
    def at_input(self) -> bool:
        """Whether the model reads [x; ELMo]."""
        return self.place in ("input", "both")

    @property
    def at_output(self) -> bool:
        """Whether the model reads [h; ELMo]."""
        return self.place in ("output", "both")

    @property
    def mixes(self) -> list[str]:
        """The names of the learned mixes: `input`, `output`, both or none."""
        return ["input"] * self.at_input + ["output"] * self.at_output


@dataclass(frozen=True, kw_only=True, slots=True)
class WordsConfig(Config):
    """The context-free x_k of a task: word vectors, and the task's own character CNN."""

    dim: int = 100
    """Width of learned word vectors where no static ones are given; 0 for none."""
    min_count: int = 2
    """Rarer training words get the learned vector of unknown ones."""
    tune_static: bool = False
    """Train the given static vectors on, too."""
    lowercase: bool = True
    """Learned word vectors do not see capitals; the characters do."""
    char_dim: int = 16
    char_filters: int = 128
    """Number of filters; 0 for no character CNN."""
    char_width: int = 3
    max_characters: int = 50
    dropout: float = 0.5

    def __post_init__(self) -> None:
        below_one(self, "dropout")
        within(self, 0, MAX_WIDTH, "dim", "char_filters")
        within(self, 1, MAX_WIDTH, "char_dim", "char_width", "min_count")
        within(self, 3, 1000, "max_characters")
        if self.char_width > self.max_characters:
            raise ConfigError(f"char_width={self.char_width}: words have {self.max_characters}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerConfig(Config):
    """Clipped gradients, until the development data get no better."""

    optimizer: Literal["adam", "adadelta"] = "adam"
    """Adadelta has ρ = 0.95 and ε = 1e-6, and in the papers a `lr` of 1."""
    lr: float = 1e-3
    batch_size: int = 32
    epochs: int = 50
    patience: int = 8
    """Epochs without a better score before the run ends; 0 for never."""
    halve_after: int = 3
    """Epochs without a better score before the learning rate is halved; 0 for never."""
    clip_norm: float = 5.0
    weight_decay: float = 0.0
    ema: float = 0.0
    """Decay of a moving average of the weights that predicts in their place; 0 for none."""
    bilm_lr: float = 1e-4
    """Learning rate of a biLM that is trained, too."""
    cache_mb: int = 1024
    """Memory for the layers of the biLM; more go to disk."""
    fraction: float = 1.0
    """Share of the training examples to learn from, drawn at random."""
    checkpoint_minutes: float = 5.0
    """Write a checkpoint in the middle of an epoch when the last one is this old."""
    seed: int = 1

    def __post_init__(self) -> None:
        one_of("optimizer", self.optimizer, ("adam", "adadelta"))
        below_one(self, "ema")
        within(self, 1, MAX_COUNT, "batch_size", "epochs")
        within(self, 0, MAX_COUNT, "patience", "halve_after", "seed", "cache_mb")
        for name in ("lr", "clip_norm", "bilm_lr", "checkpoint_minutes"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)}: expected a positive number")
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction={self.fraction}: expected more than 0, at most 1")
        if not self.weight_decay >= 0:
            raise ConfigError(f"weight_decay={self.weight_decay}: expected 0 or more")

    def is_over(self, epoch: int, since_best: int) -> bool:
        """Whether a training ends after so many epochs, and so many since the best one."""
        return epoch >= self.epochs or 0 < self.patience <= since_best


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskConfig(Config):
    """What the configurations of all tasks share."""

    elmo: ElmoPlacement = field(default_factory=ElmoPlacement)
    words: WordsConfig = field(default_factory=WordsConfig)
    train: TrainerConfig = field(default_factory=TrainerConfig)
    tokenizer: str | None = None
    """For text that has no tokens yet; by default the biLM's own, or `regex` without one."""
    held_out: float = 0.0
    """Share of a file, by its texts (of SQuAD, by its articles), for development alone; training
    reads the rest. With it, one file can be both."""

    def __post_init__(self) -> None:
        below_one(self, "held_out")


def below_one(config: object, *names: str) -> None:
    """Refuse a configuration whose fields `names` are not all of 0 up to 1."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ConfigError(f"{name}={getattr(config, name)}: expected 0 or more, below 1")
