"""The experiments by name, and `reproduce`, which runs one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, FileError, quoted
from ..files.folders import check_output_folder, is_nothing
from ..files.read import json_field, list_folder, read_json
from .comparisons import compare_layers, table1, table2, table3
from .figure1 import figure1
from .figure2 import figure2
from .plan import Plan, file_name
from .plots import require_plots
from .probes import table5, table6
from .report import Report, write_report
from .setup import Bilm, OnRow, OnRun, Setup

RUNS = frozenset({"seeds", "epochs", "settings"})
TASKS = RUNS | {"fraction", "tasks"}
OTHER_DATA = ("wnut17", "klue", "nsmc", "3i4k", "korquad")
"""The same comparison as `ner` and `sst5` on data that the paper does not have."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of the paper.

    Attributes:
        run: Does it.
        reads: What it reads of the plan.
        is_picture: Whether a picture is the point of it.
    """

    run: Callable[[Setup], Report]
    reads: frozenset[str]
    is_picture: bool = False


def _compare(name: str) -> Callable[[Setup], Report]:
    return lambda setup: compare_layers(setup, name)


EXPERIMENTS = {
    "table1": Experiment(table1, TASKS),
    "table2": Experiment(table2, TASKS),
    "table3": Experiment(table3, TASKS),
    "table5": Experiment(table5, frozenset({"max_sentences"})),
    "table6": Experiment(table6, frozenset({"max_sentences", "language"})),
    "ner": Experiment(_compare("ner"), RUNS | {"fraction"}),
    "sst5": Experiment(_compare("sentiment"), RUNS | {"fraction"}),
    **{name: Experiment(_compare(name), RUNS | {"fraction"}) for name in OTHER_DATA},
    "figure1": Experiment(figure1, TASKS | {"fractions"}, is_picture=True),
    "figure2": Experiment(figure2, TASKS, is_picture=True),
}


def reproduce(
    name: str,
    data: str | Path,
    model: str | Path,
    out: str | Path,
    plan: Plan | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    device: str | None = None,
    on_run: OnRun | None = None,
    on_row: OnRow | None = None,
) -> Path:
    """Run an experiment of the paper; returns `out/NAME.md`, beside which is `NAME.json`.

    Args:
        name: `table1`, `table2`, `table3`, `table5`, `table6`, `ner`, `sst5`, `figure1`, `figure2`;
            `wnut17`, `klue`, `nsmc`, `3i4k` and `korquad` as `ner` and `sst5` on other data.
        data: Folder of data sets (see `layout.py`).
        model: The biLM, in any published format.
        out: Folder for everything that is written; task runs go to `out/runs`.
        plan: The size; by default the paper's design with three seeds on all data.
        resume: Use what `out` has already, and continue what is not finished there.
        force: Replace the result and the runs of this experiment in `out`.
        device: Any torch device; by default a GPU if there is one.
        on_run: Gets each run's name, its number and their number before it begins.
        on_row: Gets the row of every epoch.
    """
    plan = plan or Plan()
    experiment = _experiment(name, plan)
    folder = _output(out, resume=resume, force=force)
    result = folder / f"{file_name(name, plan)}.json"
    if result.is_file() and not (resume or force):
        raise FileError(f"{result} exists already; use --resume, or replace it with --force")
    if result.is_file():
        _check_tasks(result, plan)
    source = Path(data).expanduser()
    if not source.is_dir():
        raise FileError(f"{source}: no such folder; expected one of data sets (--data)")
    setup = Setup(
        name=name,
        data=source.resolve(),
        model=str(model),
        out=folder,
        plan=plan,
        bilm=Bilm.of(str(model), device),
        resume=resume,
        force=force,
        on_run=on_run,
        on_row=on_row,
    )
    return write_report(setup, experiment.run(setup))


def _output(out: str | Path, *, resume: bool, force: bool) -> Path:
    """The output folder, which may hold results and runs of experiments, and nothing else.

    Experiments share a folder; each looks after its own results and runs.
    """
    folder = Path(out)
    names = [path.name for path in list_folder(folder)] if folder.is_dir() else []
    is_ours = all(name == "runs" or _is_result(name) or is_nothing(name) for name in names)
    may_exist = resume or not force
    check_output_folder(out, "experiment", is_ours=is_ours, resume=may_exist, force=force)
    return folder


def _is_result(name: str) -> bool:
    """Whether an experiment writes a file of this name."""
    stem, _, kind = name.rpartition(".")
    return kind in ("md", "json", "png") and stem.partition("-")[0] in EXPERIMENTS


def _check_tasks(result: Path, plan: Plan) -> None:
    """Refuse to write a table over one that has more tasks."""
    tasks = _tasks_in(result)
    lost = [task for task in dict.fromkeys(tasks) if task not in plan.tasks]
    if plan.tasks and lost:
        every = ",".join(dict.fromkeys([*tasks, *plan.tasks]))
        raise ConfigError(
            f"{result} has {', '.join(lost)} as well, which would be gone; say --tasks {every} "
            "with the settings of all, or choose another folder"
        )


def _tasks_in(result: Path) -> list[str]:
    """The tasks of the runs that an experiment has listed."""
    values, where = read_json(result), str(result)
    tasks = []
    for part in ("runs", "curves"):
        for row in json_field(values, part, list, where=where, default=[]):
            tasks.append(json_field({part: row}, f"{part}.task", str, where=where))
    return tasks


def _experiment(name: str, plan: Plan) -> Experiment:
    """The experiment, if it can be run with such a plan here."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"experiment {quoted(name)}: expected one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    for option in sorted(plan.changed() - experiment.reads):
        known = ", ".join(sorted(experiment.reads))
        raise ConfigError(f"{name} does not read {option}; it reads {known}")
    if experiment.is_picture:
        require_plots()
    return experiment
