"""The experiments by name, and `reproduce`, which runs one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import ConfigError, FileError, quoted
from ..figures import require_matplotlib
from ..files.folders import check_output_folder, is_leftover
from ..files.read import json_field, list_folder, read_json
from ..model import Elmo
from ..tasks.parts.bilm import load_bilm
from .comparisons import compare_layers, figure1, figure2, table1, table2, table3
from .plan import OnRow, OnRun, Plan, Setup
from .probes import table5, table6
from .report import Report, write_report

RUNS = frozenset({"seeds", "epochs", "settings"})
TASKS = RUNS | {"fraction", "tasks"}
COMPARED = {"ner": "ner", "sst5": "sentiment"} | {
    name: name for name in ("wnut17", "klue", "nsmc", "3i4k", "korquad")
}
"""Experiments that compare the layers on one data set, the last ones on data of our own choice."""


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


EXPERIMENTS = {
    "table1": Experiment(table1, TASKS),
    "table2": Experiment(table2, TASKS),
    "table3": Experiment(table3, TASKS),
    "table5": Experiment(table5, frozenset({"max_sentences"})),
    "table6": Experiment(table6, frozenset({"max_sentences", "language"})),
    **{
        name: Experiment(partial(compare_layers, task=task), RUNS | {"fraction"})
        for name, task in COMPARED.items()
    },
    "figure1": Experiment(figure1, TASKS | {"fractions"}, is_picture=True),
    "figure2": Experiment(figure2, TASKS, is_picture=True),
}


def reproduce(
    name: str,
    data: str | Path,
    model: str | Path | Elmo,
    out: str | Path,
    plan: Plan | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    device: str | None = None,
    on_run: OnRun | None = None,
    on_row: OnRow | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> Path:
    """Run an experiment of the paper; returns `out/NAME.md`, beside which is `NAME.json`.

    Args:
        name: `table1`, `table2`, `table3`, `table5`, `table6`, `ner`, `sst5`, `figure1`, `figure2`;
            `wnut17`, `klue`, `nsmc`, `3i4k` and `korquad` as `ner` and `sst5` on other data.
        data: Folder of data sets (see `layout.py`).
        model: The biLM: its name or path, in any published format, or as `Elmo.from_pretrained`
            has loaded it.
        out: Folder for everything that is written; task runs go to `out/runs`.
        plan: The size; by default the paper's design with three seeds on all data.
        resume: Use what `out` has already, and continue what is not finished there.
        force: Replace the result and the runs of this experiment in `out`.
        device: Any torch device; by default a GPU if there is one.
        on_run: Gets each run's name, its number and their number before it begins.
        on_row: Gets the row of every epoch.
        on_stage: Gets what is done with which model, when it begins.
    """
    plan = plan or Plan()
    experiment = _experiment(name, plan)
    folder = _output(out, resume=resume, force=force)
    result = folder / f"{plan.file_name(name)}.json"
    if result.is_file() and not (resume or force):
        raise FileError(f"{result} exists already; use --resume, or replace it with --force")
    if result.is_file():
        _check_tasks(result, plan)
    data = Path(data).expanduser()
    if not data.is_dir():
        raise FileError(f"{data}: no such folder; expected one of data sets (--data)")
    model, elmo = _find_bilm(model, device)
    if on_stage is not None:
        num_parameters = sum(parameter.numel() for parameter in elmo.bilm.parameters())
        on_stage(
            f"reproducing {name}: {model}, {num_parameters:,} parameters, {elmo.dim} dimensions, "
            f"on {elmo.device}; data in {data}"
        )
    setup = Setup(
        name=name, data=data.resolve(), model=model, elmo=elmo, out=folder, plan=plan,
        resume=resume, force=force, on_run=on_run, on_row=on_row,
    )  # fmt: skip
    return write_report(setup, experiment.run(setup))


def _find_bilm(model: str | Path | Elmo, device: str | None) -> tuple[str, Elmo]:
    """Where the biLM is, which a report has to say, and the biLM."""
    if not isinstance(model, Elmo):
        return str(model), load_bilm(model, device=device)
    if model.source is None:
        raise ConfigError(
            "the biLM was not loaded by Elmo.from_pretrained; expected one that has a name or path"
        )
    return model.source, model


def _output(out: str | Path, *, resume: bool, force: bool) -> Path:
    """The output folder, which may hold results and runs of experiments, and nothing else.

    Experiments share a folder; each looks after its own results and runs.
    """
    folder = Path(out)
    names = [path.name for path in list_folder(folder)] if folder.is_dir() else []
    is_ours = all(name == "runs" or _is_result(name) or is_leftover(name) for name in names)
    may_exist = resume or not force
    check_output_folder(out, "experiment", is_ours=is_ours, resume=may_exist, force=force)
    return folder


def _is_result(name: str) -> bool:
    """Whether an experiment writes a file of this name."""
    stem, _, kind = name.rpartition(".")
    return kind in ("md", "json", "png") and stem.partition("-")[0] in EXPERIMENTS


def _check_tasks(result: Path, plan: Plan) -> None:
    """Refuse to write a table over one that has more tasks."""
    values, where = read_json(result), str(result)
    tasks = [
        json_field({part: row}, f"{part}.task", str, where=where)
        for part in ("runs", "curves")
        for row in json_field(values, part, list, where=where, default=[])
    ]
    lost = [task for task in dict.fromkeys(tasks) if task not in plan.tasks]
    if plan.tasks and lost:
        every = ",".join(dict.fromkeys([*tasks, *plan.tasks]))
        raise ConfigError(
            f"{result} has {', '.join(lost)} as well, which would be gone; say --tasks {every} "
            "with the settings of all, or choose another folder"
        )


def _experiment(name: str, plan: Plan) -> Experiment:
    """The experiment, if it can be run with such a plan here."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"experiment {quoted(name)}: expected one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    for option in sorted(set(plan.changed()) - experiment.reads):
        known = ", ".join(sorted(experiment.reads))
        raise ConfigError(f"{name} does not read {option}; it reads {known}")
    if experiment.is_picture:
        require_matplotlib()
    return experiment
