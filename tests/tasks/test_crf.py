"""The CRF against a sum and a search over all sequences of tags."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.parts.crf import Crf, bioul_transitions

NUM_TAGS = 3


def random_crf(num_tags: int = NUM_TAGS, allowed: Tensor | None = None, seed: int = 0) -> Crf:
    """A CRF whose transitions matter."""
    torch.manual_seed(seed)
    crf = Crf(num_tags, allowed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_()
    return crf


@torch.no_grad()
def score(crf: Crf, logits: Tensor, tags: tuple[int, ...]) -> float:
    """The score of one sequence, by definition."""
    total = crf.start[tags[0]] + crf.end[tags[-1]]
    total = total + sum(logits[t, tag] for t, tag in enumerate(tags))
    return float(total + sum(crf.transitions[a, b] for a, b in pairwise(tags)))


def prefix_mask(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99))
def test_likelihood_is_that_of_brute_force(lengths: list[int], seed: int) -> None:
    crf = random_crf(seed=seed)
    mask = prefix_mask(lengths)
    logits = torch.randn(*mask.shape, NUM_TAGS)
    tags = torch.randint(NUM_TAGS, mask.shape)
    got = crf.log_likelihood(logits, tags, mask)
    for i, length in enumerate(lengths):
        everything = [
            score(crf, logits[i], path) for path in product(range(NUM_TAGS), repeat=length)
        ]
        gold = score(crf, logits[i], tuple(tags[i, :length].tolist()))
        expected = gold - float(torch.logsumexp(torch.tensor(everything), dim=0))
        assert float(got[i].detach()) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_probabilities_of_all_sequences_sum_to_one(length: int) -> None:
    crf = random_crf()
    tags = torch.tensor(list(product(range(NUM_TAGS), repeat=length)))
    logits = torch.randn(1, length, NUM_TAGS).expand(len(tags), -1, -1)
    likelihood = crf.log_likelihood(logits, tags, torch.ones_like(tags, dtype=torch.bool))
    assert float(likelihood.detach().exp().sum()) == pytest.approx(1, abs=1e-5)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99), st.booleans())
def test_decoding_finds_the_best_allowed_sequence(
    lengths: list[int], seed: int, constrained: bool
) -> None:
    allowed = bioul_transitions(["O", "B-X", "L-X", "U-X"]) if constrained else None
    crf = random_crf(4, allowed, seed)
    mask = prefix_mask(lengths)
    logits = torch.randn(*mask.shape, 4) * 3
    for i, path in enumerate(crf.decode(logits, mask)):
        choices = list(product(range(4), repeat=lengths[i]))
        if allowed is not None:
            choices = [c for c in choices if is_allowed(allowed, c)]
        best = max(choices, key=lambda c: score(crf, logits[i], c))
        assert tuple(path) == best


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99))
def test_probabilities_of_spans_are_those_of_brute_force(lengths: list[int], seed: int) -> None:
    allowed = bioul_transitions(["O", "B-X", "L-X", "U-X"])
    crf = random_crf(4, allowed, seed)
    mask = prefix_mask(lengths)
    logits = torch.randn(*mask.shape, 4) * 2
    logits[~mask] = torch.nan  # padding that must not be looked at
    paths = crf.decode(logits.nan_to_num(), mask)
    every = [[(a, b) for b in range(1, n + 1) for a in range(b)] for n in lengths]
    for i, found in enumerate(crf.span_probabilities(logits, mask, paths, every)):
        sequences = [p for p in product(range(4), repeat=lengths[i]) if is_allowed(allowed, p)]
        weights = torch.tensor([score(crf, logits[i], p) for p in sequences]).softmax(0).tolist()
        for (start, end), probability in zip(every[i], found, strict=True):
            piece = tuple(paths[i][start:end])
            same = [w for p, w in zip(sequences, weights) if p[start:end] == piece]
            assert probability == pytest.approx(sum(same), abs=1e-5)
            assert 0 <= probability <= 1


def test_spans_of_no_tokens_have_no_probabilities() -> None:
    nothing = torch.zeros(2, 0, NUM_TAGS), torch.zeros(2, 0, dtype=torch.bool)
    assert random_crf().span_probabilities(*nothing, [[], []], [[], []]) == [[], []]


def is_allowed(allowed: Tensor, path: tuple[int, ...]) -> bool:
    num_tags = len(allowed) - 2
    steps = [num_tags, *path, num_tags + 1]
    return all(bool(allowed[a, b]) for a, b in pairwise(steps))


def test_constraints_hold_against_the_strongest_wish() -> None:
    tags = ["O", "B-X", "I-X", "L-X", "U-X", "B-Y", "I-Y", "L-Y", "U-Y"]
    allowed = bioul_transitions(tags)
    crf = random_crf(len(tags), allowed)
    logits = torch.randn(200, 7, len(tags)) * 1e4
    for path in crf.decode(logits, torch.ones(200, 7, dtype=torch.bool)):
        assert is_allowed(allowed, tuple(path))


def test_padding_changes_neither_likelihood_nor_gradient_nor_path() -> None:
    crf = random_crf()
    logits = torch.randn(1, 3, NUM_TAGS)
    tags = torch.tensor([[2, 0, 1]])
    alone = crf.log_likelihood(logits, tags, prefix_mask([3]))
    path = crf.decode(logits, prefix_mask([3]))
    (expected,) = torch.autograd.grad(alone.sum(), crf.transitions)
    for rubbish in (0.0, 1e4, torch.inf, torch.nan):
        padded = torch.cat([logits, torch.full((1, 2, NUM_TAGS), rubbish)], dim=1)
        mask = torch.tensor([[True, True, True, False, False]])
        among = crf.log_likelihood(padded, torch.tensor([[2, 0, 1, 0, 2]]), mask)
        assert torch.allclose(among, alone, atol=1e-6)
        (got,) = torch.autograd.grad(among.sum(), crf.transitions)
        assert torch.allclose(got, expected, atol=1e-6)
        assert crf.decode(padded, mask) == path


def test_gradients_are_finite_and_reach_everything() -> None:
    crf = random_crf(5, bioul_transitions(["O", "B-X", "I-X", "L-X", "U-X"]))
    logits = (torch.randn(4, 6, 5) * 50).requires_grad_()
    tags = torch.randint(5, (4, 6))
    (-crf.log_likelihood(logits, tags, prefix_mask([6, 1, 3, 2])).sum()).backward()
    for parameter in (logits, *crf.parameters()):
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().sum() > 0
    assert logits.grad is not None
    assert logits.grad[1, 1:].abs().sum() == 0  # padding


def test_half_precision_is_scored_in_single() -> None:
    crf = random_crf()
    logits = torch.randn(1, 4, NUM_TAGS).bfloat16()
    tags, mask = torch.tensor([[0, 1, 2, 0]]), prefix_mask([4])
    got = crf.log_likelihood(logits, tags, mask)
    assert got.dtype == torch.float32
    assert torch.equal(got, crf.log_likelihood(logits.float(), tags, mask))


def test_sentences_without_tokens_have_no_tags_and_are_certain() -> None:
    crf = random_crf()
    mask = torch.tensor([[False, False], [True, False]])
    logits, tags = torch.randn(2, 2, NUM_TAGS), torch.zeros(2, 2, dtype=torch.long)
    assert crf.log_likelihood(logits, tags, mask)[0] == 0
    assert crf.decode(logits, mask)[0] == []
    assert len(crf.decode(logits, mask)[1]) == 1
    nothing = torch.zeros(2, 0)
    assert crf.decode(torch.zeros(2, 0, NUM_TAGS), nothing.bool()) == [[], []]
    assert crf.log_likelihood(
        torch.zeros(2, 0, NUM_TAGS), nothing.long(), nothing.bool()
    ).shape == (2,)


def test_what_cannot_be_decoded_is_an_error() -> None:
    impossible = torch.zeros(NUM_TAGS + 2, NUM_TAGS + 2, dtype=torch.bool)
    mask = prefix_mask([2])
    with pytest.raises(InputError, match="no allowed sequence"):
        random_crf(allowed=impossible).decode(torch.randn(1, 2, NUM_TAGS), mask)
    with pytest.raises(InputError, match="finite"):
        random_crf().decode(torch.full((1, 2, NUM_TAGS), torch.nan), mask)
    with pytest.raises(ConfigError, match=r"\(3, 3\).*\(5, 5\)"):
        Crf(3, impossible[:3, :3])


def test_constraints_are_not_saved_with_the_weights() -> None:
    assert set(random_crf().state_dict()) == {"transitions", "start", "end"}
