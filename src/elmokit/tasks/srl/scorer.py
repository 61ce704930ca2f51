"""Precision, recall and F1 of arguments, counted as by srl-eval.pl, the CoNLL-2005 scorer.

- An argument is right if its label and all of its pieces are.
- A piece C-X belongs to the last X before it: both are one argument, which is right as a whole or
  not at all. Without an X before it, it is an X itself.
- R-X, a reference such as a relative pronoun, is an argument of its own label.
- V, with its pieces C-V, does not count: the predicate is given.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...errors import InputError
from ..tags import spans

NOT_COUNTED = "V"


class Argument(NamedTuple):
    """A label and its pieces, each from its first token to the one after its last."""

    label: str
    pieces: tuple[tuple[int, int], ...]


def arguments(tags: Sequence[str]) -> list[Argument]:
    """The arguments of BIO tags, in the order of their first tokens, V among them.

    Example:
        >>> arguments(["B-ARG1", "B-V", "B-C-ARG1"])
        [Argument(label='ARG1', pieces=((0, 1), (2, 3))), Argument(label='V', pieces=((1, 2),))]
    """
    found: list[Argument] = []
    last: dict[str, int] = {}
    for tag, start, end in spans(tags):
        label = tag.removeprefix("C-")
        if label != tag and label in last:
            head = found[last[label]]
            found[last[label]] = Argument(label, (*head.pieces, (start, end)))
        else:
            last[label] = len(found)
            found.append(Argument(label, ((start, end),)))
    return found


def argument_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """The scores of the BIO tags of frames; what would be 0/0 is 0.

    Returns:
        `precision`, `recall`, `f1` and `support` (arguments in `gold`) of all frames together,
        `perfect`, the share of frames without a mistake, and under `labels` the scores of each
        label.
    """
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} frames are to be found, {len(predicted)} are predicted")
    if not gold:
        raise InputError("there are no frames to score")
    right, said, there = Counter[str](), Counter[str](), Counter[str]()
    num_perfect = 0
    for expected, found in zip(gold, predicted, strict=True):
        if len(expected) != len(found):
            raise InputError(f"{len(found)} tags are predicted of {len(expected)}")
        a, b = _counted(expected), _counted(found)
        num_perfect += a == b
        right.update(_labels(a & b))
        said.update(_labels(b))
        there.update(_labels(a))
    labels = sorted({*said, *there})
    return {
        **_scores(right.total(), said.total(), there.total()),
        "perfect": num_perfect / len(gold),
        "labels": {label: _scores(right[label], said[label], there[label]) for label in labels},
    }


def _counted(tags: Sequence[str]) -> set[Argument]:
    return {argument for argument in arguments(tags) if argument.label != NOT_COUNTED}


def _labels(found: Iterable[Argument]) -> list[str]:
    return [argument.label for argument in found]


def _scores(right: int, said: int, there: int) -> dict[str, Any]:
    return {
        "precision": right / said if said else 0.0,
        "recall": right / there if there else 0.0,
        "f1": 2 * right / (said + there) if said + there else 0.0,
        "support": there,
    }
