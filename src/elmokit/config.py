"""What a biLM is made of, as frozen dataclasses: saved beside the weights, checked when made.

The defaults are the published small model (2x1024_128_2048cnn_1xhighway).
"""

import difflib
import json
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Literal, Self, TypeAlias, Union, get_args, get_origin, get_type_hints

from .errors import ConfigError, quoted

Activation: TypeAlias = Literal["relu", "tanh"]
Characters: TypeAlias = Literal["bytes", "unicode"]
StateMode: TypeAlias = Literal["zero", "warm", "carry"]
Normalization: TypeAlias = Literal["NFC"]

NUM_BYTE_CHARACTERS = 262
"""Ids of the byte scheme: a zero row for padding, 256 bytes, and five marks (see `text.ids`)."""

# Far beyond any model; they bound what a hostile file can cost before its weights are looked at.
_MAX_WIDTH = 1 << 20
_MAX_ROWS = 1 << 31
_MAX_CHARACTERS = 1000
_MAX_LAYERS = 100
_MAX_FLOAT = 3e38  # what float32 can hold


class Config:
    """What all configurations share: plain dictionaries out and in."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON-ready data."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "config") -> Self:
        """The configuration that `to_dict` described; unknown or ill-typed keys are errors."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: expected an object, got {type(values).__name__}")
        hints = get_type_hints(cls)
        for key in values:
            if key not in hints:
                close = difflib.get_close_matches(str(key), hints, n=1)
                hint = f"did you mean {close[0]!r}? " if close else ""
                raise ConfigError(f"{where}.{key}: unknown key; {hint}known: {', '.join(hints)}")
        parsed = {key: _parse(hints[key], value, f"{where}.{key}") for key, value in values.items()}
        return cls(**parsed)

    def override(self, *settings: str) -> Self:
        """The configuration with settings such as `train.lr=3e-4` applied, in their order.

        >>> LstmConfig().override("dim=512", "cell_clip=null").dim
        512
        """
        values = self.to_dict()
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals:
                raise ConfigError(f"{quoted(setting)}: expected name=value, such as train.lr=3e-4")
            *parents, key = name.strip().split(".")
            at: Any = values
            for parent in parents:
                at = at.get(parent) if isinstance(at, dict) else None
            if not isinstance(at, dict):
                known = ", ".join(name for name, value in values.items() if isinstance(value, dict))
                raise ConfigError(f"{quoted(setting)}: no such section; there are {known}")
            value = _literal(text.strip())
            # Where words are expected, a number is one, too: elmo.layers=1.
            is_word = isinstance(at.get(key), str) and type(value) in (int, float)
            at[key] = text.strip() if is_word else value
        return self.from_dict(values, "setting")


@dataclass(frozen=True, kw_only=True, slots=True)
class CharCnnConfig(Config):
    """The character CNN: characters of a word → one vector of `sum(n for _, n in filters)`."""

    characters: Characters = "bytes"
    num_characters: int = NUM_BYTE_CHARACTERS
    max_characters: int = 50
    dim: int = 16
    filters: tuple[tuple[int, int], ...] = (
        (1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024),
    )  # fmt: skip
    activation: Activation = "relu"
    num_highway: int = 1

    def __post_init__(self) -> None:
        one_of("characters", self.characters, ("bytes", "unicode"))
        one_of("activation", self.activation, ("relu", "tanh"))
        within(self, 1, _MAX_WIDTH, "dim")
        within(self, 1, _MAX_ROWS, "num_characters")
        # The marks of word begin and end take two.
        within(self, 3, _MAX_CHARACTERS, "max_characters")
        within(self, 0, _MAX_LAYERS, "num_highway")
        if self.characters == "bytes" and self.num_characters != NUM_BYTE_CHARACTERS:
            raise ConfigError(
                f"num_characters={self.num_characters}: expected {NUM_BYTE_CHARACTERS} for bytes"
            )
        if not self.filters:
            raise ConfigError("filters=(): expected at least one (width, number) pair")
        for width, number in self.filters:
            if not 1 <= width <= self.max_characters or number < 1:
                raise ConfigError(
                    f"filters: ({width}, {number}) is not a width of 1..{self.max_characters} "
                    "and a number of 1 or more"
                )
        if self.num_filters > _MAX_WIDTH:
            raise ConfigError(f"filters: {self.num_filters} in all, expected 1..{_MAX_WIDTH}")

    @property
    def num_filters(self) -> int:
        """Width of the character CNN's output."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderConfig(Config):
    """The token encoder θx: [word vector; character CNN] → x_k, either part optional.

    The published ELMo reads characters only; ELMoForManyLangs adds a word vector; a cached
    token-embedding file is a table of words alone.
    """

    char_cnn: CharCnnConfig | None = field(default_factory=CharCnnConfig)
    num_words: int = 0
    word_dim: int = 0
    projected: bool = True

    def __post_init__(self) -> None:
        within(self, 0, _MAX_ROWS, "num_words")
        within(self, 0, _MAX_WIDTH, "word_dim")
        if (self.num_words > 0) != (self.word_dim > 0):
            raise ConfigError(
                f"num_words={self.num_words}, word_dim={self.word_dim}: "
                "expected both positive, or both 0 for an encoder without word vectors"
            )
        if self.char_cnn is None and self.num_words == 0:
            raise ConfigError("encoder: expected characters (char_cnn), words (num_words) or both")

    @property
    def unprojected_dim(self) -> int:
        """Width of [word vector; character CNN] before the projection."""
        return self.word_dim + (self.char_cnn.num_filters if self.char_cnn else 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LstmConfig(Config):
    """The two stacks of LSTMs; `projection_dim == dim` means that there is no projection."""

    dim: int = 1024
    projection_dim: int = 128
    num_layers: int = 2
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    skip_connections: bool = True
    forget_bias: float = 1.0
    """Added to the forget gate at run time; 0 where a format keeps it inside the bias."""

    def __post_init__(self) -> None:
        within(self, 1, _MAX_WIDTH, "dim", "projection_dim")
        within(self, 1, _MAX_LAYERS, "num_layers")
        if self.projection_dim > self.dim:
            raise ConfigError(
                f"projection_dim={self.projection_dim}: expected at most dim={self.dim}"
            )
        for name in ("cell_clip", "proj_clip"):
            clip = getattr(self, name)
            if clip is not None and not 0 < clip <= _MAX_FLOAT:
                raise ConfigError(
                    f"{name}={quoted(clip)}: expected a positive number, at most "
                    f"{_MAX_FLOAT:g}, or null for none"
                )
        if not -_MAX_FLOAT <= self.forget_bias <= _MAX_FLOAT:
            raise ConfigError(
                f"forget_bias={quoted(self.forget_bias)}: expected a number within "
                f"{_MAX_FLOAT:g} of 0"
            )

    @property
    def projected(self) -> bool:
        """Whether the LSTM output is projected from `dim` to `projection_dim`."""
        return self.projection_dim < self.dim


@dataclass(frozen=True, kw_only=True, slots=True)
class MixConfig(Config):
    """The fixed parts of a saved `ScalarMix`."""

    layer_norm: bool = False
    dropout: float = 0.0
    trainable: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.dropout <= 1:
            raise ConfigError(f"dropout={self.dropout}: expected 0..1")


@dataclass(frozen=True, kw_only=True, slots=True)
class ElmoConfig(Config):
    """A whole model: token encoder, LSTMs, and how text is read.

    `tokenizer` is None where nobody knows how the training text was tokenised.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    lstm: LstmConfig = field(default_factory=LstmConfig)
    num_softmax_words: int = 0
    tokenizer: str | None = "regex"
    normalization: Normalization | None = "NFC"
    state: StateMode = "zero"
    mixes: dict[str, MixConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        within(self, 0, _MAX_ROWS, "num_softmax_words")
        one_of("state", self.state, ("zero", "warm", "carry"))
        one_of("normalization", self.normalization, ("NFC", None))
        width = self.encoder.unprojected_dim
        if not self.encoder.projected and width != self.lstm.projection_dim:
            raise ConfigError(
                f"encoder without projection gives {width} values a token, "
                f"but the LSTM reads projection_dim={self.lstm.projection_dim}"
            )
        if not all(name.isidentifier() for name in self.mixes):
            raise ConfigError(f"mixes={list(self.mixes)}: expected names made of letters and _")

    @property
    def num_layers(self) -> int:
        """Layers that a token has: h_k0 … h_kL."""
        return self.lstm.num_layers + 1

    @property
    def dim(self) -> int:
        """Width of each h_kj = [→h_kj; ←h_kj]."""
        return 2 * self.lstm.projection_dim


def _literal(text: str) -> Any:
    """What a setting's text means: JSON where it is JSON, else the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value  # 20e6 tokens are a whole number of them


def within(config: object, low: int, high: int, *names: str) -> None:
    """Refuse a configuration whose fields `names` are not all of low..high."""
    for name in names:
        if not low <= getattr(config, name) <= high:
            raise ConfigError(f"{name}={getattr(config, name)}: expected {low}..{high}")


def one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that is not among those allowed."""
    if value not in allowed:
        names = ", ".join(map(repr, allowed))
        raise ConfigError(f"{name}={quoted(value)}: expected one of {names}")


def _parse(hint: Any, value: Any, where: str) -> Any:
    """`value` as the type that a field's annotation names (JSON has no tuples, no dataclasses)."""
    if get_origin(hint) in (Union, types.UnionType):  # only ever `X | None` here
        if value is None:
            return None
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    origin, args = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return hint.from_dict(value, where)  # type: ignore[union-attr]
    if origin is Literal:
        return value
    if origin is dict and isinstance(value, Mapping):
        return {str(k): _parse(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if origin is tuple and isinstance(value, (list, tuple)):
        kinds = [args[0]] * len(value) if args[-1] is ... else list(args)
        if len(kinds) == len(value):
            return tuple(
                _parse(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value))
            )
    elif hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer of hundreds of digits
            return float(value)
    elif isinstance(hint, type) and type(value) is hint:
        return value
    raise ConfigError(f"{where}={quoted(value)}: expected {getattr(hint, '__name__', hint)}")
