"""Minimal pairs: the likelier sentence, forward, backward and both."""

import json
from pathlib import Path

import pytest
from strategies import assert_refused, make_tiny, tiny_config

from elmokit import Elmo
from elmokit.probes import minimal_pairs_probe, read_minimal_pairs
from elmokit.probes.minimal_pairs import MinimalPair
from elmokit.text.ids import Vocab

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog", "dogs", "bark", "barks"]
TEXTS = ["the dog barks", "the dogs bark", "the dog bark", "the the", "dogs dogs bark"]


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return make_tiny(tiny_config(num_softmax_words=len(WORDS)), vocab=Vocab(WORDS))


def test_shares_are_those_of_the_scores(elmo: Elmo) -> None:
    pairs = [
        MinimalPair(good, bad, f"p{i % 2}", f"f{i % 3}")
        for i, (good, bad) in enumerate((a, b) for a in TEXTS for b in TEXTS if a != b)
    ]
    result = minimal_pairs_probe(elmo, pairs)
    # Each pair is there both ways, so exactly half are right.
    assert result.by_phenomenon["all"] == {"forward": 0.5, "backward": 0.5, "both": 0.5}
    scores = {text: elmo.score(text) for text in TEXTS}
    first = [pair for pair in pairs if pair.paradigm == "p0"]
    right = [scores[pair.good].forward > scores[pair.bad].forward for pair in first]
    assert result.by_paradigm["p0"]["forward"] == pytest.approx(sum(right) / len(right))
    both = [
        scores[p.good].forward + scores[p.good].backward
        > scores[p.bad].forward + scores[p.bad].backward
        for p in first
    ]
    assert result.by_paradigm["p0"]["both"] == pytest.approx(sum(both) / len(both))
    assert result.num_pairs == {"f0": 7, "f1": 7, "f2": 6, "all": 20} and result.num_unknown == 0
    assert str(result).splitlines()[-2].split() == ["all", "20", "50.0", "50.0", "50.0"]


def test_equal_sentences_share_the_point(elmo: Elmo) -> None:
    result = minimal_pairs_probe(elmo, [MinimalPair("the cat", "the cat", "p", "f")])
    assert result.by_phenomenon["all"]["forward"] == 0.5 and result.num_unknown == 1


def test_a_model_without_softmax_is_refused(tiny: Elmo) -> None:
    assert_refused(lambda: minimal_pairs_probe(tiny, [MinimalPair("a", "b", "p", "f")]), "softmax")


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"good": "a", "bad": "b"}, {"good": "a", "bad": "b", "paradigm": "x", "field": 1}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    first, second = read_minimal_pairs(path)
    assert first.paradigm == "pairs" and second.paradigm == "x"
    for line, message in (
        ("{", "not JSON"), ("[]", "expected a JSON object"), ('{"good": "a"}', "a sentence as bad"),
        ('{"good": "a", "bad": " "}', "a sentence as bad"),
        ('{"good": "a", "bad": "b", "paradigm": 3}', "expected names"),
    ):  # fmt: skip
        path.write_text(line)
        assert_refused(lambda: read_minimal_pairs(path), f"{path}, line 1", message)
    path.write_text("\n")
    assert_refused(lambda: read_minimal_pairs(path), "is empty")
