"""What an experiment found, as Markdown for people and JSON for programs."""

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..files.write import whole_file, write_json
from ..tasks.config import TaskConfig
from .arms import Outcome
from .paper import OTHER, error_reduction
from .plan import Setup

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
        record: Everything, as JSON holds it.
        pictures: Names of files in OUT.
        left_out: A line for each task that was left out, and why.
    """

    title: str
    table: Table
    notes: Sequence[str]
    sizes: Sequence[str]
    record: dict[str, Any]
    pictures: Sequence[str] = ()
    left_out: Sequence[str] = ()

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
    path = setup.out / f"{setup.plan.file_name(setup.name)}.md"
    with whole_file(path) as temporary:
        temporary.write_text(report.markdown(setup), encoding="utf-8")
    versions = {
        "elmokit": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    record = {
        "experiment": setup.name,
        "title": report.title,
        **setup.to_dict(),
        **report.record,
        "sizes": list(report.sizes),
        "left_out": list(report.left_out),
        "pictures": list(report.pictures),
        "versions": versions,
    }
    with whole_file(path.with_suffix(".json")) as temporary:
        write_json(temporary, record)
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
    """The statement of size of task runs: one line per task, then what they share."""
    firsts: dict[str, Outcome] = {}
    for outcome in outcomes:
        firsts.setdefault(outcome.job.task, outcome)
    lines = [f"{task}: {_size(setup, outcome)}" for task, outcome in firsts.items()]
    first = next(iter(firsts.values()))
    numbers = ", ".join(str(seed["seed"]) for seed in first.summary["seeds"])
    is_one = len(first.summary["seeds"]) == 1
    meaning = "" if is_one else "; mean ± standard deviation of their best epochs"
    lines.append(f"seed{'' if is_one else 's'} {numbers}{meaning}")
    learned = "none, learned word vectors instead"
    names = sorted({learned if o.static is None else o.static.name for o in firsts.values()})
    lines.append(f"static vectors of all arms: {'; '.join(names)}")
    return lines


def _size(setup: Setup, outcome: Outcome) -> str:
    """The data, the training and the sizes of a task's runs."""
    train, sides = outcome.job.config.train, outcome.task_json
    names = {side: Path(sides[side]["path"]).relative_to(setup.data) for side in ("train", "dev")}
    fraction = f", a share of {train.fraction:g}" if train.fraction < 1 else ""
    epochs = "1 epoch" if train.epochs == 1 else f"{train.epochs} epochs"
    patience = f" (patience {train.patience})" if train.patience else ""
    return (
        f"{outcome.num_examples:,} training examples ({names['train']}{fraction}), "
        f"{sides['dev']['examples']:,} to score ({names['dev']}); "
        f"at most {epochs}{patience}, batches of {train.batch_size}, "
        f"{train.optimizer} with a learning rate of {train.lr:g}; {_own(outcome.job.config)}"
    )


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
