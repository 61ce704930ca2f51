"""Task models with and without ELMo: `ner`, `sst5`, the paper's Tables 1 to 3, Figures 1 and 2."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from ..figures import Mix, Panel, Scores, draw_fractions, draw_heat_map, draw_layer_weights
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
    Outcome,
    choose_tasks,
    plan_job,
    run_jobs,
)
from .layout import data_set
from .paper import (
    FIGURE1,
    FIGURE2,
    PAPER,
    TABLE1,
    TABLE2,
    TABLE3,
    Main,
    error_reduction,
    score_name,
    title_of,
)
from .plan import Setup
from .report import NONE, Report, Table, gains, italic, paper_note, run_sizes, score, score_of

REDUCTION = "Error reduction is the gain over 100 less the baseline's score."
LAYERS = (BASELINE, TOP, FLAT, FREE)


def compare_layers(setup: Setup, task: str) -> Report:
    """One data set: the baseline, the top layer, the mix with λ = 1 and with λ = 0.001."""
    grid = _run(setup, [task], LAYERS)
    base, *others = (grid[task, arm] for arm in LAYERS)
    paper = TABLE1[data_set(task).task]
    before, *after = _paper_gains(paper)
    rows = [
        (BASELINE.label, score_of(base), "", ""),
        *((o.job.arm.label, score_of(o), *gains(base.mean, o.mean)) for o in others),
        (italic(f"{PAPER}: baseline"), before, "", ""),
        (italic(f"{PAPER}: ELMo"), *after),
    ]
    header = (title_of(task), f"dev {score_name(base.metric)}", "gain", "error reduction")
    picture = f"{setup.name}-weights.png"
    is_drawn = draw_layer_weights(
        grid[task, FREE].mixes, setup.out / picture, f"{title_of(task)}: {FREE.label}"
    )
    return Report(
        title=f"{title_of(task)} with and without ELMo",
        table=Table(header, rows),
        notes=[REDUCTION, paper_note(f"Table 1, {paper.data} test data, {paper.metric}")],
        sizes=run_sizes(setup, grid.values()),
        record={"runs": _runs(grid), "paper": {"table1": paper._asdict()}},
        pictures=[picture] if is_drawn else [],
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
                *_paper_gains(TABLE1.get(task)),
            )
        )
    header = ("task", "baseline", "ELMo", "gain", "error reduction")
    paper_header = tuple(italic(f"{PAPER}: {name}") for name in header[1:])
    return Report(
        title="Tasks with and without ELMo (Table 1)",
        table=Table((*header, *paper_header), rows),
        notes=[REDUCTION, paper_note("Table 1, test data")],
        sizes=run_sizes(setup, grid.values()),
        record={"runs": _runs(grid), "paper": {t: p._asdict() for t, p in TABLE1.items()}},
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
    """A table with one row per task and one column per arm."""
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
        record={"runs": _runs(grid), "paper": dict(paper)},
        left_out=left_out,
    )


def _run(setup: Setup, tasks: Sequence[str], arms: Sequence[Arm]) -> dict[tuple[str, Arm], Outcome]:
    """Every arm of every task."""
    jobs = [plan_job(setup, task, arm) for task in tasks for arm in arms]
    return {(job.task, job.arm): outcome for job, outcome in run_jobs(setup, jobs).items()}


def _runs(grid: dict[tuple[str, Arm], Outcome]) -> list[dict[str, Any]]:
    """The runs as JSON holds them, with what each gained over the baseline of its task."""
    runs = []
    for (task, arm), outcome in grid.items():
        values = outcome.to_dict()
        base = grid.get((task, BASELINE))
        if base is not None and arm is not BASELINE:
            values["gain"] = outcome.mean - base.mean
            values["error_reduction"] = error_reduction(base.mean, outcome.mean)
        runs.append(values)
    return runs


def _paper_gains(paper: Main | None) -> tuple[str, ...]:
    """The paper's baseline, ELMo, gain and error reduction."""
    if paper is None:
        return (NONE,) * 4
    cells = (score(paper.baseline), score(paper.elmo, paper.deviation))
    return tuple(map(italic, (*cells, *gains(paper.baseline, paper.elmo))))


@dataclass(frozen=True, slots=True)
class Curve:
    """A task's runs by fraction of its training data."""

    task: str
    fractions: tuple[float, ...]
    without: tuple[Outcome, ...]
    with_elmo: tuple[Outcome, ...]

    def enough(self) -> float | None:
        """The fraction with which ELMo equals the baseline with all data; None if none does.

        Between two fractions, scores are taken to rise evenly with the logarithm.
        """
        scores = [outcome.mean for outcome in self.with_elmo]
        return fraction_reaching(self.fractions, scores, self.without[-1].mean)

    def finding(self) -> str:
        """That fraction in words."""
        fraction = self.enough()
        if not self.without[-1].mean:
            return f"{title_of(self.task)}: the baseline has learned nothing, nothing to compare."
        if fraction is None:
            return f"{title_of(self.task)}: ELMo does not reach the baseline with all data."
        least = "at most " if fraction == self.fractions[0] else "about "
        return (
            f"{title_of(self.task)}: with ELMo, {least}{100 * fraction:.2g} % of the training data "
            "give the score that all of them give without."
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of the table."""
        return [
            (
                f"{100 * fraction:g} %",
                f"{without.num_examples:,}",
                f"{title_of(self.task)} {score_name(without.metric)}",
                score_of(without),
                score_of(elmo),
                *gains(without.mean, elmo.mean),
            )
            for fraction, without, elmo in self._points()
        ]

    def panel(self) -> Panel:
        """The curve as it is drawn."""
        with_elmo, without = (
            Scores([o.mean for o in outcomes], [o.deviation for o in outcomes])
            for outcomes in (self.with_elmo, self.without)
        )
        whole = self.without[-1]
        num_seeds = len(whole.scores)
        bands = f"\nbands: standard deviation of {num_seeds} seeds" if num_seeds > 1 else ""
        title = f"{title_of(self.task)}: {score_name(whole.metric)}, development data"
        x_label = f"share of the {whole.num_examples:,} training examples{bands}"
        return Panel(title, x_label, self.fractions, with_elmo, without)

    def to_dict(self) -> dict[str, Any]:
        """The curve as JSON holds it."""
        return {
            "task": self.task,
            "metric": self.without[0].metric,
            "share_enough": self.enough(),
            "shares": [
                {"share": fraction, "without": without.to_dict(), "with": elmo.to_dict()}
                for fraction, without, elmo in self._points()
            ],
        }

    def _points(self) -> list[tuple[float, Outcome, Outcome]]:
        return list(zip(self.fractions, self.without, self.with_elmo, strict=True))


def figure1(setup: Setup) -> Report:
    """Train with and without ELMo on every fraction; a table and a picture."""
    tasks, _ = choose_tasks(setup, ["ner"])
    fractions = setup.plan.fractions
    jobs = {
        (task, fraction, arm): plan_job(setup, task, arm, fraction)
        for task in tasks
        for fraction in fractions
        for arm in (BASELINE, ELMO)
    }
    outcomes = run_jobs(setup, list(jobs.values()))
    curves = []
    for task in tasks:
        without, with_elmo = (
            tuple(outcomes[jobs[task, fraction, arm]] for fraction in fractions)
            for arm in (BASELINE, ELMO)
        )
        curves.append(Curve(task, fractions, without, with_elmo))
    draw_fractions([curve.panel() for curve in curves], setup.out / "figure1.png")
    whole = [curve.without[-1] for curve in curves]
    return Report(
        title="Score against share of the training data (Figure 1)",
        table=Table(
            ("share", "examples", "dev", "without ELMo", "with ELMo", "gain", "error reduction"),
            [row for curve in curves for row in curve.rows()],
        ),
        notes=[
            *(curve.finding() for curve in curves),
            "All seeds learn from the same share. The epochs and the patience below are those of "
            "100 %; a share s has 1/√s times as many, so that it is learned to the end, too.",
            FIGURE1,
        ],
        sizes=run_sizes(setup, whole),
        record={"curves": [curve.to_dict() for curve in curves]},
        pictures=["figure1.png"],
    )


def fraction_reaching(
    fractions: Sequence[float], scores: Sequence[float], target: float
) -> float | None:
    """The least fraction whose score is at least `target`, interpolated by logarithms.

    >>> fraction_reaching([0.01, 0.1, 1.0], [50, 60, 80], 70) == 10**-0.5
    True
    """
    for i, found in enumerate(scores):
        if found >= target:
            if i == 0:
                return fractions[0]
            low, high = math.log10(fractions[i - 1]), math.log10(fractions[i])
            part = (target - scores[i - 1]) / (found - scores[i - 1])
            return float(10 ** (low + part * (high - low)))
    return None


def figure2(setup: Setup) -> Report:
    """Train every task with ELMo at both places; a table of the weights and a picture."""
    tasks, left_out = choose_tasks(setup, list(TABLE1))
    outcomes = list(run_jobs(setup, [plan_job(setup, task, BOTH) for task in tasks]).values())
    columns = [(o, _mean_mix(o, place)) for place in ("input", "output") for o in outcomes]
    draw_heat_map([mix for _, mix in columns], setup.out / "figure2.png")
    layers = [f"layer {i}" for i in range(setup.elmo.num_layers)]
    rows = [
        (
            f"{mix.title}, {mix.place}",
            *(f"{weight:.2f}" for weight in mix.weights),
            f"{mix.gamma:.2f}",
            f"{score_of(outcome)} ({score_name(outcome.metric)})",
        )
        for outcome, mix in columns
    ]
    record = {
        "columns": [
            {
                "task": outcome.job.task,
                "place": mix.place,
                "weights": list(mix.weights),
                "gamma": mix.gamma,
            }
            for outcome, mix in columns
        ],
        "runs": [outcome.to_dict() for outcome in outcomes],
    }
    penalties = ", ".join(f"{o.job.task} λ = {o.job.config.elmo.l2:g}" for o in outcomes)
    return Report(
        title="Layer weights by task and place (Figure 2)",
        table=Table(("weights", *layers, "γ", "dev score"), rows),
        notes=[
            "softmax(s) of each mix: the mean over the seeds, with ELMo at the input and at the "
            f"output of every model ({penalties}). Weights say how much of a layer is read, not "
            "how good it is: layers differ in the size of their values, too.",
            FIGURE2,
        ],
        sizes=run_sizes(setup, outcomes),
        record=record,
        pictures=["figure2.png"],
        left_out=left_out,
    )


def _mean_mix(outcome: Outcome, place: str) -> Mix:
    """The mix of a run at one place: softmax(s) and γ, means over the seeds."""
    mixes = [mix[place] for mix in outcome.mixes]
    weights = [mean(layer) for layer in zip(*(m["weights"] for m in mixes), strict=True)]
    gamma = mean(m["gamma"] for m in mixes)
    return Mix(title_of(outcome.job.task), place, weights, gamma)
