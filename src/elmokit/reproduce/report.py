"""What an experiment found, as Markdown for people and JSON for programs."""

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..files.write import whole_file, write_json
from ..tasks.config import TaskConfig
from .arms import Outcome
from .paper import OTHER, error_reduction
from .plan import file_name
from .setup import Setup

NONE = "–"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells under a header; the first column names the rows."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def __str__(self) -> str:
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        return "\n".join(_line(cells) for cells in (self.header, rule, *self.rows))


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What is written to OUT.

    Attributes:
        title: What was done.
        table: What was found, beside the paper's figures.
        notes: What the table has to be read with.
        sizes: What it was done with: lines of the statement of size.
        facts: Everything, as JSON holds it.
        pictures: Names of files in OUT.
    """

    title: str
    table: Table
    notes: Sequence[str]
    sizes: Sequence[str]
    facts: dict[str, Any]
    pictures: Sequence[str] = ()
    left_out: Sequence[str] = field(default=())

    def markdown(self, setup: Setup) -> str:
        """The report as Markdown."""
        sizes = [*self.sizes, f"biLM: {setup.bilm}", *self.left_out]
        parts = [
            f"# {self.title}",
            *(f"![{self.title}]({name})" for name in self.pictures),
            str(self.table),
            "\n\n".join(self.notes),
            "## Size and settings",
            "\n".join(f"- {size}" for size in sizes),
            f"```\n{setup.command}\n```",
        ]
        return "\n\n".join(part for part in parts if part) + "\n"


def write_report(setup: Setup, report: Report) -> Path:
    """Write `NAME.md` and `NAME.json`; returns the first."""
    path = setup.out / f"{file_name(setup.name, setup.plan)}.md"
    with whole_file(path) as temporary:
        temporary.write_text(report.markdown(setup), encoding="utf-8")
    versions = {
        "elmokit": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    facts = {
        "experiment": setup.name,
        "title": report.title,
        **setup.facts(),
        **report.facts,
        "sizes": list(report.sizes),
        "left_out": list(report.left_out),
        "pictures": list(report.pictures),
        "versions": versions,
    }
    with whole_file(path.with_suffix(".json")) as temporary:
        write_json(temporary, facts)
    return path


def score(mean: float, deviation: float | None = None) -> str:
    """A percentage, and its deviation where there is one.

    >>> score(81.234), score(81.234, 0.31)
    ('81.2', '81.2 ± 0.3')
    """
    return f"{mean:.1f} ± {deviation:.1f}" if deviation else f"{mean:.1f}"


def score_of(outcome: Outcome) -> str:
    """The score of a run; with several seeds, mean and deviation."""
    return score(outcome.mean, outcome.deviation)


def gains(before: float, after: float) -> tuple[str, str]:
    """What `after` gained: percentage points, and the share of the errors.

    >>> gains(90.15, 92.22)
    ('+2.1', '21.0 %')
    """
    return f"{after - before:+.1f}", f"{error_reduction(before, after):.1f} %"


def run_sizes(setup: Setup, outcomes: Iterable[Outcome]) -> list[str]:
    """The statement of size of task runs: a line a task and one of what they share."""
    firsts: dict[str, Outcome] = {}
    for outcome in outcomes:
        firsts.setdefault(outcome.job.task, outcome)
    lines = []
    for task, outcome in firsts.items():
        train, card = outcome.job.config.train, outcome.card
        share = f", a share of {train.fraction:g}" if train.fraction < 1 else ""
        epochs = "1 epoch" if train.epochs == 1 else f"{train.epochs} epochs"
        patience = f" (patience {train.patience})" if train.patience else ""
        lines.append(
            f"{task}: {outcome.num_examples:,} training examples ({_place(setup, card, 'train')}"
            f"{share}), {card['dev']['examples']:,} to score ({_place(setup, card, 'dev')}); "
            f"at most {epochs}{patience}, batches of {train.batch_size}, "
            f"{train.optimizer} with a learning rate of {train.lr:g}; {_own(outcome.job.config)}"
        )
    first = next(iter(firsts.values()))
    numbers = ", ".join(str(seed["seed"]) for seed in first.summary["seeds"])
    is_one = len(first.summary["seeds"]) == 1
    meaning = "" if is_one else "; mean ± standard deviation of their best epochs"
    lines.append(f"seed{'' if is_one else 's'} {numbers}{meaning}")
    static = {o.card["static"] and Path(o.card["static"]).name for o in firsts.values()}
    names = sorted(name or "none, learned word vectors instead" for name in static)
    lines.append(f"static vectors of all arms: {'; '.join(names)}")
    return lines


def _own(config: TaskConfig) -> str:
    """The sizes of a task model, which only its task has."""
    shared = {field.name for field in fields(TaskConfig)}
    own = [f.name for f in fields(config) if f.name not in shared]
    return ", ".join(f"{name} {getattr(config, name)}" for name in own)


def paper_note(what: str) -> str:
    """How to read the figures of the paper."""
    return f"{OTHER}: {what}. These figures show the size of the effect, not a score to match."


def italic(text: str) -> str:
    """A cell that is the paper's."""
    return f"*{text}*" if text and text != NONE else text


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _place(setup: Setup, card: dict[str, Any], part: str) -> str:
    return str(Path(card[part]["path"]).relative_to(setup.data))
