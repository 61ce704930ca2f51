"""One seed of a run: its training, kept in its folder so that it can go on at every epoch."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import FileError
from ..io.files import read_json, whole_file, write_json
from ..model import Elmo
from .config import TrainConfig
from .folder import CHECKPOINT, save_model
from .task import Example, Metrics
from .trainer import Row, Trainer

log = logging.getLogger(__name__)


def finished_seed(folder: Path, config: TrainConfig) -> dict[str, Any] | None:
    """What a seed came to, unless there is more to do; without a checkpoint there cannot be."""
    if not (folder / "metrics.json").is_file():
        return None
    result = read_json(folder / "metrics.json")
    is_finished = config.is_over(result["epochs"], result["epochs"] - result["epoch"])
    if not is_finished and not (folder / CHECKPOINT).is_file():
        raise FileError(
            f"{folder} is finished after epoch {result['epochs']}, and its {CHECKPOINT} is gone; "
            "train it anew in another folder"
        )
    return result if is_finished else None


class SeedRun:
    """A trainer with its folder.

    Args:
        folder: Where everything goes.
        trainer: The training, at its beginning.
        tuned: The biLM that is trained, too.
        on_row: Gets the row of every epoch.
    """

    def __init__(
        self,
        folder: Path,
        trainer: Trainer,
        tuned: Elmo | None = None,
        on_row: Callable[[Row], None] | None = None,
    ) -> None:
        self.folder, self.trainer, self.tuned, self.on_row = folder, trainer, tuned, on_row
        self.checkpoint = folder / CHECKPOINT
        self.rows: list[Row] = []

    def run(self, train: Sequence[Example], dev: Sequence[Example]) -> dict[str, Any]:
        """Train, or go on; the scores of the best epoch.

        The checkpoint stays, for a run that is given more epochs later.
        """
        if self.checkpoint.is_file():
            self.trainer.restore(self.checkpoint)
            log.info("seed %d goes on from epoch %d", self.trainer.seed, self.trainer.state.epoch)
        rows = _read_rows(self.folder / "log.jsonl")
        self.rows = [row for row in rows if row["epoch"] <= self.trainer.state.epoch]
        self.trainer.run(train, dev, on_epoch=self._after_epoch, on_best=self._keep_best)
        state = self.trainer.state
        result = read_json(self.folder / "best.json") | {
            "epoch": state.best_epoch,
            "epochs": state.epoch,
            "seconds": round(state.seconds, 1),
        }
        with whole_file(self.folder / "metrics.json") as temporary:
            write_json(temporary, result)
        return result

    def _keep_best(self, metrics: Metrics) -> None:
        model = self.trainer.model
        save_model(self.folder / "model.safetensors", model)
        if self.tuned is not None:
            self.tuned.save_pretrained(self.folder / "bilm")
        mixes = model.embedding.layer_weights()
        with whole_file(self.folder / "best.json") as temporary:
            write_json(temporary, {"seed": self.trainer.seed, "dev": metrics, "mixes": mixes})

    def _after_epoch(self, row: Row) -> None:
        self.rows.append(row)
        with whole_file(self.folder / "log.jsonl") as temporary:
            lines = (json.dumps(row) + "\n" for row in self.rows)
            temporary.write_text("".join(lines), encoding="utf-8")
        # Last: what it names is all there.
        self.trainer.save(self.checkpoint)
        if self.on_row is not None:
            self.on_row(row)


def _read_rows(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
