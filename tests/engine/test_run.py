"""The fast path gives the numbers of the equations, however it cuts its work."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, State
from strategies import ENGINES, assert_close, batches, models, random_model, tiny_config

from elmokit import Elmo
from elmokit.engine import Request
from elmokit.nn import BiLmState


def random_state(elmo: Elmo, num_rows: int, seed: int) -> BiLmState:
    generator = torch.Generator().manual_seed(seed)
    lstm = elmo.config.lstm
    return BiLmState(
        torch.randn(2, lstm.num_layers, num_rows, lstm.projection_dim, generator=generator),
        torch.randn(2, lstm.num_layers, num_rows, lstm.dim, generator=generator),
    )


def oracle_results(
    elmo: Elmo, sentences: list[list[str]], state: BiLmState | None
) -> list[tuple[np.ndarray, State]]:
    oracle = Oracle.of(elmo)
    starts = [
        None if state is None else State(state.h[:, :, i].numpy(), state.c[:, :, i].numpy())
        for i in range(len(sentences))
    ]
    return [oracle.embed(sentence, start) for sentence, start in zip(sentences, starts)]


@given(
    elmo=models(ENGINES),
    sentences=batches(),
    chunk_bytes=st.sampled_from([0, 1, 400, 2000, 2**26]),
    seed=st.none() | st.integers(0, 100),
)
@settings(max_examples=100)
def test_run_equals_the_equations_in_chunks_of_any_size(
    elmo: Elmo, sentences: list[list[str]], chunk_bytes: int, seed: int | None
) -> None:
    state = None if seed is None else random_state(elmo, len(sentences), seed)
    given_state = state and BiLmState(state.h.clone(), state.c.clone())
    request = Request(torch.eye(elmo.num_layers), with_state=True)
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr("elmokit.engine.packed.CHUNK_BYTES", chunk_bytes)
        vectors, after = elmo._embedder.run(sentences, request, state)
    for i, (expected, expected_after) in enumerate(oracle_results(elmo, sentences, given_state)):
        for got, want in zip(vectors[i], expected, strict=True):
            assert_close(got, want)
        assert_close(after.h[:, :, i], expected_after.h)
        assert_close(after.c[:, :, i], expected_after.c)
    if state is not None:
        assert state.h.equal(given_state.h) and state.c.equal(given_state.c)


@given(
    elmo=models(ENGINES),
    sentences=batches(),
    directions=st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
    seed=st.integers(0, 100),
    data=st.data(),
)
@settings(max_examples=60)
def test_run_gives_any_weights_of_layers_and_directions(
    elmo: Elmo,
    sentences: list[list[str]],
    directions: tuple[int, ...],
    seed: int,
    data: st.DataObject,
) -> None:
    weight = st.sampled_from([0.0, 0.0, 1.0, -0.5, 0.25])
    row = st.lists(weight, min_size=elmo.num_layers, max_size=elmo.num_layers)
    weights = np.array(data.draw(st.lists(row, min_size=1, max_size=3)))
    state = random_state(elmo, len(sentences), seed)
    request = Request(torch.tensor(weights, dtype=torch.float32), directions)
    with torch.inference_mode():
        vectors, _ = elmo._embedder.run(sentences, request, state)
    width = elmo.config.lstm.projection_dim
    for got, (layers, _) in zip(vectors, oracle_results(elmo, sentences, state), strict=True):
        halves = [layers[..., d * width : (d + 1) * width] for d in directions]
        expected = np.tensordot(weights, np.concatenate(halves, axis=-1), axes=1)
        # Weights may cancel, so the scale is that of the layers.
        scale = max(1.0, np.abs(layers).max(initial=0))
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * scale)


def test_layers_above_the_wanted_ones_do_not_run() -> None:
    elmo = random_model(tiny_config())
    with torch.no_grad():
        for stack in (elmo.bilm.forward_lm, elmo.bilm.backward_lm):
            stack.layers[1].bias.fill_(torch.nan)
    request = Request(torch.eye(3)[:2])
    vectors, _ = elmo._embedder.run([["a", "b"]], request, None)
    assert vectors[0].isfinite().all()
    assert request.num_lstm_layers == 1
    assert Request(torch.eye(3)[:1]).num_lstm_layers == 0
    assert Request(torch.eye(3)[:1], with_state=True).num_lstm_layers == 2
    assert Request(torch.zeros(1, 3)).num_lstm_layers == 0


def test_direction_that_is_not_wanted_does_not_run_and_keeps_its_state() -> None:
    elmo = random_model(tiny_config())
    with torch.no_grad():
        elmo.bilm.backward_lm.layers[0].bias.fill_(torch.nan)
    state = random_state(elmo, 1, seed=0)
    vectors, after = elmo._embedder.run([["a", "b"]], Request(torch.eye(3), (0,), True), state)
    assert vectors[0].isfinite().all()
    assert after.h[1].equal(state.h[1]) and after.c[1].equal(state.c[1])
    assert not after.h[0].equal(state.h[0])


def test_no_sentences_give_no_vectors() -> None:
    elmo = random_model(tiny_config())
    vectors, after = elmo._embedder.run([], Request(torch.eye(3)), None)
    assert vectors == []
    assert after.h.shape == (2, 2, 0, 16)


@pytest.mark.parametrize("engine", ENGINES)
def test_number_of_threads_does_not_change_a_vector(engine: str) -> None:
    sentences = [[f"w{i * j % 7}" for j in range(i % 6)] for i in range(40)]
    elmo = random_model(tiny_config(), engine=engine)
    expected = elmo.embed(sentences, layers="all")
    before = torch.get_num_threads()
    try:
        for threads in (2, 3, 8):
            torch.set_num_threads(threads)
            for got, want in zip(elmo.embed(sentences, layers="all"), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_calls_from_many_threads_do_not_disturb_each_other() -> None:
    elmo = random_model(tiny_config(), cache_words=8)
    inputs = [[[f"w{(i * 7 + j) % 30}" for j in range(i)]] for i in range(1, 25)]
    expected = [random_model(tiny_config()).embed(sentences)[0] for sentences in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            got = pool.map(lambda sentences: elmo.embed(sentences)[0], inputs)
            for vectors, want in zip(got, expected, strict=True):
                np.testing.assert_allclose(vectors, want, rtol=0, atol=1e-5)
