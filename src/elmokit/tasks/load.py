"""A trained task model, ready to predict and to be scored."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..errors import ConfigError, FileError, FormatError, InputError
from ..files.read import is_there
from ..model.device import find_device
from ..text.reader import Reader
from .batch import TokenReader
from .config import TaskConfig
from .digest import is_same_data
from .features import FrozenLayers, LayerSource
from .folder import (
    check_weights,
    is_task_run,
    load_model,
    load_words,
    read_best_seed,
    read_card,
    seed_folder,
    seed_numbers,
)
from .registry import find_task
from .run import new_model
from .source import load_bilm, reload_bilm
from .task import Example, Metrics, Task, TaskModel
from .trainer import predict
from .unseen import warn_of_unseen

log = logging.getLogger(__name__)


class TrainedTask:
    """A task, its model and everything that the model reads."""

    def __init__(
        self,
        task: Task,
        config: TaskConfig,
        model: TaskModel,
        read: TokenReader,
        reader: Reader,
        card: Mapping[str, Any],
        seed: int,
    ) -> None:
        self.task, self.config, self.model, self.read = task, config, model, read
        self.reader = reader
        self.facts, self.seed = card["facts"], seed
        self._data = [card[side] for side in ("train", "dev")]

    def evaluate(self, path: str | Path) -> Metrics:
        """The scores on a file, and the number of examples.

        For the file that the model has learned from, only what was held out is scored; its
        contents tell, whatever it is called now.
        """
        path, config = Path(path), self.config
        if config.held_out and any(is_same_data(path, data) for data in self._data):
            log.warning(
                "%s is the training data: scoring only the %g of it that was held out",
                *(path, config.held_out),
            )
        elif config.held_out:
            config = replace(config, held_out=0.0)
        examples = self.task.read(path, config, self.reader, is_training=False)
        kept = [e for e in examples if self._has_words(e)]
        if not kept:
            raise InputError(f"{path} has no examples")
        warn_of_unseen(self.task, self.facts, kept, path)
        if len(kept) < len(examples):
            log.warning(
                "%s: examples without words, not counted: %d", path, len(examples) - len(kept)
            )
        return {**self.task.score(kept, self.predict(kept)), "examples": len(kept)}

    def predict(self, examples: Sequence[Example]) -> list[Any]:
        """What the model says about each example; None about one without words."""
        real = [i for i, example in enumerate(examples) if self._has_words(example)]
        found = predict(
            self.task,
            self.model,
            self.read,
            [examples[i] for i in real],
            self.config.train.batch_size,
        )
        predictions: list[Any] = [None] * len(examples)
        for i, prediction in zip(real, found, strict=True):
            predictions[i] = prediction
        return predictions

    def predict_texts(self, texts: Iterable[str]) -> list[tuple[Example, Any]]:
        """Each text as an example, and what the model says about it."""
        examples = [self.example(text) for text in texts]
        return list(zip(examples, self.predict(examples), strict=True))

    def example(self, line: str) -> Example:
        """A line of text as an example without a label."""
        return self.task.example(line, self.reader, self.config)

    def _has_words(self, example: Example) -> bool:
        return all(map(len, self.task.sentences(example)))


def load_task(
    run: str | Path,
    *,
    model: str | Path | None = None,
    seed: int | None = None,
    device: str | None = None,
) -> TrainedTask:
    """The trained model of a run folder.

    Args:
        run: Folder that `train_task` wrote.
        model: Where the biLM is now; by default where it was.
        seed: Which of the seeds; by default the best on the development data.
        device: Any torch device.
    """
    folder = Path(run)
    if not is_task_run(folder):
        raise FileError(f"{folder} is no task run: it has no task.json; make one: elmokit train")
    where = folder / "task.json"
    card = read_card(folder)
    try:
        task = find_task(card["task"])
        config = task.config_class.from_dict(card["config"], "config")
    except ConfigError as e:
        raise FormatError(f"{where}: {e}") from e
    if seed is None:
        seed = _best_seed(folder)
    place = seed_folder(folder, seed)
    source, reader, where_to = _source(folder, place, card, config, model, device)
    table = load_words(folder)
    weights = place / "model.safetensors"
    try:
        with torch.device("meta"):  # a model as large as a damaged file says is not made
            expected = new_model(task, config, card["facts"], table, source, seed)
    except KeyError as e:
        raise FormatError(f"{where}: the field facts.{e.args[0]} is missing") from e
    check_weights(weights, expected)
    trained = new_model(task, config, card["facts"], table, source, seed)
    load_model(weights, trained)
    read = TokenReader(config.words, table, source, where_to)
    return TrainedTask(task, config, trained.to(where_to).eval(), read, reader, card, seed)


def _source(
    folder: Path,
    place: Path,
    card: dict[str, Any],
    config: TaskConfig,
    model: str | Path | None,
    device: str | None,
) -> tuple[LayerSource | None, Reader, torch.device]:
    """The layers of the run's biLM, its tokenizer, and where the model goes."""
    if card["model"] is None:
        return None, Reader(config.tokenizer or "regex"), find_device(device)
    if config.elmo.finetune:
        elmo = load_bilm(place / "bilm", tokenizer=config.tokenizer, device=device)
    else:
        name = str(model) if model is not None else card["model"]["source"]
        expected = card["model"]["fingerprint"]
        elmo = reload_bilm(folder, name, expected, config.tokenizer, device)
    return FrozenLayers(elmo, config.elmo.layers, is_cached=False), elmo.reader, elmo.device


def _best_seed(folder: Path) -> int:
    """The best seed of a finished run; of an unfinished one, the first that has a model."""
    if (folder / "metrics.json").is_file():
        return read_best_seed(folder / "metrics.json")
    for seed in seed_numbers(folder):
        if is_there(seed_folder(folder, seed) / "model.safetensors"):
            return seed
    raise FileError(f"{folder} has no model yet; train it with: elmokit train … --resume")
