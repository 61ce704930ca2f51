"""What an experiment compares: the same task model with ELMo here, there, or nowhere.

Each arm of a task is an ordinary run of `train_task` in `OUT/runs`. Its name says what it is, so
that experiments with the same output folder share it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, FileError
from ..files.read import read_json
from ..model import Elmo
from ..tasks.config import ElmoPlacement, Place, TaskConfig, TrainerConfig
from ..tasks.parts.bilm import FrozenLayers
from ..tasks.registry import find_task
from ..tasks.runs.files import holds_run
from ..tasks.runs.train import STATIC_BYTES, train_task
from ..vectors.static import StaticVectors, read_static_vectors
from .layout import DATA_SETS, STATIC, data_set, find_one, task_data
from .plan import Setup


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the models that are compared; None is what the task does by itself."""

    label: str
    place: Place | None = None
    layers: str = "mix"
    l2: float | None = None

    def elmo(self, own: ElmoPlacement) -> ElmoPlacement:
        """Where ELMo goes in this arm of a task that has it as in `own`."""
        place = self.place or own.place
        l2 = own.l2 if self.l2 is None else self.l2
        finetune = own.finetune and place != "none"
        return replace(own, place=place, layers=self.layers, l2=l2, finetune=finetune)


BASELINE = Arm("baseline, no ELMo", "none")
ELMO = Arm("ELMo")
TOP = Arm("top layer", layers="top")
FLAT = Arm("mix, λ = 1", l2=1.0)
FREE = Arm("mix, λ = 0.001", l2=0.001)
INPUT, BOTH, OUTPUT = Arm("input", "input"), Arm("both", "both"), Arm("output", "output")


@dataclass(frozen=True, slots=True)
class Job:
    """A run to be made: an arm of a task, on some fraction of its training data."""

    task: str
    """The name of its data (see `layout.py`)."""
    arm: Arm
    config: TaskConfig
    name: str
    """Of its folder in `OUT/runs`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that is finished. All scores are percentages."""

    job: Job
    summary: dict[str, Any]
    """What `train_task` returned."""
    task_json: dict[str, Any]
    """What the run says about its data and settings."""
    static: Path | None
    """The file of static vectors that it read."""

    @property
    def metric(self) -> str:
        """The name of the score."""
        return str(self.summary["metric"])

    @property
    def scores(self) -> list[float]:
        """The score of each seed on the development data."""
        return [100 * float(seed["dev"][self.metric]) for seed in self.summary["seeds"]]

    @property
    def mean(self) -> float:
        """Their mean."""
        return 100 * float(self.summary["mean"])

    @property
    def deviation(self) -> float:
        """Their standard deviation, 0 for one seed."""
        return 100 * float(self.summary["deviation"])

    @property
    def num_examples(self) -> int:
        """Training examples that were used."""
        return int(self.task_json["train"]["examples"])

    @property
    def mixes(self) -> list[dict[str, Any]]:
        """The layer weights and γ of each seed, by place."""
        return [seed["mixes"] for seed in self.summary["seeds"]]

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON holds it."""
        seeds = self.summary["seeds"]
        return {
            "run": self.job.name,
            "task": self.job.task,
            "arm": self.job.arm.label,
            "metric": self.metric,
            "mean": self.mean,
            "deviation": self.deviation,
            "scores": {str(s["seed"]): score for s, score in zip(seeds, self.scores, strict=True)},
            "seeds": seeds,
            "train": self.task_json["train"],
            "dev": self.task_json["dev"],
            "static": None if self.static is None else str(self.static),
            "config": self.task_json["config"],
        }


def plan_job(setup: Setup, task: str, arm: Arm, fraction: float = 1.0) -> Job:
    """The run of an arm with the settings of the plan, on a fraction of the data that it leaves."""
    found = data_set(task)
    config = find_task(found.task).config_class().override(*found.settings)
    config = config.override(*_settings(setup, task))
    if config.elmo.place == "none":
        raise ConfigError("elmo.place=none: the baseline is run in any case; choose another place")
    elmo = arm.elmo(config.elmo)
    name = "-".join([task, *_elmo_name(elmo), *([f"share-{fraction:g}"] if fraction < 1 else [])])
    # Text without tokens is to be split alike in all arms, also in that without a biLM.
    tokenizer = config.tokenizer or setup.tokenizer
    train = on_fraction(config.train, fraction)
    return Job(task, arm, replace(config, elmo=elmo, train=train, tokenizer=tokenizer), name)


def on_fraction(train: TrainerConfig, fraction: float) -> TrainerConfig:
    """The training on a fraction of the data: 1/√fraction times as many epochs, as much patience.

    With the same number of epochs, a model of few data would make too few steps to learn anything
    (a tagger finds its first entity after about a hundred), and be stopped before.
    """
    longer = {
        name: round(getattr(train, name) * fraction**-0.5)
        for name in ("epochs", "patience", "halve_after")
    }
    return replace(train, fraction=fraction * train.fraction, **longer)


def run_jobs(setup: Setup, jobs: Sequence[Job]) -> dict[Job, Outcome]:
    """Train all runs, or what is left of them; they share what they load and compute."""
    has_static = any(data_set(job.task).has_static for job in jobs)
    static = find_one(setup.data, STATIC) if has_static else None
    data = {job.task: task_data(setup.data, job.task) for job in jobs}
    for job in jobs:
        if holds_run(setup.runs / job.name) and not (setup.resume or setup.force):
            raise FileError(
                f"{setup.runs / job.name} already holds a run; use it with --resume, replace it "
                "with --force, or choose another folder"
            )
    shared = _Shared(setup.elmo, static)
    outcomes: dict[Job, Outcome] = {}
    for number, job in enumerate(jobs, 1):
        if setup.on_run is not None:
            setup.on_run(job.name, number, len(jobs))
        folder, found = setup.runs / job.name, data_set(job.task)
        elmo = setup.elmo if job.config.elmo.place != "none" else None
        summary = train_task(
            found.task, *data[job.task], elmo, folder, job.config, seeds=setup.plan.seeds,
            static=shared.static if found.has_static else None, layers=shared.layers(job),
            resume=not setup.force, force=setup.force, device=str(setup.elmo.device),
            on_row=setup.on_row,
        )  # fmt: skip
        outcomes[job] = Outcome(
            job, summary, read_json(folder / "task.json"), static if found.has_static else None
        )
    return outcomes


class _Shared:
    """What the runs of an experiment read: the biLM, its layers and static vectors, each once.

    Layers are kept while consecutive runs read the same: those of one task, of one kind.
    """

    def __init__(self, elmo: Elmo, static: Path | None) -> None:
        self.elmo = elmo
        self.static: StaticVectors | Path | None = static
        # Of a large file, each run reads the words of its own data.
        if static is not None and static.stat().st_size <= STATIC_BYTES:
            self.static = read_static_vectors(static)
        self._kept: tuple[tuple[str, str, int], FrozenLayers] | None = None

    def layers(self, job: Job) -> FrozenLayers | None:
        """The layers that a run reads; None for one without a frozen biLM."""
        if job.config.elmo.place == "none" or job.config.elmo.finetune:
            return None
        kind, megabytes = job.config.elmo.layers, job.config.train.cache_mb
        key = (job.task, kind, megabytes)
        if self._kept is None or self._kept[0] != key:
            self._kept = None  # two are never in memory together
            self._kept = key, FrozenLayers(self.elmo, kind, max_bytes=megabytes << 20)
        return self._kept[1]


def choose_tasks(setup: Setup, default: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tasks of an experiment, and a line for each that has to be left out.

    Tasks that the plan names must be there.
    """
    if setup.plan.tasks:
        for task in setup.plan.tasks:
            task_data(setup.data, task)
        return list(dict.fromkeys(setup.plan.tasks)), []
    chosen, left_out = [], []
    for task in default:
        try:
            task_data(setup.data, task)
            chosen.append(task)
        except (ConfigError, FileError) as e:
            left_out.append(f"{task} is left out: {e}")
    if not chosen:
        raise ConfigError(f"{setup.name}: no task can be run; {'; '.join(left_out)}")
    return chosen, left_out


def _settings(setup: Setup, task: str) -> list[str]:
    """The settings of a task, those for it alone last."""
    plan = setup.plan
    common = [] if plan.epochs is None else [f"train.epochs={plan.epochs}"]
    common += [] if plan.fraction == 1 else [f"train.fraction={plan.fraction!r}"]
    own = []
    for setting in plan.settings:
        first, _, rest = setting.partition(".")
        if first not in DATA_SETS:
            common.append(setting)
        elif first == task:
            own.append(rest)
    return [*common, *own]


def _elmo_name(elmo: ElmoPlacement) -> list[str]:
    if elmo.place == "none":
        return ["none"]
    return [elmo.place, elmo.layers, *([f"{elmo.l2:g}"] if elmo.layers == "mix" else [])]
