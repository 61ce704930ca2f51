"""Training computes what `nn` computes: as `plain`, and wherever the fast code differs."""

from pathlib import Path

import pytest
from torch import Tensor

from elmokit.nn import LstmState, ProjectedLstm
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.records import read_log
from elmokit.pretraining.run import pretrain


def losses(corpus: Path, run: Path, config: PretrainConfig, engine: str) -> list[float]:
    config = config.override(f"train.engine={engine}", "train.dropout=0", "train.log_every=1")
    pretrain(corpus, run, config, device="cpu")
    return [row["loss"] for row in read_log(run / "log.jsonl")]


@pytest.mark.parametrize(
    "setting", ["data.reading=lanes", "data.reading=sentences", "softmax.loss=full"]
)
def test_plain_training_has_the_losses_of_the_fast_one(
    setting: str, corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    config = config.override(setting)
    plain = losses(corpus, tmp_path / "plain", config, "plain")
    assert len(plain) > 5
    assert losses(corpus, tmp_path / "fast", config, "auto") == pytest.approx(plain, rel=1e-3)


def test_a_changed_cell_is_what_training_learns_with(
    corpus: Path, config: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    before = losses(corpus, tmp_path / "before", config, "plain")
    step = ProjectedLstm.step

    def weaker(self: ProjectedLstm, inputs: Tensor, state: LstmState) -> LstmState:
        h, c = step(self, inputs, state)
        return LstmState(0.5 * h, c)

    monkeypatch.setattr(ProjectedLstm, "step", weaker)
    plain = losses(corpus, tmp_path / "plain", config, "plain")
    assert "training code" not in caplog.text and plain != pytest.approx(before, rel=1e-3)
    assert losses(corpus, tmp_path / "fast", config, "auto") == plain
    assert caplog.text.count("training code differs") == 1


def test_dropout_acts_with_the_plain_engine(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    config = config.override("train.engine=plain", "train.log_every=1")
    first = []
    for dropout in (0, 0.5, 0.5):
        run = tmp_path / str(len(first))
        pretrain(corpus, run, config.override(f"train.dropout={dropout}"), device="cpu")
        first.append(read_log(run / "log.jsonl")[-1]["loss"])
    assert first[0] != first[1] and first[1] == first[2]
