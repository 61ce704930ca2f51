"""Labels of data to score that the model has never seen, so that it cannot be right about them."""

import logging
from collections.abc import Sequence
from pathlib import Path

from ..errors import FormatError
from .task import Example, Facts, Task

log = logging.getLogger(__name__)


def warn_of_unseen(task: Task, facts: Facts, examples: Sequence[Example], path: Path) -> None:
    """Say which labels of the examples are not among those that the model knows.

    Args:
        task: The task.
        facts: What the model knows of its training data.
        examples: What is to be scored.
        path: Where they are from.
    """
    try:
        found = task.facts(examples)
    except FormatError:  # too few to learn from, but not to score
        return
    for name, known in facts.items():
        if not isinstance(known, list):
            continue
        unseen = [label for label in found.get(name, ()) if label not in known]
        if unseen:
            log.warning(
                "%s: labels that were never learned: %.120s (the model knows %.120s)",
                path,
                ", ".join(map(str, unseen)),
                ", ".join(map(str, known)),
            )
