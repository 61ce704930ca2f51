"""The tasks by their names."""

from ..errors import ConfigError
from .classification import SentimentTask
from .tagging import NerTask
from .task import Task

TASKS: dict[str, Task] = {task.name: task for task in (NerTask(), SentimentTask())}


def find_task(name: str) -> Task:
    """The task of that name."""
    if name not in TASKS:
        raise ConfigError(f"task {name!r}: expected one of {', '.join(TASKS)}")
    return TASKS[name]
