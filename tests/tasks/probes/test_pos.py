"""The POS probe: tags that are a function of the word are on layer 0; baselines are right."""

import json

import numpy as np
import pytest
import torch
from strategies import assert_refused

from elmokit import Elmo
from elmokit.probes import LinearSettings, PosResult, pos_probe
from elmokit.probes.layers import spread, token_layers
from elmokit.probes.pos import most_frequent_tag_accuracy
from elmokit.tasks.data import TaggedSentence
from elmokit.vectors.static import StaticVectors

WORDS = {"dog": "N", "cat": "N", "tree": "N", "runs": "V", "sees": "V", "a": "D", "the": "D"}


def tagged(text: str) -> TaggedSentence:
    tokens = text.split()
    return TaggedSentence(tuple(tokens), tuple(WORDS[token] for token in tokens))


def sentences(num: int, seed: int) -> list[TaggedSentence]:
    random = np.random.default_rng(seed)
    return [tagged(" ".join(random.choice(list(WORDS), size=5))) for _ in range(num)]


@pytest.fixture
def result(tiny: Elmo) -> PosResult:
    return pos_probe(tiny, sentences(60, 0), sentences(20, 1))


def test_tags_of_words_are_on_layer_zero(result: PosResult) -> None:
    assert list(result.accuracy) == ["most frequent tag", "0", "1", "2", "average", "mix"]
    assert result.accuracy["0"] == 1
    assert result.accuracy["mix"] == 1
    assert result.accuracy["most frequent tag"] == 1
    assert sum(result.mix_weights) == pytest.approx(1)
    sizes = result.num_train_sentences, result.num_train_tokens, result.num_dev_tokens
    assert sizes == (60, 300, 100)


def test_tags_of_the_next_word_are_not_on_layer_zero(tiny: Elmo) -> None:
    def shifted(sentence: TaggedSentence) -> TaggedSentence:
        return TaggedSentence(sentence.tokens, (*sentence.tags[1:], "END"))

    train, dev = ([shifted(s) for s in sentences(n, n)] for n in (300, 50))
    result = pos_probe(tiny, train, dev)
    assert result.accuracy["1"] > result.accuracy["0"] + 0.2


def test_same_result_twice(tiny: Elmo, result: PosResult) -> None:
    assert pos_probe(tiny, sentences(60, 0), sentences(20, 1)) == result


def test_split_words_are_the_means_of_their_parts(tiny: Elmo) -> None:
    words = [["can't", "stop", "(2018)"], ["a"], ["\u2003", "b"]]
    found = token_layers(tiny, words, split=True)
    assert found.shape == (tiny.num_layers, 6, tiny.dim)
    assert tiny.tokenize("can't stop (2018)") == [["ca", "n't", "stop", "(", "2018", ")"]]
    parts = tiny.embed(["can't stop (2018)"], layers="all")[0]
    for word, (start, end) in enumerate([(0, 2), (2, 3), (3, 6)]):
        np.testing.assert_allclose(
            found[:, word], parts[:, start:end].mean(axis=1), rtol=2e-3, atol=1e-3
        )
    assert not found[:, 4].any()  # the tokenizer leaves nothing of it
    np.testing.assert_allclose(found[:, 5], tiny.embed(["b"], layers="all")[0][:, 0], atol=1e-3)


def test_static_vectors_are_a_row(tiny: Elmo) -> None:
    static = StaticVectors({"dog": 0, "runs": 1}, np.eye(2, dtype=np.float32))
    train, dev = [tagged("dog runs")] * 8, [tagged("dog runs the cat")]
    result = pos_probe(tiny, [*train, tagged("the cat")], dev, static=static)
    # The unknown words have one vector between them, so at most one of the two is right.
    assert result.accuracy["static vectors"] in (0.5, 0.75)
    assert result.static_coverage == 0.5
    assert "static vectors know 50.0%" in str(result)


def test_most_frequent_tag() -> None:
    train = [TaggedSentence(("run", "run", "run", "x"), ("V", "V", "N", "N"))]
    dev = [TaggedSentence(("run", "run", "unseen"), ("V", "N", "N"))]
    # Tags are equally frequent over all: the first of the alphabet, N, is for unknown words.
    assert most_frequent_tag_accuracy(train, dev) == pytest.approx(2 / 3)


def test_unseen_tag_counts_as_an_error(tiny: Elmo) -> None:
    dev = [TaggedSentence(("dog", "cat"), ("N", "X"))]
    result = pos_probe(tiny, sentences(60, 0), dev)
    assert result.accuracy["0"] == 0.5
    assert "X" not in result.tags


def test_max_sentences_are_spread(tiny: Elmo) -> None:
    assert list(spread(range(10), 4)) == [0, 2, 5, 7]
    assert list(spread(range(3), 9)) == [0, 1, 2]
    assert_refused(lambda: spread(range(3), 0), "max_sentences=0")
    result = pos_probe(tiny, sentences(60, 0), sentences(5, 1), max_sentences=7)
    assert result.num_train_sentences == 7


def test_result_prints_and_turns_into_json(result: PosResult) -> None:
    lines = str(result).splitlines()
    assert lines[0].split() == ["layer", "accuracy"]
    assert "0                     100.0" in lines
    assert json.loads(json.dumps(result.to_dict()))["settings"]["epochs"] == 20


def test_nothing_to_probe(tiny: Elmo) -> None:
    some = sentences(2, 0)
    assert_refused(lambda: pos_probe(tiny, [], some), "training data")
    assert_refused(lambda: pos_probe(tiny, some, [TaggedSentence((), ())]), "development data")


def test_layers_are_those_of_embed(tiny: Elmo) -> None:
    tokens = [["a", "dog"], [], ["the", "cat", "runs"]]
    got = token_layers(tiny, tokens)
    assert got.dtype == np.float16
    expected = np.concatenate(tiny.embed(tokens, layers="all"), axis=1)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


def test_broken_model_is_told(tiny: Elmo) -> None:
    with torch.no_grad():
        tiny.bilm.forward_lm.layers[0].bias.fill_(float("nan"))
    assert_refused(lambda: token_layers(tiny, [["a"]]), "not finite")


def test_settings_are_kept(tiny: Elmo) -> None:
    settings = LinearSettings(epochs=3, seed=5)
    result = pos_probe(tiny, sentences(5, 0), sentences(2, 1), settings=settings)
    assert result.settings == settings
