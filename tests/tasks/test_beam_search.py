"""Greedy and beam search on toy models: random tables of what follows each prefix."""

import itertools
from dataclasses import dataclass
from typing import Any, Self

import pytest
import torch
from strategies import assert_refused
from torch import Tensor

from elmokit.tasks.parts.beam_search import Hypothesis, beam_search, greedy_search, top_units

BOS, EOS = 0, 1


@dataclass
class Prefix:
    """The source of each hypothesis, and a number that stands for its whole prefix."""

    source: Tensor
    code: Tensor

    def select(self, rows: Tensor) -> Self:
        return type(self)(self.source[rows], self.code[rows])


class Toy:
    """Log probabilities that depend on the source and on all units before; `calls` counts steps."""

    def __init__(self, num_units: int, seed: int = 0, sharpness: float = 2.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(997, num_units, generator=generator, dtype=torch.float64) * sharpness
        table[:, BOS] = -torch.inf
        self.table = table.log_softmax(dim=1)
        self.calls = 0

    def __call__(self, last: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        self.calls += 1
        code = (state.code * self.table.shape[1] + last + 1) % 10_007
        return self.table[(code + 31 * state.source) % len(self.table)], Prefix(state.source, code)

    def start(self, sources: list[int]) -> Prefix:
        return Prefix(torch.tensor(sources), torch.zeros(len(sources), dtype=torch.long))

    def search(self, sources: list[int], limits: list[int], **options: Any) -> Any:
        return beam_search(self, self.start(sources), limits, bos=BOS, eos=EOS, **options)

    def greedy(self, sources: list[int], limits: list[int]) -> list[Hypothesis]:
        return greedy_search(self, self.start(sources), limits, bos=BOS, eos=EOS)

    def log_probability(self, source: int, units: tuple[int, ...]) -> float:
        """Of a whole sequence with EOS, unit by unit."""
        total, state = 0.0, self.start([source])
        for last, unit in itertools.pairwise((BOS, *units, EOS)):
            log_p, state = self(torch.tensor([last]), state)
            total += float(log_p[0, unit])
        return total


@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_is_greedy_search(seed: int) -> None:
    toy = Toy(6, seed)
    sources, limits = list(range(12)), [3 + i % 5 for i in range(12)]
    assert [found for (found,) in toy.search(sources, limits, beam=1)] == toy.greedy(
        sources, limits
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize(("num_units", "longest"), [(3, 4), (4, 3), (5, 3)])
def test_a_wide_beam_is_exhaustive_search(num_units: int, longest: int, alpha: float) -> None:
    toy = Toy(num_units, seed=num_units)
    others = range(EOS + 1, num_units)
    every = [u for n in range(longest + 1) for u in itertools.product(others, repeat=n)]
    (found,) = toy.search([5], [longest], beam=num_units**longest, length_penalty=alpha)
    assert {h.units for h in found} == {*every} and len(found) == len(every)
    scores = {u: toy.log_probability(5, u) / (len(u) + 1) ** alpha for u in every}
    assert [h.score for h in found] == pytest.approx(sorted(scores.values(), reverse=True))
    assert found[0].units == max(every, key=lambda u: scores[u])


def test_a_wider_beam_finds_what_greedy_search_misses() -> None:
    gains = []
    for seed in range(20):
        toy = Toy(6, seed, sharpness=1.0)
        (narrow,), (wide,) = (toy.search([0], [5], beam=b, length_penalty=0.0) for b in (1, 6**4))
        gains.append(wide[0].log_probability - narrow[0].log_probability)
    assert min(gains) >= 0 and max(gains) > 0


@pytest.mark.parametrize("beam", [1, 3, 5])
def test_a_batch_is_searched_as_each_source_alone(beam: int) -> None:
    toy = Toy(7, seed=3, sharpness=1.0)
    sources, limits = list(range(20)), [i % 9 for i in range(20)]
    together = toy.search(sources, limits, beam=beam)
    alone = [toy.search([s], [n], beam=beam)[0] for s, n in zip(sources, limits, strict=True)]
    assert together == alone
    assert toy.search(sources[::-1], limits[::-1], beam=beam) == together[::-1]


def test_hypotheses_are_scored_as_the_model_scores_them_whether_cut_or_not() -> None:
    toy = Toy(5, seed=1, sharpness=1.0)
    cut, ended = 0, 0
    for source, found in enumerate(toy.search(list(range(10)), [3] * 10, beam=6)):
        assert len({h.units for h in found}) == len(found)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for h in found:
            assert len(h.units) <= 3 and EOS not in h.units and BOS not in h.units
            assert h.is_cut == (len(h.units) == 3)
            assert h.log_probability == pytest.approx(toy.log_probability(source, h.units))
            assert h.score == pytest.approx(h.log_probability / (len(h.units) + 1))
            cut, ended = cut + h.is_cut, ended + (not h.is_cut)
    assert cut and ended


def test_a_longer_hypothesis_can_win_by_the_length_penalty() -> None:
    """By hand: EOS at once has 0.4; `2 EOS` has 0.6 · 0.6 = 0.36, and per unit 0.6."""
    table = torch.tensor([[0.0, 0.4, 0.6], [0.0, 0.6, 0.4]]).log()

    def step(last: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        return table[(last == 2).long()], state

    best = {}
    for alpha in (0.0, 1.0):
        state = Prefix(torch.zeros(1), torch.zeros(1))
        ((first, *_),) = beam_search(
            step, state, [1], bos=BOS, eos=EOS, beam=3, length_penalty=alpha
        )
        best[alpha] = first
    assert best[0.0].units == () and best[0.0].score == pytest.approx(torch.tensor(0.4).log())
    assert best[1.0].units == (2,)
    assert best[1.0].score == pytest.approx(float(torch.tensor(0.36).log()) / 2)


def test_a_search_ends_even_if_the_model_never_ends() -> None:
    toy = Toy(4)
    toy.table[:, EOS] = -torch.inf
    for found in toy.search([0, 1], [50, 7], beam=3):
        assert len(found) == 3 and all(h.is_cut and h.score == -torch.inf for h in found)
    assert toy.calls == 51
    assert [len(h.units) for h in toy.greedy([0, 1], [50, 7])] == [50, 7]


def test_a_search_ends_where_no_unit_is_possible() -> None:
    toy = Toy(4)
    for value in (-torch.inf, torch.nan):
        toy.table[:] = value
        for found in toy.search([0, 1], [5, 5], beam=3):
            assert [h.units for h in found] == [()]


def test_a_source_with_no_room_and_no_sources_have_an_answer() -> None:
    toy = Toy(4)
    ((only,),) = toy.search([0], [0], beam=4)
    assert only.units == () and only.is_cut
    assert only.score == pytest.approx(toy.log_probability(0, ()))
    assert toy.search([], [], beam=2) == [] and toy.greedy([], []) == []


def test_equals_are_ordered_by_their_units() -> None:
    toy = Toy(6)
    toy.table[:] = torch.log(torch.tensor(1 / 5))
    toy.table[:, BOS] = -torch.inf
    (found,) = toy.search([0], [2], beam=4, length_penalty=0.0)
    # Of four places, EOS takes one at once, and 2, 3 and 4 go on: each is worse than the first.
    assert [h.units for h in found] == [(), (2,), (2, 2), (2, 3)]


def test_the_top_units_are_those_of_a_stable_sort() -> None:
    generator = torch.Generator().manual_seed(0)
    for num_values in (1, 2, 3, 100):
        log_p = torch.randint(num_values, (50, 9), generator=generator).double()
        for number in (1, 4, 9, 20):
            expected = log_p.sort(dim=1, descending=True, stable=True)
            values, units = top_units(log_p, number)
            assert torch.equal(values, expected.values[:, :number])
            assert torch.equal(units, expected.indices[:, :number])


def test_settings_that_cannot_work_are_refused() -> None:
    toy = Toy(4)
    assert_refused(lambda: toy.search([0], [3], beam=0), "beam=0")
    assert_refused(lambda: toy.search([0], [3], beam=2, length_penalty=-1.0), "length_penalty=-1")
    assert_refused(lambda: toy.search([0], [-1], beam=2), "-1")
