"""Whole runs: they end, resume to the last digit, survive torn files, and load as models."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from strategies import assert_refused

from elmokit import Elmo
from elmokit.corpus.batches import SentenceBatches
from elmokit.corpus.corpus import Corpus
from elmokit.errors import ElmoError, FileError, MissingExtra
from elmokit.files.folders import INCOMPLETE
from elmokit.model import Perplexity
from elmokit.pretraining.config import DataConfig, PretrainConfig
from elmokit.pretraining.evaluate import held_out_perplexity, num_final_targets
from elmokit.pretraining.loop import Loop, Row
from elmokit.pretraining.records import read_log
from elmokit.pretraining.run import pretrain
from elmokit.pretraining.setup import fit_to_corpus, held_out_batches, new_model, training_stream


def losses(run: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in read_log(run / "log.jsonl")]


def sentences(config: PretrainConfig) -> PretrainConfig:
    return config.override("data.reading=sentences")


def full(config: PretrainConfig) -> PretrainConfig:
    return config.override("softmax.loss=full", "train.optimizer=adagrad", "train.accumulate=2")


def test_a_run_ends_with_a_model_and_a_log(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    elmo = pretrain(corpus, tmp_path / "run", config, device="cpu")
    rows = read_log(tmp_path / "run" / "log.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert all(0 < row["loss"] < 2 * np.log(48) for row in rows)  # of 48 random words
    assert {row["step"] for row in rows if "valid_mean" in row} == {6, 12}
    assert elmo.vocab == Corpus.open(corpus).vocab
    assert elmo.config.tokenizer == "whitespace"
    assert elmo.warm_h is not None
    # What the trainer measured is what the model gives.
    text = Corpus.open(corpus)
    held_out = [
        [text.words[i] for i in sentence]
        for sentence in (text.valid[k] for k in range(len(text.valid)))
    ]
    result = json.loads((tmp_path / "run" / "result.json").read_text())["valid"]
    found = elmo.perplexity(held_out)
    np.testing.assert_allclose(found.forward, result["forward"], rtol=1e-4)
    np.testing.assert_allclose(found.backward, result["backward"], rtol=1e-4)


def test_a_new_model_knows_the_frequencies_of_words(
    prepared: Callable[[list[str], str], Path], config: PretrainConfig
) -> None:
    lines = ["a a a b", "a a b c"] * 50
    text = Corpus.open(prepared([f"{line} w{i}" for i, line in enumerate(lines)], "frequencies"))
    elmo = new_model(fit_to_corpus(config, text), text)
    assert elmo.softmax is not None and elmo.vocab is not None
    p = torch.exp(elmo.softmax.bias.detach())
    torch.testing.assert_close(p.sum(), torch.tensor(1.0))
    assert p[elmo.vocab.id("a")] > p[elmo.vocab.id("b")] > p[elmo.vocab.id("c")]
    # As many ends as beginnings, together one a sentence: between a and c.
    assert p[0] == p[1]
    ratio = float(p[elmo.vocab.id("a")] / p[0])
    counts = text.counts[elmo.vocab.id("a")]
    np.testing.assert_allclose(ratio, (counts + 1) / (len(text.train) / 2 + 1), rtol=1e-4)


@pytest.mark.parametrize(("limit", "state"), [(0.0, "zero"), (100.0, "warm")])
def test_sentences_start_where_the_model_reads_them_better(
    limit: float,
    state: str,
    corpus: Path,
    config: PretrainConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmokit.pretraining.evaluate.WARM_IF_BELOW", limit)
    elmo = pretrain(corpus, tmp_path, config.override("train.max_steps=6"))
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["valid_zero"] != result["valid_warm"]
    assert elmo.config.state == result["state"] == state
    assert result["valid"] == result[f"valid_{state}"]


def test_a_small_text_gets_fewer_lanes(
    corpus: Path, config: PretrainConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pretrain(corpus, tmp_path, config.override("data.lanes=100000", "train.max_steps=2"))
    assert "lanes instead of 100000" in caplog.text
    text = Corpus.open(corpus).train
    assert_refused(
        lambda: training_stream(text, DataConfig(unroll=100_000), seed=1), "too many for a text"
    )
    assert_refused(
        lambda: training_stream(text, DataConfig(lanes=4), seed=1, processes=3),
        "multiple of 3 processes",
    )


def test_the_best_model_is_kept(
    corpus: Path, config: PretrainConfig, tmp_path: Path, wreck_before: Callable[[int], None]
) -> None:
    wreck_before(5)
    pretrain(corpus, tmp_path / "run", config.override("train.evaluate_every=1"), device="cpu")
    rows = read_log(tmp_path / "run" / "log.jsonl")
    best = json.loads((tmp_path / "run" / "result.json").read_text())
    assert best["best"] == min(row["valid_mean"] for row in rows[:4])
    assert min(row["valid_mean"] for row in rows[4:]) > 2 * best["best"]
    np.testing.assert_allclose(best["valid_zero"]["mean"], best["best"], rtol=1e-4)


def test_a_run_without_progress_stops_early(
    corpus: Path, config: PretrainConfig, tmp_path: Path, wreck_before: Callable[[int], None]
) -> None:
    wreck_before(3)
    config = config.override("train.evaluate_every=1", "train.patience=2")
    pretrain(corpus, tmp_path / "run", config, device="cpu")
    assert len(read_log(tmp_path / "run" / "log.jsonl")) <= 4


def test_a_run_that_goes_astray_ends_with_a_word_of_it(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    wild = config.override("train.lr=1e30", "train.max_steps=40", "train.warmup_steps=0")
    assert_refused(
        lambda: pretrain(corpus, tmp_path / "run", wild, device="cpu"), "step ", "train.lr"
    )


KILLED = """
import os, signal
from elmokit.pretraining.loop import Loop
step = Loop.step
def until_killed(self, share):
    if self.progress.step == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, share)
Loop.step = until_killed
from elmokit.cli import main
main()
"""
"""`elmokit`, which dies after 13 steps."""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("sentences", marks=pytest.mark.long),
        "lanes",
        pytest.param("full", marks=pytest.mark.long),
    ],
)
def test_killed_and_resumed_equals_unbroken(
    kind: str, corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    config = {"sentences": sentences(config), "lanes": config, "full": full(config)}[kind]
    config = config.override("train.max_steps=40")
    whole = pretrain(corpus, tmp_path / "whole", config, device="cpu")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_dict()))
    broken = tmp_path / "broken"
    arguments = ["pretrain", str(corpus), "-o", str(broken)]
    arguments += ["--config", str(path), "--device", "cpu", "--resume", "-q"]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments])
    assert killed.returncode == -signal.SIGKILL
    assert len(read_log(broken / "log.jsonl")) == 13
    subprocess.run([sys.executable, "-m", "elmokit", *arguments], check=True)
    assert losses(broken) == losses(tmp_path / "whole")
    again = Elmo.from_pretrained(broken, device="cpu")
    for name, tensor in whole.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name].numpy(), tensor.numpy(), name)


def test_a_torn_checkpoint_costs_one_interval(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    config = config.override("train.max_steps=10")
    pretrain(corpus, tmp_path / "run", config, device="cpu")
    expected = losses(tmp_path / "run")
    weights = tmp_path / "run" / "checkpoints" / "step-00000010" / "state.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    pretrain(corpus, tmp_path / "run", config, device="cpu", resume=True)
    assert losses(tmp_path / "run") == expected


def test_a_finished_run_can_go_on_with_a_larger_budget(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    pretrain(corpus, tmp_path / "run", config, device="cpu")
    longer = config.override("train.max_steps=15")
    pretrain(corpus, tmp_path / "run", longer, device="cpu", resume=True)
    assert losses(tmp_path / "run")[-1][0] == 15


@dataclass
class Clock:
    """The time of a run: each step takes `step` seconds, each evaluated word `target` seconds."""

    step: float
    target: float
    now: float = 1000.0
    evaluated: float = 0.0

    def evaluate(self, elmo: Elmo, batches: SentenceBatches, *rest: Any) -> Perplexity:
        self.now += self.target * batches.num_targets
        self.evaluated += self.target * batches.num_targets
        return held_out_perplexity(elmo, batches, *rest)

    def backward(self, loop: Loop, part: int) -> float:
        self.now += self.step
        return BACKWARD(loop, part)


BACKWARD = Loop._backward


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replaces the clock of a run."""
    clock = Clock(step=2.0, target=0.0)
    time = SimpleNamespace(perf_counter=lambda: clock.now, monotonic=lambda: clock.now)
    for name in ("run", "loop", "evaluate"):
        monkeypatch.setattr(f"elmokit.pretraining.{name}.time", time)
    for name in ("run", "evaluate"):
        monkeypatch.setattr(f"elmokit.pretraining.{name}.held_out_perplexity", clock.evaluate)
    monkeypatch.setattr(Loop, "_backward", lambda loop, part: clock.backward(loop, part))
    return clock


def one_minute(config: PretrainConfig, evaluate_every: int) -> PretrainConfig:
    return config.override(
        "train.max_steps=null", "train.max_minutes=1", f"train.evaluate_every={evaluate_every}"
    )


def seconds(run: Path) -> list[float]:
    return [row["seconds"] for row in read_log(run / "log.jsonl")]


def num_last_targets(corpus: Path) -> int:
    valid = Corpus.open(corpus).valid
    return num_final_targets(held_out_batches(valid, 100_000), valid)


def test_a_time_budget_ends_the_run(
    corpus: Path, config: PretrainConfig, tmp_path: Path, clock: Clock
) -> None:
    clock.target = 25 / num_last_targets(corpus)
    pretrain(corpus, tmp_path / "run", one_minute(config, 1_000_000), device="cpu")
    # 25 seconds of the minute are kept for the final evaluation.
    assert seconds(tmp_path / "run") == [2.0 * step for step in range(1, 19)]
    rates = [row["lr"] for row in read_log(tmp_path / "run" / "log.jsonl")]
    assert rates[-1] < max(rates)
    # Another third of the 25 was spent before the first step, to measure the pace.
    assert clock.evaluated == pytest.approx(25 * 4 / 3)


def test_the_final_evaluation_takes_half_of_the_time_at_most(
    corpus: Path, config: PretrainConfig, tmp_path: Path, clock: Clock
) -> None:
    clock.target = 1e6
    pretrain(corpus, tmp_path / "run", one_minute(config, 1_000_000), device="cpu")
    assert seconds(tmp_path / "run") == [2.0 * step for step in range(1, 16)]


def test_each_evaluation_measures_anew_how_long_the_last_will_take(
    corpus: Path, config: PretrainConfig, tmp_path: Path, clock: Clock
) -> None:
    clock.target = 1e6

    def speed_up(row: Row) -> None:
        clock.target = 3 / num_last_targets(corpus)

    run = tmp_path / "run"
    pretrain(corpus, run, one_minute(config, 6), device="cpu", on_row=speed_up)
    found = seconds(run)
    # Evaluations of a second each after steps 6, 12, 18 and 24; three seconds are kept.
    expected = [2.0 * step + (step - 1) // 6 for step in range(1, len(found) + 1)]
    assert found == pytest.approx(expected) and found[-1] >= 57 > found[-2]


def test_evaluations_read_sentences_from_all_over_the_held_out_text(corpus: Path) -> None:
    valid = Corpus.open(corpus).valid
    some, every = held_out_batches(valid, 60), held_out_batches(valid, None)
    assert 0 < int(some.lengths.sum()) <= 90 < int(every.lengths.sum()) == len(valid.tokens)
    firsts = [valid[i].tolist() for i in range(3)]
    sentences = [some.batch(rows).targets[0, :-1, i].tolist()
                 for rows in some.epoch(0) for i in range(len(rows))]  # fmt: skip
    assert firsts[0] in sentences and not all(first in sentences for first in firsts)


def test_the_final_evaluation_shows_its_progress_and_reads_all_text(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    stages: list[tuple[str, float]] = []
    sampled = config.override("train.evaluate_tokens=60", "train.max_steps=3")
    pretrain(corpus, tmp_path, sampled, device="cpu", on_stage=lambda *at: stages.append(at))
    shares = [share for name, share in stages if "held-out" in name]
    assert shares == sorted(shares) and shares[-1] == 1 and len(shares) > 3
    result = json.loads((tmp_path / "result.json").read_text())
    valid = Corpus.open(corpus).valid
    assert result["valid_tokens"] == len(valid.tokens) + len(valid) > result["sample_tokens"]
    assert result["valid"] != result["valid_zero"]


def test_mistakes_are_told(corpus: Path, config: PretrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain(corpus, run, config, device="cpu")
    assert_refused(lambda: pretrain(corpus, run, config), "--resume")
    other = config.override("model.lstm.dim=32")
    assert_refused(lambda: pretrain(corpus, run, other, resume=True), "model", "run.json")
    with pytest.raises(ElmoError, match="elmokit prepare"):
        pretrain(tmp_path / "nothing", tmp_path / "other", config)
    assert not (tmp_path / "other").exists()


def test_large_products_in_bfloat16_learn_the_same(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    pretrain(corpus, tmp_path / "exact", config, device="cpu")
    rough = config.override("train.precision=bfloat16")
    pretrain(corpus, tmp_path / "rough", rough, device="cpu")
    one, other = ([loss for _, loss in losses(tmp_path / name)] for name in ("exact", "rough"))
    assert one != other
    np.testing.assert_allclose(one, other, rtol=0.02)


def test_one_run_a_folder(corpus: Path, config: PretrainConfig, tmp_path: Path) -> None:
    def again(row: dict[str, Any]) -> None:
        assert_refused(
            lambda: pretrain(corpus, tmp_path / "run", config, resume=True), "another process"
        )

    one = config.override("train.max_steps=1")
    pretrain(corpus, tmp_path / "run", one, device="cpu", on_row=again)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.lrr=1", "did you mean 'lr'"),
        ("train.lr", "name=value"),
        ("trian.lr=1", "model, data, softmax, train"),
        ("train.lr=fast", "expected float"),
        ("train.dropout=1", "dropout"),
        ("data.reading=pages", "'sentences', 'lanes'"),
        ("train.max_steps=0", "max_steps"),
    ],
)
def test_settings_are_checked(config: PretrainConfig, setting: str, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        config.override(setting)


def test_settings_apply(config: PretrainConfig) -> None:
    changed = config.override("train.lr=3e-4", "train.max_tokens=2e6", "data.reading=lanes")
    expected: Any = replace(config.train, lr=3e-4, max_tokens=2_000_000)
    assert changed.train == expected and changed.data.reading == "lanes"


@pytest.mark.parametrize("force", [False, True])
def test_tensorboard_that_is_missing_costs_no_run(
    corpus: Path, config: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    force: bool,
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    run = tmp_path / "run"
    if force:
        pretrain(corpus, run, config, device="cpu")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MissingExtra, match="tensorboard is not installed"):
        pretrain(corpus, run, config, device="cpu", force=force, tensorboard=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_died_while_it_replaced_its_model_resumes(
    corpus: Path, config: PretrainConfig, tmp_path: Path
) -> None:
    whole = pretrain(corpus, tmp_path, config, device="cpu")
    rest = tmp_path / ".run.x.partial"
    rest.mkdir()
    (tmp_path / "model.safetensors").rename(rest / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"old")
    (tmp_path / INCOMPLETE).write_text(f"{rest.name}\n")
    with pytest.raises(FileError, match="--resume"):
        Elmo.from_pretrained(tmp_path)
    again = pretrain(corpus, tmp_path, config, device="cpu", resume=True)
    assert all(t.equal(again.state_dict()[name]) for name, t in whole.state_dict().items())
    assert not (tmp_path / INCOMPLETE).exists()
