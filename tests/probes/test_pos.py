"""The POS probe: tags that depend on the word alone are on layer 0; its classifier learns."""

import json

import numpy as np
import pytest
import torch
from strategies import assert_refused

from elmokit import Elmo
from elmokit.probes import LinearSettings, PosResult, pos_probe
from elmokit.probes.layers import spread, token_layers
from elmokit.probes.pos import (
    Features,
    most_frequent_tag_accuracy,
    predict,
    train_linear,
)
from elmokit.tasks.parts.conll import TaggedSentence
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


def clusters(num_rows: int = 300, dim: int = 6, shift: float = 4.0) -> tuple[torch.Tensor, ...]:
    """Three classes around points far from each other, of values of very different sizes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_rows) % 3
    rows = torch.randn(num_rows, dim, generator=generator)
    rows[torch.arange(num_rows), labels] += shift
    return (rows * torch.logspace(-3, 3, dim)).half()[None], labels


def test_separable_classes_are_learned() -> None:
    rows, labels = clusters(shift=20)
    probe = train_linear(Features(rows), labels, 3, LinearSettings())
    assert torch.equal(predict(probe, Features(rows)), labels)


def test_agrees_with_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rows, labels = clusters(shift=1.5)
    probe = train_linear(Features(rows), labels, 3, LinearSettings(weight_decay=0, epochs=100))
    x = ((rows.float() - probe.mean) * probe.scale)[0].numpy()
    expected = linear_model.LogisticRegression(C=1e6).fit(x, labels.numpy()).predict(x)
    agreement = (predict(probe, Features(rows)).numpy() == expected).mean()
    assert agreement > 0.98


def test_training_is_deterministic_and_seeded() -> None:
    rows, labels = clusters(shift=1)
    weights = [
        train_linear(Features(rows), labels, 3, LinearSettings(seed=seed, epochs=2)).linear.weight
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_mix_prefers_the_layer_with_the_answer() -> None:
    rows, labels = clusters()
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(1)).half()
    features = Features(torch.cat([noise, rows, noise.flip(1)]))
    probe = train_linear(features, labels, 3, LinearSettings(epochs=100))
    assert probe.mix is not None
    assert int(probe.mix.weights().argmax()) == 1
    assert (predict(probe, features) == labels).float().mean() > 0.97


def test_average_reads_the_mean_of_the_layers() -> None:
    layers = torch.arange(12.0).half().reshape(2, 3, 2)
    got = Features(layers, average=True).rows(torch.tensor([2, 0]))
    assert torch.equal(got, layers.float().mean(0, keepdim=True)[:, [2, 0]])


def test_constant_values_do_no_harm() -> None:
    rows, labels = clusters(shift=20)
    rows = torch.cat([rows, torch.full_like(rows, 7)], dim=-1)
    probe = train_linear(Features(rows), labels, 3, LinearSettings())
    assert torch.equal(predict(probe, Features(rows)), labels)


def test_bad_settings_are_refused() -> None:
    assert_refused(lambda: LinearSettings(epochs=0), "epochs=0")
    assert_refused(lambda: LinearSettings(learning_rate=-1), "learning_rate=-1")
