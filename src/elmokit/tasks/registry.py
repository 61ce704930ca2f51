"""The tasks by their names: those of elmokit, and those that other packages install.

A package adds a task by an entry point of the group `elmokit.tasks`, whose value is a `Task` or its
class; the command line then knows it by the entry point's name.
"""

from importlib.metadata import EntryPoint, entry_points

from ..errors import ConfigError, quoted
from .classify import ClassifyTask
from .coref import CorefTask
from .extract import ExtractTask
from .ner import NerTask
from .snli import SnliTask
from .squad import SquadTask
from .srl import SrlTask
from .task import AnyTask, Task
from .translate import TranslateTask

GROUP = "elmokit.tasks"
OLD_NAMES = {"sentiment": "classify"}
"""Former names, which commands and runs may still have."""

_ALL = (
    NerTask(),
    ClassifyTask(),
    SquadTask(),
    SnliTask(),
    SrlTask(),
    CorefTask(),
    TranslateTask(),
    ExtractTask(),
)

TASKS: dict[str, AnyTask] = {task.name: task for task in _ALL}


def current_name(name: str) -> str:
    """The name that a task has today."""
    return OLD_NAMES.get(name, name)


def find_task(name: str) -> AnyTask:
    """The task of that name, elmokit's own or one that is installed."""
    name = current_name(name)
    if name in TASKS:
        return TASKS[name]
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name in installed:
        return _load(installed[name])
    raise ConfigError(
        f"task {quoted(name)}: expected one of {', '.join([*TASKS, *installed])}; or one of "
        "your own: train_task(MyTask(), …), load_task(run, task=MyTask()), or an installed entry "
        f"point of the group {GROUP}"
    )


def _load(entry: EntryPoint) -> AnyTask:
    try:
        found = entry.load()
        task = found() if isinstance(found, type) else found
    except Exception as e:
        raise ConfigError(
            f"task {entry.name}: the entry point {entry.value} cannot be loaded: {e}"
        ) from e
    if not isinstance(task, Task):
        raise ConfigError(f"task {entry.name}: the entry point {entry.value} is no elmokit Task")
    return task
