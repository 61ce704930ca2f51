"""The estimate of a run's memory counts every weight, and grows with what costs memory."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from strategies import configs, random_model

from elmokit.config import ElmoConfig
from elmokit.nn import Softmax
from elmokit.nn import softmax as sampled
from elmokit.pretraining.config import PRESETS, SOFTMAX_ROWS, memory_estimate, num_weights


@settings(max_examples=30)
@given(configs())
def test_every_weight_is_counted(config: ElmoConfig) -> None:
    model = random_model(config)
    softmax = Softmax(7, config.lstm.projection_dim)
    parameters = [*model.bilm.parameters(), *softmax.parameters()]
    assert num_weights(config, 7) == sum(p.numel() for p in parameters)


def test_softmax_chunks_are_those_of_the_loss() -> None:
    assert SOFTMAX_ROWS == sampled.MIN_ROWS


def test_larger_runs_take_more() -> None:
    sizes = [memory_estimate(config, 50_000) for config in PRESETS.values()]
    assert sizes == sorted(sizes) and len(set(sizes)) == len(sizes)


@pytest.mark.parametrize("name", PRESETS)
def test_vocabulary_batch_and_optimiser_count(name: str) -> None:
    config = PRESETS[name]
    usual = memory_estimate(config, 50_000)
    assert memory_estimate(config, 100_000) > usual
    data = replace(config.data, lanes=2 * config.data.lanes)
    assert memory_estimate(replace(config, data=data), 50_000) > usual
    train = replace(config.train, optimizer="adagrad")
    assert memory_estimate(replace(config, train=train), 50_000) < usual
