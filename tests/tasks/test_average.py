"""The moving average of the weights, and the optimisers: what predicts, is saved and goes on."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from strategies import assert_refused, make_tiny
from task_data import ner_config, write_data
from torch import nn

from elmokit.tasks.config import TrainerConfig
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task
from elmokit.tasks.runs.trainer import Row, WeightAverage


def test_average_follows_the_recurrence() -> None:
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    average = WeightAverage([weight], decay=0.5)
    expected = weight.detach().clone()
    for step in range(1, 12):
        with torch.no_grad():
            weight.add_(step)
        average.update()
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * weight.detach()
    now = weight.detach().clone()
    with pytest.raises(KeyError), average.in_model():
        torch.testing.assert_close(weight.detach(), expected)
        raise KeyError
    assert torch.equal(weight.detach(), now)


def test_an_average_goes_on_from_its_tensors() -> None:
    weights = [nn.Parameter(torch.randn(3)) for _ in range(2)]
    averages = [WeightAverage([weight], decay=0.9) for weight in weights]
    averages[0].update()
    averages[1].restore(averages[0].tensors())
    with torch.no_grad():
        weights[1].copy_(weights[0])
    for average in averages:
        average.update()
    assert torch.equal(averages[0].averages[0], averages[1].averages[0])
    assert averages[1].num_updates == 2
    assert WeightAverage(weights, decay=0).tensors() == {}


@pytest.mark.parametrize(("optimizer", "finetune"), [("adam", True), ("adadelta", False)])
def test_resumed_equals_unbroken(optimizer: str, finetune: bool, tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "bilm")
    data, _ = write_data(tmp_path)
    train = {"optimizer": optimizer, "lr": 0.01 if optimizer == "adam" else 1.0, "ema": 0.9}
    train |= {"epochs": 3, "batch_size": 3}
    config = ner_config(train, dropout=0.5, finetune=finetune)

    def start(name: str, stop: int = 0) -> None:
        def interrupt(row: Row) -> None:
            if row["epoch"] == stop:
                raise KeyboardInterrupt

        summary = train_task(
            "ner", data, data, tmp_path / "bilm", tmp_path / name, config, device="cpu",
            resume=True, on_row=interrupt,
        )  # fmt: skip
        assert summary["seeds"][0]["epoch"] > 1  # the kept model is of after the break

    start("whole")
    with pytest.raises(KeyboardInterrupt):
        start("broken", stop=1)
    start("broken")
    files = ["model.safetensors", *(["bilm/model.safetensors"] if finetune else [])]
    for file in files:
        whole, broken = (load_file(tmp_path / n / "seed-1" / file) for n in ("whole", "broken"))
        assert whole.keys() == broken.keys()
        assert all(torch.equal(whole[name], broken[name]) for name in whole)


def test_the_average_is_what_is_scored_and_saved(tmp_path: Path) -> None:
    data, _ = write_data(tmp_path)
    models = {}
    for ema in (0.0, 0.99):
        config = ner_config({"epochs": 3, "ema": ema}, place="none")
        out = tmp_path / str(ema)
        rows: list[Row] = []
        summary = train_task("ner", data, data, None, out, config, on_row=rows.append)
        metrics = load_task(out).evaluate(data)
        assert metrics["f1"] == summary["mean"]
        models[ema] = load_file(out / "seed-1/model.safetensors"), [row["loss"] for row in rows]
    assert models[0.0][1] == models[0.99][1]  # the training itself does not see the average
    assert not torch.equal(*(models[ema][0]["scores.weight"] for ema in (0.0, 0.99)))


def test_optimizers_take_different_steps_and_others_are_refused(tmp_path: Path) -> None:
    data, _ = write_data(tmp_path)
    losses = []
    for settings in ({"optimizer": "adam"}, {"optimizer": "adadelta", "lr": 1.0}):
        rows: list[Row] = []
        config = ner_config({"epochs": 12, **settings}, place="none")
        train_task("ner", data, data, None, tmp_path / settings["optimizer"], config,
                   on_row=rows.append)  # fmt: skip
        losses.append([row["loss"] for row in rows])
        assert losses[-1][-1] < 0.6 * losses[-1][0]
    assert losses[0][1] != losses[1][1]
    assert_refused(lambda: TrainerConfig(optimizer="sgd"), "optimizer='sgd'", "adadelta")
    assert_refused(lambda: TrainerConfig(ema=1.0), "ema=1.0", "below 1")
