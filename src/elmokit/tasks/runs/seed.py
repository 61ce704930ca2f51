"""One seed of a run: its training, kept in its folder so that it can resume at every step."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias

from ...errors import FileError, FormatError, quoted
from ...files.read import is_there, json_field, read_json, read_words
from ...files.write import whole_file
from ...model import Elmo
from ...pretraining.interrupts import Interrupts
from ..config import TrainerConfig
from ..task import ConfigT, ExampleT, PredictionT, Scores
from .files import CHECKPOINT, read_progress, read_row, save_weights, write_whole_json
from .trainer import Row, Trainer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeedResults:
    """The results of a run's seeds on disk: `best.json`, and `metrics.json` once finished.

    They have the score `metric` of the task, and the weights of `mixes` of so many layers.
    """

    metric: str
    mixes: dict[str, int]

    def read(self, path: Path, *whole_numbers: str) -> dict[str, Any]:
        """The scores and layer weights of a seed's best epoch.

        Raises:
            FormatError: A field is missing or wrong.
        """
        values, where = read_json(path), str(path)
        for name in ("seed", *whole_numbers):
            json_field(values, name, int, where=where)
        json_field(values, f"dev.{self.metric}", int, float, where=where)
        mixes = json_field(values, "mixes", dict, where=where)
        if mixes.keys() != self.mixes.keys():
            expected = " and ".join(self.mixes) or "none"
            raise FormatError(f"{where}: mixes={quoted(list(mixes))}: expected {expected}")
        for mix, num_layers in self.mixes.items():
            json_field(values, f"mixes.{mix}.gamma", int, float, where=where)
            weights = json_field(values, f"mixes.{mix}.weights", list, where=where)
            if len(weights) != num_layers or any(type(w) not in (int, float) for w in weights):
                raise FormatError(
                    f"{where}: mixes.{mix}.weights={quoted(weights)}: expected {num_layers} numbers"
                )
        return values

    def finished(self, folder: Path, config: TrainerConfig) -> dict[str, Any] | None:
        """The result of a seed, unless there is more to do; without a checkpoint it cannot."""
        if not (folder / "metrics.json").is_file():
            return None
        result = self.read(folder / "metrics.json", "epoch", "epochs")
        is_finished = config.is_over(result["epochs"], result["epochs"] - result["epoch"])
        if not is_finished and not is_there(folder / CHECKPOINT):
            raise FileError(
                f"{folder} is finished after epoch {result['epochs']}, and its {CHECKPOINT} is "
                "gone; train it anew in another folder"
            )
        return result if is_finished else None

    def check_seed(self, folder: Path, config: TrainerConfig) -> None:
        """Refuse a seed that has more to do and cannot resume."""
        if self.finished(folder, config) is not None:
            return
        if is_there(folder / CHECKPOINT):
            if read_progress(folder / CHECKPOINT).best_epoch:
                self.read(folder / "best.json")
        elif is_there(folder / "log.jsonl"):
            raise FileError(
                f"{folder / CHECKPOINT} is gone; restore it from a copy, or train in a new folder"
            )


OnStage: TypeAlias = Callable[[str, float], None]
"""Gets the name of what is done, and the fraction of it that is done."""


class _Stopped(Exception):
    """The evaluation is to stop; the epoch's steps are not saved yet."""


class SeedRun(Generic[ConfigT, ExampleT, PredictionT]):
    """A trainer with its folder; it stops when `signals` say so.

    `tuned` is a biLM that is trained, too; `on_row` gets the row of every epoch.
    """

    def __init__(
        self,
        folder: Path,
        trainer: Trainer[ConfigT, ExampleT, PredictionT],
        signals: Interrupts,
        tuned: Elmo | None = None,
        on_row: Callable[[Row], None] | None = None,
        on_stage: OnStage | None = None,
    ) -> None:
        self.on_stage = on_stage or (lambda stage, fraction: None)
        self._has_row = False  # from then on, rows tell how far the training is
        self.folder, self.trainer, self.signals = folder, trainer, signals
        self.tuned, self.on_row = tuned, on_row
        self.checkpoint = folder / CHECKPOINT
        self.rows: list[Row] = []

    def restore(self) -> None:
        """Go to where the training stopped, if it did; nothing is written."""
        if is_there(self.checkpoint):
            self.trainer.restore(self.checkpoint)
            seed, progress = self.trainer.seed, self.trainer.progress
            log.info(
                "seed %d resumes after epoch %d, batch %d", seed, progress.epoch, progress.batch
            )
        path, epoch = self.folder / "log.jsonl", self.trainer.progress.epoch
        lines = list(read_words(path)) if is_there(path) else []
        rows = [_read_row(line, f"{path}, line {i}") for i, line in enumerate(lines, start=1)]
        self.rows = [row for row in rows if row["epoch"] <= epoch]
        if epoch and all(row["epoch"] < epoch for row in self.rows):
            # Killed between the checkpoint and the log.
            last = read_row(self.checkpoint)
            self.rows += [] if last is None else [_read_row(last, str(self.checkpoint))]

    def run(self, train: Sequence[ExampleT], dev: Sequence[ExampleT]) -> dict[str, Any]:
        """Train; the scores of the best epoch.

        The checkpoint stays, for a run that is given more epochs later.

        Raises:
            KeyboardInterrupt: A signal asked for it; the message says what is saved.
        """
        self._saved_at = time.monotonic()
        if self.rows:
            self._write_log()
        with self.signals.deferred():
            try:
                self.trainer.run(
                    train,
                    dev,
                    on_step=self._after_step,
                    on_predict=self._before_prediction,
                    on_best=self._keep_best,
                    on_epoch=self._after_epoch,
                )
            except _Stopped:
                self._save()
                raise KeyboardInterrupt(self._steps_are_saved()) from None
        progress = self.trainer.progress
        result = read_json(self.folder / "best.json") | {
            "epoch": progress.best_epoch,
            "epochs": progress.epoch,
            "seconds": round(progress.seconds, 1),
        }
        write_whole_json(self.folder / "metrics.json", result)
        return result

    def _after_step(self) -> None:
        trainer, progress = self.trainer, self.trainer.progress
        if not self._has_row:
            self.on_stage(
                f"seed {trainer.seed}, epoch {progress.epoch + 1}",
                progress.batch / max(1, trainer.num_batches),
            )
        minutes = (time.monotonic() - self._saved_at) / 60
        if self.signals.is_requested or minutes >= self.trainer.config.checkpoint_minutes:
            self._save()
        if self.signals.is_requested:
            raise KeyboardInterrupt(self._steps_are_saved())

    def _before_prediction(self) -> None:
        if not self._has_row:
            self.on_stage("evaluating on the development data", 0.0)
        if self.signals.is_requested:
            raise _Stopped  # the model may have its average in place of its weights here

    def _keep_best(self, metrics: Scores) -> None:
        model = self.trainer.model
        save_weights(self.folder / "model.safetensors", model)
        if self.tuned is not None:
            self.tuned.save_pretrained(self.folder / "bilm")
        mixes = model.embedding.layer_weights()
        best = {"seed": self.trainer.seed, "dev": metrics, "mixes": mixes}
        write_whole_json(self.folder / "best.json", best)

    def _after_epoch(self, row: Row) -> None:
        # First: without a checkpoint, a log tells of one that was lost.
        self._save(row)
        self.rows.append(row)
        self._write_log()
        self._has_row = True
        if self.on_row is not None:
            self.on_row(row)
        if self.signals.is_requested and not self.trainer.is_done:
            raise KeyboardInterrupt(f"seed {row['seed']}, epoch {row['epoch']} is saved")

    def _write_log(self) -> None:
        with whole_file(self.folder / "log.jsonl") as temporary:
            lines = (json.dumps(row) + "\n" for row in self.rows)
            temporary.write_text("".join(lines), encoding="utf-8")

    def _save(self, row: Row | None = None) -> None:
        self.trainer.save(self.checkpoint, row)
        self._saved_at = time.monotonic()

    def _steps_are_saved(self) -> str:
        trainer, progress = self.trainer, self.trainer.progress
        return (
            f"seed {trainer.seed}, epoch {progress.epoch + 1}, "
            f"batch {progress.batch} of {trainer.num_batches} is saved"
        )


def _read_row(line: str, where: str) -> Row:
    """A logged epoch."""
    try:
        row: Row = json.loads(line)
        json_field(row, "epoch", int, where=where)
    except (ValueError, TypeError, RecursionError) as e:
        raise FormatError(f"{where}: not a logged epoch; restore it from a copy") from e
    return row
