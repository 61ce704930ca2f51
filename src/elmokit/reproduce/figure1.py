"""The score against the share of the training data, with and without ELMo (Figure 1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .arms import BASELINE, ELMO, Outcome, choose_tasks, plan_job, run_jobs
from .paper import FIGURE1, score_name, title_of
from .plots import draw_shares
from .report import Report, Table, gains, run_sizes, score_of
from .setup import Setup

ARMS = (BASELINE, ELMO)


@dataclass(frozen=True, slots=True)
class Curve:
    """A task's scores by share of its training data."""

    task: str
    metric: str
    shares: tuple[float, ...]
    without: tuple[Outcome, ...]
    with_elmo: tuple[Outcome, ...]

    def enough(self) -> float | None:
        """The share with which ELMo is as good as the baseline with all data; None if none is.

        Between two shares, scores are taken to rise evenly with the share's logarithm.
        """
        return share_reaching(
            self.shares, [o.mean for o in self.with_elmo], self.without[-1].mean
        )  # fmt: skip

    def finding(self) -> str:
        """That share in words."""
        share = self.enough()
        if not self.without[-1].mean:
            return f"{title_of(self.task)}: the baseline has learned nothing, nothing to compare."
        if share is None:
            return f"{title_of(self.task)}: ELMo does not reach the baseline with all data."
        least = "at most " if share == self.shares[0] else "about "
        return (
            f"{title_of(self.task)}: with ELMo, {least}{100 * share:.2g} % of the training data "
            "give the score that all of them give without."
        )


def figure1(setup: Setup) -> Report:
    """Train with and without ELMo at every share; a table and a picture."""
    tasks, _ = choose_tasks(setup, ["ner"])
    shares = setup.plan.fractions
    jobs = {
        (task, share, arm): plan_job(setup, task, arm, share)
        for task in tasks
        for share in shares
        for arm in ARMS
    }
    outcomes = run_jobs(setup, list(jobs.values()))
    grid = {key: outcomes[job] for key, job in jobs.items()}
    curves = []
    for task in tasks:
        without, with_elmo = (tuple(grid[task, s, arm] for s in shares) for arm in ARMS)
        curves.append(Curve(task, without[0].metric, shares, without, with_elmo))
    draw_shares(curves, setup.out / "figure1.png")
    whole = [curve.without[-1] for curve in curves]
    return Report(
        title="Score against share of the training data (Figure 1)",
        table=Table(
            ("share", "examples", "dev", "without ELMo", "with ELMo", "gain", "error reduction"),
            [row for curve in curves for row in _rows(curve)],
        ),
        notes=[
            *(curve.finding() for curve in curves),
            "All seeds learn from the same share. The epochs and the patience below are those of "
            "100 %; a share s has 1/√s times as many, so that it is learned to the end, too.",
            FIGURE1,
        ],
        sizes=run_sizes(setup, whole),
        facts={"curves": [_facts(curve) for curve in curves]},
        pictures=["figure1.png"],
    )


def share_reaching(shares: Sequence[float], scores: Sequence[float], target: float) -> float | None:
    """The first share whose score is at least `target`, between shares by logarithms.

    >>> share_reaching([0.01, 0.1, 1.0], [50, 60, 80], 70) == 10**-0.5
    True
    """
    for i, found in enumerate(scores):
        if found >= target:
            if i == 0:
                return shares[0]
            low, high = math.log10(shares[i - 1]), math.log10(shares[i])
            part = (target - scores[i - 1]) / (found - scores[i - 1])
            return float(10 ** (low + part * (high - low)))
    return None


def _rows(curve: Curve) -> list[tuple[str, ...]]:
    return [
        (
            f"{100 * share:g} %",
            f"{without.num_examples:,}",
            f"{title_of(curve.task)} {score_name(curve.metric)}",
            score_of(without),
            score_of(elmo),
            *gains(without.mean, elmo.mean),
        )
        for share, without, elmo in zip(curve.shares, curve.without, curve.with_elmo, strict=True)
    ]


def _facts(curve: Curve) -> dict[str, Any]:
    return {
        "task": curve.task,
        "metric": curve.metric,
        "share_enough": curve.enough(),
        "shares": [
            {"share": share, "without": without.to_dict(), "with": elmo.to_dict()}
            for share, without, elmo in zip(
                curve.shares, curve.without, curve.with_elmo, strict=True
            )
        ],
    }
