"""The tasks by their names."""

from ..errors import ConfigError, quoted
from .classification import SentimentTask
from .coref.task import CorefTask
from .snli.task import SnliTask
from .squad.task import SquadTask
from .srl.task import SrlTask
from .tagging import NerTask
from .task import Task

_ALL = (NerTask(), SentimentTask(), SquadTask(), SnliTask(), SrlTask(), CorefTask())

TASKS: dict[str, Task] = {task.name: task for task in _ALL}


def find_task(name: str) -> Task:
    """The task of that name."""
    if name not in TASKS:
        raise ConfigError(f"task {quoted(name)}: expected one of {', '.join(TASKS)}")
    return TASKS[name]
