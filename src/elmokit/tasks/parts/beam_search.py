"""Greedy and beam search over any model that predicts one unit after the other.

The model is a function: from the last unit of each hypothesis and a state, to the log probabilities
of the next unit and the next state. Many sources are searched at once, each as if it were alone.

A hypothesis y of n units ends with EOS, which counts, and its score is

    log p(y, EOS) / (n + 1)^α

A hypothesis that reaches its longest length gets EOS next, whatever that costs: so all have the
same kind of score. A source has `beam` places. In each step the best continuations of its live
hypotheses compete for those that are left, and one that ends keeps its place; the search is over
when all have ended. So a beam of 1 is greedy search, and one of |V|^L or more is exhaustive for
up to L units. Among equals, the earlier hypothesis wins, then the smaller unit.

Shapes: N live hypotheses of all sources, V units.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from ...errors import ConfigError
from ...nn.shapes import Float, Int


class State(Protocol):
    """What a model remembers of each hypothesis."""

    def select(self, rows: Int[Tensor, " M"]) -> Self:
        """The state of these hypotheses, in this order; some may be there several times."""


StateT = TypeVar("StateT", bound=State)


class Step(Protocol[StateT]):
    """A model that predicts the next unit."""

    def __call__(
        self, last: Int[Tensor, " N"], state: StateT
    ) -> tuple[Float[Tensor, "N V"], StateT]:
        """The log probabilities of the next unit after each `last` one, and the next state."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Units without EOS, and what the model thinks of them.

    Attributes:
        units: The units.
        log_probability: Of the units and EOS.
        score: The same, normalised by the length.
        is_cut: Whether EOS came only because the hypothesis had reached its longest length.
    """

    units: tuple[int, ...]
    log_probability: float
    score: float
    is_cut: bool = False


class _Live(NamedTuple):
    """A hypothesis that has not ended."""

    source: int
    units: tuple[int, ...]
    log_probability: float


class _Continuation(NamedTuple):
    """A live hypothesis with one more unit; they sort from the best to the worst."""

    cost: float
    row: int
    unit: int
    source: int


def beam_search(
    step: Step[StateT],
    state: StateT,
    limits: Sequence[int],
    *,
    bos: int,
    eos: int,
    beam: int,
    length_penalty: float = 1.0,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, from the best to the worst: at most `beam`, at least one.

    Args:
        step: The model.
        state: Its state before the first unit, one row for each source.
        limits: The most units that a hypothesis of each source may have, EOS not counted.
        bos: The unit before the first.
        eos: The unit after the last.
        beam: How many hypotheses a source may have.
        length_penalty: α: 0 compares probabilities, 1 the mean log probability of a unit.
        device: Where `step` wants its units.
    """
    _check(beam, length_penalty, limits)
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    live = [_Live(source, (), 0.0) for source in range(len(limits))]
    while live:
        last = [hypothesis.units[-1] if hypothesis.units else bos for hypothesis in live]
        log_p, state = step(torch.tensor(last, device=device), state)
        is_full = [len(hypothesis.units) >= limits[hypothesis.source] for hypothesis in live]
        rows: list[int] = []
        following: list[_Live] = []
        continuations = _continuations(live, log_p, is_full, eos, beam)
        for source, found in groupby(continuations, lambda c: c.source):
            places = beam - len(finished[source])
            for cost, row, unit, _ in sorted(found)[:places]:
                units = live[row].units
                if unit == eos:
                    score = -cost / (len(units) + 1) ** length_penalty
                    finished[source].append(Hypothesis(units, -cost, score, is_full[row]))
                else:
                    rows.append(row)
                    following.append(_Live(source, (*units, unit), -cost))
        live = following
        state = state.select(torch.tensor(rows, dtype=torch.long, device=device))
    # Sorting keeps the order of equals: the one that ended first.
    return [sorted(hypotheses, key=lambda h: -h.score) for hypotheses in finished]


def greedy_search(
    step: Step[StateT],
    state: StateT,
    limits: Sequence[int],
    *,
    bos: int,
    eos: int,
    length_penalty: float = 1.0,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """The hypothesis of each source that takes the most probable unit in every step.

    Arguments as for `beam_search`.
    """
    _check(1, length_penalty, limits)
    units: list[list[int]] = [[] for _ in limits]
    totals = [0.0] * len(limits)
    is_cut = [False] * len(limits)
    live = list(range(len(limits)))
    while live:
        last = [units[source][-1] if units[source] else bos for source in live]
        log_p, state = step(torch.tensor(last, device=device), state)
        values, best = (column.squeeze(1).tolist() for column in top_units(log_p, 1))
        costs_of_eos = log_p[:, eos].tolist()
        rows = []
        for row, source in enumerate(live):
            if len(units[source]) >= limits[source]:
                is_cut[source] = True
                totals[source] += costs_of_eos[row]
                continue
            totals[source] += values[row]
            if best[row] != eos:
                units[source].append(best[row])
                rows.append(row)
        live = [live[row] for row in rows]
        state = state.select(torch.tensor(rows, dtype=torch.long, device=device))
    return [
        Hypothesis(tuple(u), total, total / (len(u) + 1) ** length_penalty, cut)
        for u, total, cut in zip(units, totals, is_cut, strict=True)
    ]


def top_units(
    log_p: Float[Tensor, "N V"], number: int
) -> tuple[Float[Tensor, "N K"], Int[Tensor, "N K"]]:
    """The largest values of each row and their columns; of equal values, the first columns.

    torch's own `topk` leaves open which of several equal values it takes.
    """
    number = min(number, log_p.shape[1])
    values, columns = log_p.topk(number, dim=1)
    has_rest = (log_p >= values[:, -1:]).sum(dim=1) > number
    columns = columns.sort(dim=1).values
    values, order = log_p.gather(1, columns).sort(dim=1, descending=True, stable=True)
    columns = columns.gather(1, order)
    if has_rest.any():
        of_ties = log_p[has_rest].sort(dim=1, descending=True, stable=True)
        values[has_rest] = of_ties.values[:, :number]
        columns[has_rest] = of_ties.indices[:, :number]
    return values, columns


def _continuations(
    live: Sequence[_Live], log_p: Tensor, is_full: Sequence[bool], eos: int, beam: int
) -> Iterator[_Continuation]:
    """What each live hypothesis may become: its best units, or EOS if it is as long as it may be.

    Impossible units are left out; where all are, EOS comes next, so that the search ends.
    """
    values, units = (column.tolist() for column in top_units(log_p, beam))
    of_eos = log_p[:, eos].tolist()
    for row, hypothesis in enumerate(live):
        before = hypothesis.log_probability
        best = zip(values[row], units[row], strict=True)
        possible = [(value, unit) for value, unit in best if value > -torch.inf]
        if is_full[row] or not possible:
            possible = [(of_eos[row], eos)]
        for value, unit in possible:
            yield _Continuation(-(before + value), row, unit, hypothesis.source)


def _check(beam: int, length_penalty: float, limits: Sequence[int]) -> None:
    if beam < 1:
        raise ConfigError(f"beam={beam}: expected 1 or more")
    if not 0 <= length_penalty < torch.inf:
        raise ConfigError(f"length_penalty={length_penalty}: expected 0 or more")
    if any(limit < 0 for limit in limits):
        raise ConfigError(f"a limit of {min(limits)} units: expected 0 or more")
