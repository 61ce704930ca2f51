"""The optimiser, and the learning rate over a run."""

import pytest
from torch import nn

from elmokit.errors import ConfigError
from elmokit.pretraining.config import PRESETS, TrainConfig
from elmokit.pretraining.loop import learning_rate, make_optimizer

LATE = 10_000
"""A step long after the warm-up."""


@pytest.mark.parametrize(
    ("schedule", "half_way"), [("cosine", 0.5), ("linear", 0.5), ("flat", 1), ("constant", 1)]
)
def test_schedules_start_at_the_rate_and_end_with_the_budget(
    schedule: str, half_way: float
) -> None:
    config = TrainConfig(lr=2.0, schedule=schedule, warmup_steps=100)
    assert learning_rate(config, LATE, 0.0) == pytest.approx(2)
    assert learning_rate(config, LATE, 0.5) == pytest.approx(2 * half_way)
    end = learning_rate(config, LATE, 1.0)
    assert end == pytest.approx(2 if schedule == "constant" else 0)


def test_the_rate_grows_to_its_height_in_the_warm_up() -> None:
    config = TrainConfig(lr=1.0, schedule="constant", warmup_steps=9)
    assert [learning_rate(config, step, 0.0) for step in (0, 4, 9, 20)] == pytest.approx(
        [0.1, 0.5, 1, 1]
    )


def test_a_flat_schedule_does_not_know_its_budget_until_it_cools_down() -> None:
    config = TrainConfig(lr=1.0, schedule="flat", cooldown=0.2, warmup_steps=0)
    rates = [learning_rate(config, LATE, share) for share in (0.1, 0.3, 0.8, 0.9, 0.95)]
    assert rates == pytest.approx([1, 1, 1, 0.5, 0.25])


@pytest.mark.parametrize("cooldown", [0, -1, 1.5])
def test_an_impossible_cooldown_is_refused(cooldown: float) -> None:
    with pytest.raises(ConfigError, match="cooldown"):
        TrainConfig(cooldown=cooldown)


def test_beta2_is_that_of_the_settings() -> None:
    parameters = list(nn.Linear(2, 2).parameters())
    for config in (TrainConfig(beta2=0.98), PRESETS["small"].train):
        (group,) = make_optimizer(parameters, config).param_groups
        assert group["betas"] == (0.9, config.beta2)


def test_a_run_from_before_the_setting_keeps_its_beta2() -> None:
    assert TrainConfig().beta2 == 0.99 and PRESETS["small"].train.beta2 == 0.999


@pytest.mark.parametrize("beta2", [0, 1, -0.5])
def test_an_impossible_beta2_is_refused(beta2: float) -> None:
    with pytest.raises(ConfigError, match="beta2"):
        TrainConfig(beta2=beta2)
