"""With the native kernel, a vector does not depend on what else is computed: not in one bit."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from strategies import KERNELS, batches, models, random_model, tiny_config

from elmokit import Elmo
from elmokit.config import LstmConfig

pytestmark = pytest.mark.skipif(not KERNELS, reason="the native kernel is not built")
NATIVE = tuple(f"native:{isa}" for isa in KERNELS)

# Rows are multiplied up to six at a time, and every number of them has a loop of its own.
SENTENCES = [[f"w{i * j % 11}" for j in range(1 + i * 5 % 9)] for i in range(23)]


def assert_same(got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def alone(elmo: Elmo, sentences: list[list[str]]) -> list[np.ndarray]:
    return [elmo.embed([sentence], layers="all")[0] for sentence in sentences]


@given(models(NATIVE), batches())
@settings(max_examples=40)
def test_a_sentence_alone_has_the_vectors_that_it_has_in_a_batch(
    elmo: Elmo, sentences: list[list[str]]
) -> None:
    together = elmo.embed(sentences, layers="all")
    elmo.clear_cache()
    assert_same(alone(elmo, sentences), together)


@pytest.mark.parametrize("lstm", [(32, 16), (40, 40), (600, 48)], ids=str)
@pytest.mark.parametrize("engine", NATIVE)
def test_neither_the_batch_nor_the_order_nor_the_threads_change_a_bit(
    engine: str, lstm: tuple[int, int], num_threads: None
) -> None:
    config = tiny_config(lstm=LstmConfig(dim=lstm[0], projection_dim=lstm[1]))
    elmo = random_model(config, engine=engine)
    expected = elmo.embed(SENTENCES, layers="all")
    assert_same(alone(elmo, SENTENCES), expected)
    for batch_size in (1, 2, 3, 5, 7, 16):
        elmo.clear_cache()
        assert_same(elmo.embed(SENTENCES, layers="all", batch_size=batch_size), expected)
    elmo.clear_cache()
    assert_same(elmo.embed(SENTENCES[::-1], layers="all")[::-1], expected)
    for threads in (2, 3, 8):
        torch.set_num_threads(threads)
        elmo.clear_cache()
        assert_same(elmo.embed(SENTENCES, layers="all"), expected)


@pytest.mark.parametrize("engine", NATIVE)
def test_callers_in_many_threads_get_the_same_bits(engine: str) -> None:
    elmo = random_model(tiny_config(), engine=engine, cache_words=8)
    expected = elmo.embed(SENTENCES, layers="all")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            got = pool.map(lambda sentence: elmo.embed([sentence], layers="all")[0], SENTENCES)
            assert_same(got, expected)


@pytest.mark.parametrize("engine", NATIVE)
def test_a_word_alone_has_the_vector_that_it_has_among_others(engine: str) -> None:
    elmo = random_model(tiny_config(), engine=engine, cache_words=0)
    words = [f"w{i}" for i in range(100)]
    expected = elmo.token_vectors(words)
    assert_same([elmo.token_vectors([word])[0] for word in words], expected)
    assert_same(elmo.token_vectors(words[:13]), expected[:13])
