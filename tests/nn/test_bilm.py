"""The biLM as a torch module gives the numbers of its equations."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, State
from strategies import assert_close, make_tiny, models

from elmokit import Elmo
from elmokit.nn import BiLmState, TokenIds

ROWS = st.lists(st.integers(0, 7), min_size=1, max_size=4)


def random_inputs(elmo: Elmo, lengths: list[int], seed: int) -> tuple[torch.Tensor, BiLmState]:
    """Token vectors, padded with numbers that must not matter, and states that must."""
    generator = torch.Generator().manual_seed(seed)
    lstm = elmo.config.lstm
    x = torch.randn(len(lengths), max(lengths), lstm.projection_dim, generator=generator)
    state = BiLmState(
        torch.randn(2, lstm.num_layers, len(lengths), lstm.projection_dim, generator=generator),
        torch.randn(2, lstm.num_layers, len(lengths), lstm.dim, generator=generator),
    )
    return x, state


@given(models(), ROWS, st.integers(0, 100), st.booleans())
@settings(max_examples=60)
def test_bilm_equals_its_equations(
    elmo: Elmo, lengths: list[int], seed: int, from_zero: bool
) -> None:
    x, state = random_inputs(elmo, lengths, seed)
    with torch.no_grad():
        output = elmo.bilm(x, torch.tensor(lengths), None if from_zero else state)
    oracle = Oracle.of(elmo)
    for row, length in enumerate(lengths):
        start = None if from_zero else State(state.h[:, :, row].numpy(), state.c[:, :, row].numpy())
        expected, after = oracle.layers(x[row, :length].double().numpy(), start)
        for layer, want in zip(output.layers, expected, strict=True):
            assert_close(layer[row, :length], want)
        assert_close(output.state.h[:, :, row], after.h)
        assert_close(output.state.c[:, :, row], after.c)
        assert not output.layers[:, row, length:].any()
        assert output.mask[row].tolist() == [t < length for t in range(max(lengths))]


@given(
    models(), st.lists(st.sampled_from(["ab", "한글", "zz", "<S>", "dddddddddddddddd"]), min_size=1)
)
@settings(max_examples=60)
def test_token_encoder_equals_its_equations(elmo: Elmo, words: list[str]) -> None:
    oracle = Oracle.of(elmo)
    encoder = elmo.config.encoder
    ids = TokenIds(
        torch.tensor([oracle.spell(word) for word in words]) if encoder.char_cnn else None,
        torch.tensor([oracle.row(word) for word in words]) if encoder.num_words else None,
    )
    with torch.no_grad():
        got = elmo.bilm.encoder(ids)
    assert_close(got, np.stack([oracle.token(word) for word in words]))


def test_bilm_of_no_tokens_returns_the_states_that_it_got(tiny: Elmo) -> None:
    x, state = random_inputs(tiny, [0, 0], seed=0)
    output = tiny.bilm(x, torch.tensor([0, 0]), state)
    assert output.layers.shape == (3, 2, 0, 32)
    assert output.state.h.equal(state.h) and output.state.c.equal(state.c)


def test_padding_character_ids_are_pooled_over() -> None:
    """The published models pool over the padding inside a word, so its vector depends on it."""
    elmo = make_tiny()
    cnn = elmo.bilm.encoder.char_cnn
    row = torch.tensor([[259, 98, 260] + [261] * 47])
    with torch.no_grad():
        before = cnn(row)
        cnn.embedding.weight[261] += 10
        after = cnn(row)
    assert not torch.allclose(before, after)


def test_character_id_zero_is_a_zero_vector_from_the_start() -> None:
    assert not make_tiny().bilm.encoder.char_cnn.embedding.weight[0].any()
