"""The decoder of BIO tags against all sequences that there are."""

from itertools import product

import pytest
import torch

from elmokit.tasks.parts.crf import decode_bio
from elmokit.tasks.parts.tags import bio_fault
from elmokit.tasks.srl import bio_tags


def test_order_of_tags() -> None:
    assert bio_tags(["A0", "V"]) == ["O", "B-A0", "B-V", "I-A0", "I-V"]


@pytest.mark.parametrize("seed", range(8))
def test_decoder_equals_brute_force(seed: int) -> None:
    torch.manual_seed(seed)
    tags = bio_tags(["A0", "A1"])
    lengths = (4, 1, 3, 2)
    # I- is likely, so that the constraints matter.
    logits = torch.randn(len(lengths), 4, len(tags)) + torch.tensor([0.0, 0, 0, 1, 1])
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    found = decode_bio(logits, mask)
    num_constrained = 0
    for row, length in enumerate(lengths):
        sequences = [s for s in product(range(5), repeat=length)]
        allowed = [s for s in sequences if bio_fault([tags[i] for i in s]) is None]
        assert len(allowed) < len(sequences)

        def score(sequence: tuple[int, ...], row: int = row) -> float:
            return sum(logits[row, t, i].item() for t, i in enumerate(sequence))

        assert tuple(found[row]) == max(allowed, key=score)
        num_constrained += max(sequences, key=score) not in allowed
    assert num_constrained > 0


def test_a_late_score_changes_the_beginning() -> None:
    # Alone, the first token is O (2 against 1); with I-X after it, B-X.
    logits = torch.tensor([[[2.0, 1.0, 5.0], [0.0, 0.0, 3.0]]])
    assert decode_bio(logits, torch.tensor([[True, False]])) == [[0]]
    assert decode_bio(logits, torch.tensor([[True, True]])) == [[1, 2]]


def test_one_tag_and_long_spans() -> None:
    assert decode_bio(torch.zeros(1, 3, 1), torch.ones(1, 3, dtype=torch.bool)) == [[0, 0, 0]]
    logits = torch.zeros(1, 50, 3)
    logits[..., 2] = 1
    assert decode_bio(logits, torch.ones(1, 50, dtype=torch.bool)) == [[1] + [2] * 49]
