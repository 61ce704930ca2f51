"""The learned layer weights by task and place (Figure 2)."""

from dataclasses import dataclass
from statistics import mean
from typing import Any

from .arms import BOTH, Outcome, choose_tasks, plan_job, run_jobs
from .paper import FIGURE2, TABLE1, score_name, title_of
from .plots import draw_heat_map
from .report import Report, Table, run_sizes, score_of
from .setup import Setup

PLACES = ("input", "output")


@dataclass(frozen=True, slots=True)
class Column:
    """A task's mix at one place: softmax(s) from layer 0 up, and γ; means over the seeds."""

    task: str
    place: str
    weights: tuple[float, ...]
    gamma: float

    @classmethod
    def of(cls, outcome: Outcome, place: str) -> "Column":
        """The mix of a run."""
        mixes = [mix[place] for mix in outcome.mixes]
        weights = tuple(mean(layer) for layer in zip(*(m["weights"] for m in mixes), strict=True))
        return cls(outcome.job.task, place, weights, mean(m["gamma"] for m in mixes))


def figure2(setup: Setup) -> Report:
    """Train every task with ELMo at both places; a table of the weights and a picture."""
    tasks, left_out = choose_tasks(setup, list(TABLE1))
    outcomes = list(run_jobs(setup, [plan_job(setup, task, BOTH) for task in tasks]).values())
    columns = [Column.of(outcome, place) for place in PLACES for outcome in outcomes]
    draw_heat_map(columns, setup.out / "figure2.png")
    layers = [f"layer {i}" for i in range(setup.bilm.num_layers)]
    scores = {outcome.job.task: outcome for outcome in outcomes}
    rows = [
        (
            f"{title_of(c.task)}, {c.place}",
            *(f"{weight:.2f}" for weight in c.weights),
            f"{c.gamma:.2f}",
            f"{score_of(scores[c.task])} ({score_name(scores[c.task].metric)})",
        )
        for c in columns
    ]
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
        facts={"columns": [_facts(c) for c in columns], "runs": [o.to_dict() for o in outcomes]},
        pictures=["figure2.png"],
        left_out=left_out,
    )


def _facts(column: Column) -> dict[str, Any]:
    return {
        "task": column.task,
        "place": column.place,
        "weights": list(column.weights),
        "gamma": column.gamma,
    }
