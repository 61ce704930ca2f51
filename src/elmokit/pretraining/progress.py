"""How far a run has come: everything beside the tensors that it takes to go on."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import FileError
from .config import TrainConfig


@dataclass(kw_only=True, slots=True)
class Progress:
    """Counts and places; a plain JSON object on disk.

    Attributes:
        step: Steps of the optimiser that are done.
        tokens: Tokens read, each once for both directions.
        epochs: Passes over the text, with the current one's share.
        place: Where the reading of the text stands (see the reader).
        seconds: Time spent, over all parts of the run.
        loss: Sum of the mean losses since the last logged step.
        loss_steps: Steps in that sum.
        best: Lowest held-out perplexity.
        since_best: Evaluations since then.
        is_done: Whether the run has come to its end.
    """

    step: int = 0
    tokens: int = 0
    epochs: float = 0.0
    place: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    loss: float = 0.0
    loss_steps: int = 0
    best: float | None = None
    since_best: int = 0
    is_done: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """What `to_dict` gave, perhaps in an older version, which knew fewer fields.

        Raises:
            FileError: A newer elmokit wrote it.
            ValueError: A value cannot be right.
        """
        unknown = sorted(values.keys() - {f.name for f in fields(cls)})
        if unknown:
            raise FileError(
                f"written by a newer elmokit ({', '.join(unknown):.80}); upgrade to resume it"
            )
        for name, value in values.items():
            if not _fits(name, value):
                raise ValueError(f"{name}={value!r:.40}")
        return cls(**values)

    def share(self, config: TrainConfig, reserve: float = 0.0) -> float:
        """The share of the budget that is used up; 1 or more at the end.

        Args:
            config: Has the budget.
            reserve: Seconds of `max_minutes` that are kept for what comes after the last step.
        """
        shares = [
            done / limit
            for done, limit in (
                (self.epochs, config.epochs),
                (self.step, config.max_steps),
                (self.tokens, config.max_tokens),
                ((self.seconds + reserve) / 60, config.max_minutes),
            )
            if limit is not None
        ]
        return max(shares)


_MANY = 1 << 63


def _fits(name: str, value: Any) -> bool:
    """Whether a field can have a value."""
    if name in ("step", "tokens", "loss_steps", "since_best"):
        return type(value) is int and 0 <= value < _MANY
    if name in ("epochs", "seconds", "loss", "best"):
        is_number = type(value) is float or (type(value) is int and abs(value) < _MANY)
        return is_number or (name == "best" and value is None)
    return isinstance(value, dict if name == "place" else bool)
