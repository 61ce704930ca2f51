"""Task models with and without ELMo: `ner`, `sst5` and the paper's Tables 1, 2 and 3."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..tasks.runs.figure import draw_layer_weights
from .arms import (
    BASELINE,
    BOTH,
    ELMO,
    FLAT,
    FREE,
    INPUT,
    OUTPUT,
    TOP,
    Arm,
    Job,
    Outcome,
    choose_tasks,
    plan_job,
    run_jobs,
)
from .layout import data_set
from .paper import PAPER, TABLE1, TABLE2, TABLE3, error_reduction, score_name, title_of
from .report import (
    NONE,
    Report,
    Table,
    gains,
    italic,
    paper_note,
    run_sizes,
    score,
    score_of,
)
from .setup import Setup

REDUCTION = "Error reduction is the gain over 100 less the baseline's score."
LAYERS = (BASELINE, TOP, FLAT, FREE)


def compare_layers(setup: Setup, task: str) -> Report:
    """One data set: the baseline, the top layer, the mix with λ = 1 and with λ = 0.001."""
    grid = _run(setup, [task], LAYERS)
    base, *others = (grid[task, arm] for arm in LAYERS)
    paper = TABLE1[data_set(task).task]
    before, after = (score(paper.baseline), score(paper.elmo, paper.deviation))
    rows = [
        (BASELINE.label, score_of(base), "", ""),
        *((o.job.arm.label, score_of(o), *gains(base.mean, o.mean)) for o in others),
        (italic(f"{PAPER}: baseline"), italic(before), "", ""),
        (italic(f"{PAPER}: ELMo"), italic(after), *map(italic, gains(paper.baseline, paper.elmo))),
    ]
    header = (title_of(task), f"dev {score_name(base.metric)}", "gain", "error reduction")
    pictures = []
    picture = f"{setup.name}-weights.png"
    free = grid[task, FREE]
    if draw_layer_weights(free.mixes, setup.out / picture, f"{title_of(task)}: {FREE.label}"):
        pictures.append(picture)
    return Report(
        title=f"{title_of(task)} with and without ELMo",
        table=Table(header, rows),
        notes=[
            REDUCTION,
            paper_note(f"Table 1, {paper.data} test data, {paper.metric}"),
        ],
        sizes=run_sizes(setup, grid.values()),
        facts={"runs": _facts(grid), "paper": {"table1": paper._asdict()}},
        pictures=pictures,
    )


def table1(setup: Setup) -> Report:
    """All tasks: baseline, ELMo, gain."""
    tasks, left_out = choose_tasks(setup, list(TABLE1))
    arms = (BASELINE, ELMO)
    grid = _run(setup, tasks, arms)
    rows = []
    for task in tasks:
        base, elmo = (grid[task, arm] for arm in arms)
        rows.append(
            (
                f"{title_of(task)} ({score_name(base.metric)})",
                score_of(base),
                score_of(elmo),
                *gains(base.mean, elmo.mean),
                *_paper_gains(task),
            )
        )
    header = ("task", "baseline", "ELMo", "gain", "error reduction")
    paper_header = tuple(italic(f"{PAPER}: {name}") for name in header[1:])
    return Report(
        title="Tasks with and without ELMo (Table 1)",
        table=Table((*header, *paper_header), rows),
        notes=[REDUCTION, paper_note("Table 1, test data")],
        sizes=run_sizes(setup, grid.values()),
        facts={"runs": _facts(grid), "paper": {t: p._asdict() for t, p in TABLE1.items()}},
        left_out=left_out,
    )


def table2(setup: Setup) -> Report:
    """The layers: baseline, top layer, λ = 1, λ = 0.001."""
    what = "Which layers: the top one, or a mix held near the average or free (Table 2)"
    return _by_arm(setup, what, LAYERS, TABLE2)


def table3(setup: Setup) -> Report:
    """The place: input, both, output."""
    return _by_arm(setup, "Where ELMo goes (Table 3)", (INPUT, BOTH, OUTPUT), TABLE3)


def _by_arm(
    setup: Setup, title: str, arms: Sequence[Arm], paper: Mapping[str, tuple[float, ...]]
) -> Report:
    """A table with a task a row and an arm a column."""
    tasks, left_out = choose_tasks(setup, list(paper))
    grid = _run(setup, tasks, arms)
    rows = []
    for task in tasks:
        found = [grid[task, arm] for arm in arms]
        rows.append((f"{title_of(task)} ({score_name(found[0].metric)})", *map(score_of, found)))
        if task in paper:
            cells = (italic(score(value)) for value in paper[task])
            rows.append((italic(f"{PAPER}: {title_of(task)}"), *cells))
    return Report(
        title=title,
        table=Table(("dev", *(arm.label for arm in arms)), rows),
        notes=[paper_note("development data")],
        sizes=run_sizes(setup, grid.values()),
        facts={"runs": _facts(grid), "paper": dict(paper)},
        left_out=left_out,
    )


def _run(setup: Setup, tasks: Sequence[str], arms: Sequence[Arm]) -> dict[tuple[str, Arm], Outcome]:
    """Every arm of every task."""
    jobs: list[Job] = [plan_job(setup, task, arm) for task in tasks for arm in arms]
    return {(job.task, job.arm): outcome for job, outcome in run_jobs(setup, jobs).items()}


def _facts(grid: dict[tuple[str, Arm], Outcome]) -> list[dict[str, Any]]:
    """The runs, with what each gained over the baseline of its task."""
    facts = []
    for (task, arm), outcome in grid.items():
        values = outcome.to_dict()
        base = grid.get((task, BASELINE))
        if base is not None and arm is not BASELINE:
            values["gain"] = outcome.mean - base.mean
            values["error_reduction"] = error_reduction(base.mean, outcome.mean)
        facts.append(values)
    return facts


def _paper_gains(task: str) -> tuple[str, ...]:
    if task not in TABLE1:
        return (NONE,) * 4
    paper = TABLE1[task]
    cells = (score(paper.baseline), score(paper.elmo, paper.deviation))
    return tuple(map(italic, (*cells, *gains(paper.baseline, paper.elmo))))
