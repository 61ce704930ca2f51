"""Learned mixes of the layers, of which a model can have several."""

import numpy as np
import pytest
import torch
from oracle import Oracle, scalar_mix
from strategies import assert_close, make_tiny

from elmokit import Elmo
from elmokit.errors import ConfigError

SENTENCES = [["The", "cat", "sat"], ["b"], [], ["x", "y", "z", "w"]]


def set_mix(elmo: Elmo, name: str, scalars: list[float], gamma: float, **options: object) -> None:
    mix = elmo.add_mix(name, **options)  # type: ignore[arg-type]
    mix.scalars.data = torch.tensor(scalars)
    mix.gamma.data = torch.tensor(gamma)


def test_new_mix_is_the_average(tiny: Elmo) -> None:
    for mixed, average in zip(tiny.embed(SENTENCES, layers="mix"), tiny.embed(SENTENCES)):
        np.testing.assert_allclose(mixed, average, atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_mix_equals_its_equation_in_each_sentence_alone(tiny: Elmo, layer_norm: bool) -> None:
    set_mix(tiny, "task", [1.0, -2.0, 0.5], 1.7, layer_norm=layer_norm)
    oracle = Oracle.of(tiny)
    for sentence, got in zip(SENTENCES, tiny.embed(SENTENCES, layers="mix:task"), strict=True):
        layers, _ = oracle.embed(sentence)
        expected = np.zeros((0, 32))
        if sentence:
            scalars = np.array([1.0, -2.0, 0.5])
            expected = scalar_mix(layers, scalars, 1.7, layer_norm=layer_norm)
        assert_close(got, expected)


def test_changed_weights_count_in_the_next_call(tiny: Elmo) -> None:
    with torch.no_grad():
        tiny.mixes["default"].scalars.copy_(torch.tensor([0.0, 0.0, 50.0]))
        tiny.mixes["default"].gamma.fill_(2)
    for mixed, top in zip(
        tiny.embed(SENTENCES, layers="mix"), tiny.embed(SENTENCES, layers="top"), strict=True
    ):
        np.testing.assert_allclose(mixed, 2 * top, atol=1e-5)


def test_several_mixes_share_one_pass(tiny: Elmo) -> None:
    set_mix(tiny, "first", [1.0, 2.0, 3.0], 1.0)
    set_mix(tiny, "second", [3.0, 0.0, -1.0], 0.5)
    output = tiny(SENTENCES)
    for name in ("first", "second", "default"):
        mixed = tiny.mixes[name](output.layers, output.mask)
        for i, expected in enumerate(tiny.embed(SENTENCES, layers=f"mix:{name}")):
            np.testing.assert_allclose(mixed[i, : len(expected)].detach(), expected, atol=1e-5)
            assert not mixed[i, len(expected) :].any()


def test_dropout_of_a_mix_never_reaches_embed(tiny: Elmo) -> None:
    for layer_norm in (False, True):
        tiny.add_mix("noisy", layer_norm=layer_norm, dropout=0.5, replace=True)
        tiny.train()
        noisy = tiny.embed(SENTENCES, layers="mix:noisy")
        tiny.eval()
        for a, b in zip(noisy, tiny.embed(SENTENCES, layers="mix:noisy"), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["", "a-b", "a.b", "1a", "a b", "keys", "forward", "training"])
def test_name_that_cannot_be_saved_is_refused(tiny: Elmo, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name!r}"):
        tiny.add_mix(name)


@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan")])
def test_impossible_dropout_is_refused(tiny: Elmo, dropout: float) -> None:
    with pytest.raises(ConfigError, match="dropout="):
        tiny.add_mix("task", dropout=dropout)


def test_unknown_mix_is_refused_with_the_known_ones(tiny: Elmo) -> None:
    tiny.add_mix("task")
    with pytest.raises(ConfigError, match=r"'mix:tsak'.*default, task"):
        tiny.embed(SENTENCES, layers="mix:tsak")


def test_existing_mix_is_replaced_only_if_asked(tiny: Elmo) -> None:
    tiny.add_mix("task", dropout=0.5)
    with pytest.raises(ConfigError, match=r"'task': the model has one .* replace=True"):
        tiny.add_mix("task")
    new = tiny.add_mix("task", replace=True)
    assert tiny.mixes["task"] is new and new.dropout.p == 0


def test_default_is_replaced_until_it_is_used(tiny: Elmo) -> None:
    mix = tiny.add_mix(layer_norm=True)  # instead of the one that every model has
    with pytest.raises(ConfigError, match="replace=True"):
        tiny.add_mix()
    assert tiny.mixes["default"] is mix
    trained = make_tiny()
    with torch.no_grad():
        trained.mixes["default"].gamma.fill_(2)
    with pytest.raises(ConfigError, match="replace=True"):
        trained.add_mix()
