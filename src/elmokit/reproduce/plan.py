"""An experiment before it begins: its size (`Plan`), its data, biLM and output (`Setup`)."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from ..config import Config, one_of, within
from ..errors import ConfigError
from ..model import Elmo
from ..tasks.parts.bilm import fingerprint
from ..tasks.runs.trainer import Row

LANGUAGES = ("en", "ko")
_MANY = 1 << 40

OnRun: TypeAlias = Callable[[str, int, int], None]
OnRow: TypeAlias = Callable[[Row], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(Config):
    """How large an experiment is; each experiment reads some of it."""

    seeds: int = 3
    """Models of each arm."""
    epochs: int | None = None
    """Epochs at most; by default the task's."""
    fraction: float = 1.0
    """Share of the training data."""
    fractions: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    """The fractions of Figure 1, of the data that `fraction` leaves."""
    tasks: tuple[str, ...] = ()
    """Names of tasks; by default the paper's, as far as there are data."""
    language: str = "en"
    """Of the part-of-speech probe."""
    max_sentences: int | None = None
    """Of a probe's training data."""
    settings: tuple[str, ...] = ()
    """Such as `train.lr=1e-3`, or `ner.lstm_dim=100` for one task alone."""

    def __post_init__(self) -> None:
        within(self, 1, 10_000, "seeds")
        one_of("language", self.language, LANGUAGES)
        for name in ("epochs", "max_sentences"):
            if getattr(self, name) is not None:
                within(self, 1, _MANY, name)
        for fraction in (self.fraction, *self.fractions):
            if not 0 < fraction <= 1:
                raise ConfigError(f"fraction={fraction}: expected more than 0, at most 1")
        rising = sorted({*self.fractions})
        if list(self.fractions) != rising or len(rising) < 2 or rising[-1] != 1:
            given = ",".join(f"{fraction:g}" for fraction in self.fractions)
            raise ConfigError(f"fractions={given}: expected two or more, rising up to 1")

    def changed(self) -> list[str]:
        """The names of the fields that are not as by default."""
        default = Plan()
        names = (field.name for field in fields(self))
        return [name for name in names if getattr(self, name) != getattr(default, name)]

    def file_name(self, experiment: str) -> str:
        """What the files of an experiment are called: with its language if that is not English."""
        return experiment if self.language == "en" else f"{experiment}-{self.language}"

    def arguments(self) -> list[str]:
        """The options that say this plan on the command line."""
        found: list[str] = []
        for name in self.changed():
            value = getattr(self, name)
            if name == "settings":
                found += [part for setting in value for part in ("--set", setting)]
            elif isinstance(value, tuple):
                text = (v if isinstance(v, str) else f"{v:g}" for v in value)
                found += [f"--{name}", ",".join(text)]
            else:
                found += [f"--{name.replace('_', '-')}", f"{value}"]
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """What every experiment is given.

    Attributes:
        name: What the command line calls it.
        data: Folder of data sets, laid out as `layout.py` says.
        model: Where the biLM is.
        elmo: The biLM, loaded once for all that is trained and measured.
        out: Folder for everything that is written.
        plan: The size.
        resume: Use the runs that `out` has already, and continue those that are not finished.
        force: Replace them.
        on_run: Gets each run's name, its number and their number before it begins.
        on_row: Gets the row of every epoch.
    """

    name: str
    data: Path
    model: str
    elmo: Elmo
    out: Path
    plan: Plan
    resume: bool = False
    force: bool = False
    on_run: OnRun | None = None
    on_row: OnRow | None = None

    @property
    def runs(self) -> Path:
        """Where the task runs go."""
        return self.out / "runs"

    @property
    def tokenizer(self) -> str:
        """What splits text without tokens."""
        return self.elmo.config.tokenizer or "regex"

    @property
    def num_parameters(self) -> int:
        """Of the biLM, without the softmax."""
        return sum(p.numel() for p in self.elmo.bilm.parameters())

    @property
    def bilm(self) -> str:
        """The biLM in a line."""
        return (
            f"{Path(self.model).name or self.model}, {self.num_parameters:,} parameters without "
            f"the softmax, {self.elmo.num_layers} layers of {self.elmo.dim}"
        )

    @property
    def command(self) -> str:
        """The command line that does the same."""
        return command(self.name, self.data, self.model, self.out, self.plan)

    def to_dict(self) -> dict[str, Any]:
        """The setup as JSON holds it."""
        return {
            "command": self.command,
            "plan": self.plan.to_dict(),
            "bilm": {
                "source": self.model,
                "parameters": self.num_parameters,
                "num_layers": self.elmo.num_layers,
                "dim": self.elmo.dim,
                "tokenizer": self.tokenizer,
                "fingerprint": fingerprint(self.elmo),
            },
        }


def command(name: str, data: Path, model: str, out: Path, plan: Plan) -> str:
    """The command line of an experiment."""
    start = ["elmokit", "reproduce", name, "--data", str(data), "--model", model, "-o", str(out)]
    return shlex.join([*start, *plan.arguments()])
