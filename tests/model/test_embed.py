"""Vectors of tokens: the numbers of the equations, whatever stands beside a sentence."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle
from strategies import assert_close, batches, make_tiny, models, tiny_config, wild_tokens

from elmokit import Elmo
from elmokit.errors import ConfigError

TINY = make_tiny()
SENTENCES = [["The", "cat", "sat", "."], ["한국어", "문장"], [], ["🙂"], ["a"] * 11, ["The", "cat"]]


@given(models(), batches(), st.data())
@settings(max_examples=60)
def test_embed_equals_the_equations(
    elmo: Elmo, sentences: list[list[str]], data: st.DataObject
) -> None:
    batch_size = data.draw(st.integers(1, 6))
    layers = data.draw(st.sampled_from(["all", "average", "top", *range(elmo.num_layers)]))
    oracle = Oracle.of(elmo)
    got = elmo.embed(sentences, layers=layers, batch_size=batch_size)
    assert len(got) == len(sentences)
    for sentence, vectors in zip(sentences, got):
        expected, _ = oracle.embed(sentence)
        if layers == "average":
            expected = expected.mean(axis=0)
        elif layers != "all":
            expected = expected[-1 if layers == "top" else layers]
        assert vectors.dtype == np.float32
        assert_close(vectors, expected)


@given(st.lists(st.lists(wild_tokens(), max_size=4), max_size=4))
@settings(max_examples=60)
def test_every_string_is_a_token_with_a_finite_vector(sentences: list[list[str]]) -> None:
    vectors = TINY.embed(sentences)
    assert [v.shape for v in vectors] == [(len(s), 32) for s in sentences]
    assert all(np.isfinite(v).all() for v in vectors)


@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=3))
@settings(max_examples=60)
def test_every_text_has_a_vector_for_each_of_its_tokens(texts: list[str]) -> None:
    tokens = TINY.tokenize(texts) if len(texts) == 1 else [TINY.tokenize(t)[0] for t in texts]
    vectors = [TINY.embed(text) for text in texts]
    assert [v.shape for v in vectors] == [(len(s), 32) for s in tokens]
    assert all(np.isfinite(v).all() for v in vectors)


@given(
    st.permutations(range(len(SENTENCES))),
    st.integers(1, 7),
    st.sampled_from(["average", "all", "top", 0, 1]),
)
@settings(max_examples=40)
def test_order_batch_size_and_neighbours_do_not_change_a_vector(
    order: list[int], batch_size: int, layers: str | int
) -> None:
    alone = [TINY.embed([sentence], layers=layers)[0] for sentence in SENTENCES]
    together = TINY.embed([SENTENCES[i] for i in order], layers=layers, batch_size=batch_size)
    for i, got in zip(order, together, strict=True):
        np.testing.assert_allclose(got, alone[i], rtol=0, atol=1e-5)


def test_limit_of_tokens_in_a_batch_does_not_change_a_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = TINY.embed(SENTENCES)
    monkeypatch.setattr("elmokit.model.elmo.MAX_BATCH_TOKENS", 5)
    for got, want in zip(TINY.embed(SENTENCES), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_more_words_than_the_encoder_takes_at_once_do_not_change_a_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = TINY.embed(SENTENCES)
    monkeypatch.setattr("elmokit.engine.embedder.WORDS_AT_ONCE", 3)
    for got, want in zip(TINY.embed(SENTENCES), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_repeated_call_is_bit_equal() -> None:
    for a, b in zip(TINY.embed(SENTENCES), TINY.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(a, b)


def test_repeated_word_has_another_vector_in_another_context() -> None:
    top = TINY.embed([["a", "b", "a"], ["a", "c"]], layers="top")
    assert np.abs(top[0][0] - top[0][2]).max() > 1e-3
    assert np.abs(top[0][0] - top[1][0]).max() > 1e-3


def test_average_top_and_numbers_are_choices_of_all() -> None:
    everything = TINY.embed(SENTENCES, layers="all")
    for layers, expected in (
        ("average", [v.mean(axis=0) for v in everything]),
        ("top", [v[-1] for v in everything]),
        (0, [v[0] for v in everything]),
        (1, [v[1] for v in everything]),
        (2, [v[2] for v in everything]),
    ):
        for got, want in zip(TINY.embed(SENTENCES, layers=layers), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layers", ["all", "average", "top", 0, 1, "mix", "mix:normal"])
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_halves_of_the_directions_together_are_both(layers: str | int, state: str) -> None:
    def embed(direction: str) -> list[np.ndarray]:
        elmo = make_tiny(tiny_config(state=state))
        elmo.add_mix("normal", layer_norm=True)
        elmo.embed([["warm", "up"]])
        return elmo.embed(SENTENCES, layers=layers, direction=direction)

    for both, ahead, back in zip(
        *(embed(direction) for direction in ("both", "forward", "backward")), strict=True
    ):
        np.testing.assert_allclose(np.concatenate([ahead, back], -1), both, rtol=0, atol=1e-6)


def test_forward_half_ignores_what_follows_and_backward_half_what_precedes() -> None:
    one, other = TINY.embed([["a", "b", "c"], ["z", "b", "y"]], layers="top")
    ahead, back = TINY.embed([["a", "b", "q"], ["q", "b", "c"]], layers="top")
    np.testing.assert_allclose(one[1, :16], ahead[1, :16], atol=1e-6)
    np.testing.assert_allclose(one[1, 16:], back[1, 16:], atol=1e-6)
    assert np.abs(one[1] - other[1]).max() > 1e-3


def test_token_vectors_are_the_first_half_of_layer_zero() -> None:
    words = ["The", "cat", "", "한국어", "🙂", "x" * 10_000]
    vectors = TINY.token_vectors(words)
    layer = TINY.embed([words], layers=0)[0]
    np.testing.assert_array_equal(vectors, layer[:, :16])
    np.testing.assert_array_equal(vectors, layer[:, 16:])
    assert TINY.token_vectors([]).shape == (0, 16)
    assert TINY.token_vectors(iter(words)).shape == (6, 16)


def test_text_gives_one_array_and_texts_a_list() -> None:
    text = "He didn't go."
    one = TINY.embed(text)
    assert one.shape == (len(TINY.tokenize(text)[0]), 32)
    np.testing.assert_array_equal(TINY.embed([text])[0], one)
    np.testing.assert_array_equal(TINY.embed([TINY.tokenize(text)[0]])[0], one)


def test_nothing_gives_nothing() -> None:
    assert TINY.embed("").shape == (0, 32)
    assert TINY.embed(" \n").shape == (0, 32)
    assert TINY.embed("", layers="all").shape == (3, 0, 32)
    assert TINY.embed("", direction="forward").shape == (0, 16)
    assert TINY.embed([]) == []
    assert [v.shape for v in TINY.embed([[], ""])] == [(0, 32)] * 2


def test_normalised_tokens_are_equal_and_raw_ones_are_not() -> None:
    composed, decomposed = TINY.embed([["caf\u00e9"], ["cafe\u0301"]])
    np.testing.assert_allclose(composed, decomposed, rtol=0, atol=1e-6)
    raw = make_tiny(tiny_config(normalization=None))
    composed, decomposed = raw.embed([["caf\u00e9"], ["cafe\u0301"]])
    assert np.abs(composed - decomposed).max() > 1e-3


def test_results_may_be_changed_without_changing_each_other() -> None:
    vectors = TINY.embed(SENTENCES)
    expected = [v.copy() for v in vectors]
    vectors[0][...] = 7
    for got, want in zip(vectors[1:], expected[1:]):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(TINY.embed(SENTENCES)[0], expected[0])


@pytest.mark.parametrize("state", ["zero", "warm"])
def test_stream_equals_embed_and_reads_ahead_within_bounds(state: str) -> None:
    elmo = make_tiny(tiny_config(state=state))
    sentences = [[f"w{i}"] * (i % 5) for i in range(200)]
    consumed = 0

    def source():
        nonlocal consumed
        for sentence in sentences:
            consumed += 1
            yield sentence

    stream = elmo.embed_stream(source(), batch_size=2, layers="all")
    assert consumed == 0
    first = next(stream)
    assert 1 <= consumed <= 33
    for got, want in zip([first, *stream], elmo.embed(sentences, layers="all"), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)
    assert consumed == 200


def test_stream_is_endless_where_its_input_is() -> None:
    endless = (["a", "b"] for _ in itertools.count())
    assert len(list(itertools.islice(TINY.embed_stream(endless, batch_size=1), 50))) == 50


def test_generators_are_inputs_like_lists() -> None:
    expected = TINY.embed(SENTENCES)
    generators = [
        (iter(sentence) for sentence in SENTENCES),
        tuple(tuple(sentence) for sentence in SENTENCES),
        np.array([np.array(s, dtype=object) for s in SENTENCES], dtype=object),
    ]
    for inputs in generators:
        for got, want in zip(TINY.embed(inputs), expected, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("training", [True, False])
def test_embed_leaves_modes_and_threads_as_they_were(training: bool) -> None:
    elmo = make_tiny().train(training)
    normal = elmo.add_mix("normal", layer_norm=True)
    normal.train(not training)
    threads = torch.get_num_threads()
    for layers in ("average", "mix", "mix:normal"):
        elmo.embed(["one two"], layers=layers)
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    assert torch.get_num_threads() == threads
    assert elmo.training == training and elmo.bilm.training == training
    assert elmo.mixes["default"].training == training
    assert normal.training != training


def test_failure_half_way_restores_the_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = make_tiny()
    monkeypatch.setattr(elmo._embedder, "run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        elmo.embed(["one two"])
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("layers", ["bogus", 3, -4, True, None, 1.0, "mix:absent"])
def test_unknown_layers_are_refused_by_value(layers: object) -> None:
    with pytest.raises(ConfigError, match="layers="):
        TINY.embed(["a b"], layers=layers)  # type: ignore[call-overload]


def test_unknown_direction_and_batch_size_are_refused_by_value() -> None:
    with pytest.raises(ConfigError, match="direction='up'"):
        TINY.embed(["a b"], direction="up")  # type: ignore[call-overload]
    for call in (TINY.embed, TINY.encode, lambda *a, **k: list(TINY.embed_stream(*a, **k))):
        with pytest.raises(ConfigError, match="batch_size=0"):
            call(["a b"], batch_size=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_near(dtype: torch.dtype) -> None:
    elmo = make_tiny().to(dtype)
    elmo.add_mix("normal", layer_norm=True)
    for layers in ("average", "all", "mix", "mix:normal"):
        for got, want in zip(elmo.embed(SENTENCES, layers=layers), full_precision(layers)):
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=0, atol=0.1)


def full_precision(layers: str) -> list[np.ndarray]:
    elmo = make_tiny()
    elmo.add_mix("normal", layer_norm=True)
    return elmo.embed(SENTENCES, layers=layers)
