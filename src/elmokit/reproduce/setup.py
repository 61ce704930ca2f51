"""What every experiment is given: data, biLM, a folder for its output, and its size."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ..tasks.parts.bilm import fingerprint, load_bilm
from ..tasks.runs.trainer import Row
from .plan import Plan, command

OnRun: TypeAlias = Callable[[str, int, int], None]
OnRow: TypeAlias = Callable[[Row], None]


@dataclass(frozen=True, slots=True)
class Bilm:
    """What a report says of the biLM."""

    name: str
    parameters: int
    num_layers: int
    dim: int
    tokenizer: str
    fingerprint: str
    device: str

    @classmethod
    def of(cls, source: str, device: str | None) -> "Bilm":
        """The facts about a model, which is loaded for it."""
        elmo = load_bilm(source, device=device)
        return cls(
            name=Path(source).name or source,
            parameters=sum(p.numel() for p in elmo.bilm.parameters()),
            num_layers=elmo.num_layers,
            dim=elmo.dim,
            tokenizer=elmo.config.tokenizer or "regex",
            fingerprint=fingerprint(elmo),
            device=str(elmo.device),
        )

    def __str__(self) -> str:
        return (
            f"{self.name}, {self.parameters:,} parameters without the softmax, "
            f"{self.num_layers} layers of {self.dim}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """An experiment before it begins.

    Attributes:
        name: What the command line calls it.
        data: Folder of data sets, laid out as `layout.py` says.
        model: Where the biLM is.
        out: Folder for everything that is written.
        plan: The size.
        bilm: What the biLM is.
        resume: Use the runs that `out` has already, and continue those that are not finished.
        force: Replace them.
        on_run: Gets each run's name, its number and their number before it begins.
        on_row: Gets the row of every epoch.
    """

    name: str
    data: Path
    model: str
    out: Path
    plan: Plan
    bilm: Bilm
    resume: bool = False
    force: bool = False
    on_run: OnRun | None = None
    on_row: OnRow | None = None

    @property
    def runs(self) -> Path:
        """Where the task runs go."""
        return self.out / "runs"

    @property
    def command(self) -> str:
        """The command line that does the same."""
        return command(self.name, self.data, self.model, self.out, self.plan)

    def facts(self) -> dict[str, Any]:
        """The setup as JSON holds it."""
        return {
            "command": self.command,
            "plan": self.plan.to_dict(),
            "bilm": {
                "source": self.model,
                "parameters": self.bilm.parameters,
                "num_layers": self.bilm.num_layers,
                "dim": self.bilm.dim,
                "tokenizer": self.bilm.tokenizer,
                "fingerprint": self.bilm.fingerprint,
            },
        }
