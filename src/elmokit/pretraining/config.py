"""A pre-training run as data: its settings, the presets, and the memory that a run takes."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..config import CharCnnConfig, Config, ElmoConfig, EncoderConfig, LstmConfig, one_of, within
from ..errors import ConfigError

TrainEngine: TypeAlias = Literal["auto", "plain"]

_MANY = 1 << 40

_FLOAT = 4
_PROGRAM = 350 << 20
"""Python with torch, before it does anything."""
SOFTMAX_ROWS = 256
"""Rows of a chunk of the full softmax, as in `nn.softmax`, which would import torch."""
_DISTINCT_WORDS = 0.45
"""Distinct words of a batch, as a fraction of its tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig(Config):
    """How the text is cut into batches.

    `lanes`: one endless text a row, read `unroll` tokens at a time, with the state carried on, as
    bilm-tf does; but some rows forget theirs, so that the model knows how a text begins.
    `sentences`: whole sentences of equal length, each from a zero state, both directions over the
    same words.
    """

    reading: Literal["sentences", "lanes"] = "lanes"
    batch_tokens: int = 2560
    """Tokens of a batch of sentences, of all processes together."""
    max_length: int = 100
    """Words of a sentence; what is longer is cut into pieces."""
    lanes: int = 128
    """Rows of a batch of lanes, of all processes together; fewer where the text is small."""
    unroll: int = 20
    reset: float = 0.02
    """Probability that a lane forgets its state before a window."""

    def __post_init__(self) -> None:
        one_of("reading", self.reading, ("sentences", "lanes"))
        within(self, 1, _MANY, "batch_tokens", "max_length", "lanes", "unroll")
        if not 0 <= self.reset <= 1:
            raise ConfigError(f"reset={self.reset}: expected 0..1")


@dataclass(frozen=True, kw_only=True, slots=True)
class SoftmaxConfig(Config):
    """How θs is trained: by the full sum over the vocabulary, or by sampled words."""

    loss: Literal["sampled", "full"] = "sampled"
    num_samples: int = 4096

    def __post_init__(self) -> None:
        one_of("loss", self.loss, ("sampled", "full"))
        within(self, 1, _MANY, "num_samples")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Config):
    """The optimiser, its schedule, the budget, and how often things are written.

    The budget is whichever of `epochs`, `max_steps`, `max_tokens` and `max_minutes` ends first;
    the schedule ends with it. With `max_minutes` the learning rate follows the clock, so that two
    runs are alike but not equal.
    """

    lr: float = 4e-3
    optimizer: Literal["adamw", "adagrad"] = "adamw"
    beta2: float = 0.99
    """AdamW's decay of the squared gradients; the presets have 0.999. Runs of elmokit before it
    was a setting had 0.99, so that is what a run without it resumes with."""
    schedule: Literal["cosine", "linear", "flat", "constant"] = "flat"
    """`flat` stays at `lr` until the last `cooldown` of the budget, so that a run that goes on with
    a larger budget before then is as good as one that had it from the start."""
    cooldown: float = 0.3
    warmup_steps: int = 100
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    loss_scale: float = 1.0
    """Factor of the loss before its gradient; Adagrad's first steps depend on it."""
    dropout: float = 0.1
    accumulate: int = 1
    epochs: float | None = 10.0
    max_steps: int | None = None
    max_tokens: int | None = None
    max_minutes: float | None = None
    patience: int = 0
    """Evaluations without a better perplexity before the run ends; 0 for never."""
    log_every: int = 50
    checkpoint_every: int = 500
    checkpoint_minutes: float = 5.0
    """A checkpoint is also written when the last one is this old."""
    evaluate_every: int = 1000
    evaluate_tokens: int = 100_000
    """Held-out tokens of an evaluation during the run; the last one reads all."""
    softmax_steps: int = 500
    """Steps with the encoder frozen where a loaded model gets a new softmax."""
    vector_steps: int = 3000
    """Steps that fit the token encoder to static vectors, where a run starts from these."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """`bfloat16` for the large products on GPUs."""
    engine: TrainEngine = "auto"
    """`plain` computes with `elmokit.nn` as it is written: slow, for experiments with the model."""
    seed: int = 1

    def __post_init__(self) -> None:
        one_of("optimizer", self.optimizer, ("adamw", "adagrad"))
        one_of("schedule", self.schedule, ("cosine", "linear", "flat", "constant"))
        one_of("precision", self.precision, ("float32", "bfloat16"))
        one_of("engine", self.engine, ("auto", "plain"))
        within(self, 1, _MANY, "accumulate", "log_every", "checkpoint_every", "evaluate_every")
        within(self, 0, _MANY, "warmup_steps", "patience", "softmax_steps", "vector_steps", "seed")
        within(self, 1, _MANY, "evaluate_tokens")
        budgets = ("epochs", "max_steps", "max_tokens", "max_minutes")
        given = tuple(name for name in budgets if getattr(self, name) is not None)
        positive = ("lr", "clip_norm", "loss_scale", "checkpoint_minutes")
        for name, is_valid, allowed in (
            *((name, getattr(self, name) > 0, "a positive number") for name in positive),
            ("cooldown", 0 < self.cooldown <= 1, "more than 0, at most 1"),
            ("beta2", 0 < self.beta2 < 1, "more than 0, below 1"),
            ("dropout", 0 <= self.dropout < 1, "0 or more, below 1"),
            *((name, getattr(self, name) > 0, "more than 0, or null") for name in given),
        ):
            if not is_valid:
                raise ConfigError(f"{name}={getattr(self, name)}: expected {allowed}")
        if not given:
            raise ConfigError(f"no end: expected one of {', '.join(budgets)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainConfig(Config):
    """A whole run. The corpus sets the model's tokenizer, vocabulary and character limit."""

    preset: str = ""
    """The preset that the settings began with, for the record."""
    model: ElmoConfig = field(default_factory=ElmoConfig)
    data: DataConfig = field(default_factory=DataConfig)
    softmax: SoftmaxConfig = field(default_factory=SoftmaxConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


_FILTERS = CharCnnConfig().filters


def _model(
    dim: int, projection: int, filters: tuple[tuple[int, int], ...] = _FILTERS, highways: int = 1
) -> ElmoConfig:
    cnn = CharCnnConfig(filters=filters, num_highway=highways)
    lstm = LstmConfig(dim=dim, projection_dim=projection)
    return ElmoConfig(encoder=EncoderConfig(char_cnn=cnn), lstm=lstm)


PRESETS: dict[str, PretrainConfig] = {
    "tiny": PretrainConfig(
        preset="tiny",
        model=_model(256, 64, ((1, 16), (2, 32), (3, 64), (4, 128))),
        data=DataConfig(batch_tokens=1280, lanes=64),
        softmax=SoftmaxConfig(num_samples=1024),
        train=TrainConfig(beta2=0.999, dropout=0.05),
    ),
    "small": PretrainConfig(
        preset="small",
        model=_model(512, 128, _FILTERS[:5]),
        data=DataConfig(lanes=64),
        train=TrainConfig(beta2=0.999),
    ),
    "medium": PretrainConfig(
        preset="medium",
        model=_model(1024, 256),
        softmax=SoftmaxConfig(num_samples=8192),
        train=TrainConfig(lr=1e-3, beta2=0.999, warmup_steps=1000),
    ),
    "original": PretrainConfig(
        preset="original",
        model=_model(4096, 512, highways=2),
        softmax=SoftmaxConfig(num_samples=8192),
        train=TrainConfig(lr=5e-4, warmup_steps=2000),
    ),
}


def memory_estimate(config: PretrainConfig, vocab_size: int) -> int:
    """Bytes that training takes on one device; measured, it was within a tenth."""
    copies = 3 if config.train.optimizer == "adagrad" else 4  # weights, gradients, averages
    weights = num_weights(config.model, vocab_size) * copies
    return _PROGRAM + _FLOAT * (weights + _activations(config, vocab_size))


def num_weights(model: ElmoConfig, vocab_size: int) -> int:
    """Trained numbers of a model with a softmax of so many words."""
    encoder, lstm = model.encoder, model.lstm
    cnn, width = encoder.char_cnn, lstm.projection_dim
    total = encoder.num_words * encoder.word_dim + (vocab_size * (width + 1))
    if cnn is not None:
        num_filters = sum(n for _, n in cnn.filters)
        total += cnn.num_characters * cnn.dim + sum(n * (w * cnn.dim + 1) for w, n in cnn.filters)
        total += cnn.num_highway * 2 * num_filters * (num_filters + 1)
    if encoder.projected:
        total += (encoder.unprojected_dim + 1) * width
    layer = 4 * lstm.dim * (2 * width + 1) + (lstm.dim * width if lstm.dim != width else 0)
    return total + 2 * lstm.num_layers * layer


def _activations(config: PretrainConfig, vocab_size: int) -> int:
    """Numbers that a step keeps for its gradients."""
    data, lstm, cnn = config.data, config.model.lstm, config.model.encoder.char_cnn
    tokens = data.batch_tokens if data.reading == "sentences" else data.lanes * data.unroll
    dim, width = lstm.dim, lstm.projection_dim
    # Gates, cell and output of each layer, its input and its dropout; gradients of one layer.
    kept = 2 * tokens * (lstm.num_layers * (6 * dim + 5 * width) + 5 * dim)
    if cnn is not None:
        num_filters = sum(n for _, n in cnn.filters)
        kept += int(_DISTINCT_WORDS * tokens) * num_filters * (4 + 5 * cnn.num_highway)
    # The softmax in chunks; the whole vocabulary of one when the held-out text is measured.
    samples = min(config.softmax.num_samples, vocab_size)
    return kept + 3 * SOFTMAX_ROWS * vocab_size + 3 * samples * width
