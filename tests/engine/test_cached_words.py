"""What the engine remembers of earlier calls never changes a vector."""

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import Oracle
from strategies import assert_close, make_tiny, random_model, tiny_config

# Few words, so that most of them come again.
WORDS = st.sampled_from(["ab", "abc", "é", "한글", "zz", "", "<S>"])
CALLS = st.lists(
    st.tuples(st.just("embed"), st.lists(st.lists(WORDS, max_size=4), min_size=1, max_size=3))
    | st.tuples(st.just("token_vectors"), st.lists(WORDS, max_size=6))
    | st.tuples(st.just("scale"), st.sampled_from([0.5, 1.25])),
    min_size=3,
    max_size=8,
)


@example([("embed", [["ab", "abc"]]), ("embed", [["é"]]), ("embed", [["ab"]])], 50)
@given(CALLS, st.sampled_from([0, 1, 3, 50]))
@settings(max_examples=60)
def test_no_series_of_calls_and_changed_weights_changes_what_a_call_gives(
    calls: list[tuple], cache_words: int
) -> None:
    elmo = random_model(tiny_config(), cache_words=cache_words)
    for call, argument in calls:
        if call == "scale":
            with torch.no_grad():
                for parameter in elmo.bilm.parameters():
                    parameter.mul_(argument)
            continue
        oracle = Oracle.of(elmo)
        if call == "embed":
            for sentence, got in zip(argument, elmo.embed(argument), strict=True):
                assert_close(got, oracle.embed(sentence)[0].mean(axis=0))
        else:
            expected = [oracle.token(word) for word in argument]
            assert_close(elmo.token_vectors(argument), np.array(expected).reshape(-1, 16))


def test_weights_that_are_loaded_or_replaced_are_the_ones_that_count() -> None:
    elmo, other = make_tiny(seed=0), make_tiny(seed=1)
    sentence = [["The", "cat", "sat"]]
    expected = other.embed(sentence, layers="all")[0]
    elmo.embed(sentence)
    elmo.load_state_dict(other.state_dict())
    np.testing.assert_allclose(elmo.embed(sentence, layers="all")[0], expected, atol=1e-6)

    elmo = make_tiny(seed=0)
    elmo.embed(sentence)
    for mine, theirs in zip(elmo.bilm.parameters(), other.bilm.parameters(), strict=True):
        mine.data = theirs.data.clone()
    np.testing.assert_allclose(elmo.embed(sentence, layers="all")[0], expected, atol=1e-6)


def test_optimiser_step_is_seen_by_embed() -> None:
    elmo = make_tiny()
    elmo.bilm.requires_grad_(True)
    sentence = [["The", "cat", "sat"]]
    elmo.embed(sentence)
    optimiser = torch.optim.Adam(elmo.bilm.parameters(), lr=0.05)
    elmo(sentence).layers.square().sum().backward()
    optimiser.step()
    expected, _ = Oracle.of(elmo).embed(sentence[0])
    assert_close(elmo.embed(sentence, layers="all")[0], expected)
