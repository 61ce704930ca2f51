"""Where a sentence starts: zero, warm, or where the one before it stopped."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, State
from strategies import assert_close, make_tiny, tiny_config

from elmokit import Elmo
from elmokit.errors import InputError

ROWS = st.lists(st.lists(st.sampled_from(["a", "b", "한글"]), max_size=5), max_size=4)


def carrying() -> Elmo:
    return make_tiny(tiny_config(state="carry"))


@given(st.lists(ROWS, min_size=2, max_size=4), st.integers(1, 5))
@settings(max_examples=30)
def test_each_carried_row_continues_the_same_row(calls: list, batch_size: int) -> None:
    elmo = carrying()
    oracle = Oracle.of(elmo)
    states: dict[int, object] = {}
    for sentences in calls:
        got = elmo.embed(sentences, layers="all", batch_size=batch_size)
        for i, sentence in enumerate(sentences):
            expected, states[i] = oracle.embed(sentence, states.get(i))
            assert_close(got[i], expected)


def test_reset_forgets_what_was_carried() -> None:
    elmo = carrying()
    first = elmo.embed([["a", "b"]])[0]
    assert np.abs(elmo.embed([["a", "b"]])[0] - first).max() > 1e-3
    elmo.reset_state()
    np.testing.assert_array_equal(elmo.embed([["a", "b"]])[0], first)


def test_carried_stream_takes_each_batch_as_a_call() -> None:
    sentences = [["a"], ["b", "c"], ["d"], ["e", "f", "g"], ["h"]]
    elmo, other = carrying(), carrying()
    streamed = list(elmo.embed_stream(sentences, batch_size=2))
    called = [v for i in range(0, 5, 2) for v in other.embed(sentences[i : i + 2])]
    for got, want in zip(streamed, called, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_embed_and_forward_carry_the_same_state(requires_grad: bool) -> None:
    elmo, other = carrying(), carrying()
    elmo.bilm.requires_grad_(requires_grad)
    for step, sentence in enumerate([["a", "b"], ["c"], ["d", "e", "f"], ["g"]]):
        expected = other.embed([sentence], layers="all")[0]
        if step % 2:
            got = elmo([sentence]).layers[:, 0].detach().numpy()
        else:
            got = elmo.embed([sentence], layers="all")[0]
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_carried_state_does_not_carry_gradients() -> None:
    elmo = carrying()
    elmo.bilm.requires_grad_(True)
    for _ in range(2):
        elmo([["a", "b"]]).layers.sum().backward()


def test_carried_state_follows_the_type_of_the_weights() -> None:
    elmo = carrying()
    elmo.embed([["a", "b"]])
    elmo.double()
    assert np.isfinite(elmo.embed([["a", "b"]])[0]).all()


def test_zero_state_is_the_default_and_keeps_nothing(tiny: Elmo) -> None:
    assert tiny.config.state == "zero"
    np.testing.assert_array_equal(tiny.embed([["a"]])[0], tiny.embed([["a"]])[0])


def test_warm_state_is_the_mean_of_the_ends_of_its_sentences(tiny: Elmo) -> None:
    text = [["a", "b"], ["c"], ["d", "e", "f"]]
    tiny.warm_up(text)
    oracle = Oracle.of(tiny)
    state, ends = None, []
    for sentence in text:
        _, state = oracle.embed(sentence, state)
        ends.append(state)
    assert_close(tiny.warm_h[:, :, 0], np.mean([end.h for end in ends], axis=0))
    assert_close(tiny.warm_c[:, :, 0], np.mean([end.c for end in ends], axis=0))


def test_every_warm_sentence_starts_from_the_warm_state() -> None:
    elmo = make_tiny(tiny_config(state="warm"))
    elmo.warm_up(["One sentence.", ["another", "one"]])
    oracle = Oracle.of(elmo)
    warm = State(elmo.warm_h[:, :, 0].numpy(), elmo.warm_c[:, :, 0].numpy())
    for _ in range(2):
        for got, sentence in zip(
            elmo.embed([["a"], ["b", "c"]], layers="all"), [["a"], ["b", "c"]]
        ):
            assert_close(got, oracle.embed(sentence, warm)[0])
    got = elmo([["b", "c"]]).layers[:, 0].numpy()
    assert_close(got, oracle.embed(["b", "c"], warm)[0])


def test_warm_state_without_text_comes_from_built_in_sentences(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    elmo, other = (make_tiny(tiny_config(state="warm")) for _ in range(2))
    with caplog.at_level(logging.INFO, "elmokit"):
        vectors = elmo.embed([["a", "b"]])[0]
    assert "built-in sentences" in caplog.text
    np.testing.assert_array_equal(other.embed([["a", "b"]])[0], vectors)
    assert np.abs(make_tiny().embed([["a", "b"]])[0] - vectors).max() > 1e-3
    elmo.save_pretrained(tmp_path / "warm")
    again = Elmo.from_pretrained(tmp_path / "warm")
    assert again.warm_h.equal(elmo.warm_h) and again.warm_c.equal(elmo.warm_c)
    np.testing.assert_allclose(again.embed([["a", "b"]])[0], vectors, atol=1e-6)


def test_warm_up_of_no_sentences_is_refused(tiny: Elmo) -> None:
    with pytest.raises(InputError, match="warm_up"):
        tiny.warm_up([])


def test_warm_state_can_train(tiny: Elmo) -> None:
    elmo = make_tiny(tiny_config(state="warm"))
    elmo.bilm.requires_grad_(True)
    elmo([["a", "b"]]).layers.sum().backward()
    assert elmo.bilm.forward_lm.layers[0].bias.grad.any()
    assert torch.isfinite(elmo.bilm.forward_lm.layers[0].bias.grad).all()
