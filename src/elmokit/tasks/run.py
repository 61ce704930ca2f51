"""Training of a task, from files to a run folder: `train_task` (see `folder.py` for what is in it).

The baseline is the same call with `elmo.place` none.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from ..builtin import builtin_folder
from ..errors import ConfigError, FileError, InputError
from ..files.folders import LOCK, check_output_folder, locked, remove_ours
from ..files.write import whole_file, write_json
from ..model import Elmo, Execution
from ..model.device import find_device
from ..pretraining.interrupts import Interrupts, interrupts
from ..text.reader import Reader
from .batch import TokenReader
from .config import ElmoPlace, TaskConfig
from .digest import data_digest
from .embedding import TaskEmbedding
from .features import FrozenLayers, LayerSource, TunedLayers, chosen_layers
from .folder import (
    VERSION,
    WRITTEN,
    holds_run,
    is_task_run,
    load_words,
    read_card,
    run_folder,
    save_words,
    seed_folder,
    seed_numbers,
)
from .picture import draw_weights
from .registry import find_task
from .same import check_same
from .seed import Results, SeedRun
from .source import fingerprint, load_bilm
from .task import Example, Task, TaskModel
from .trainer import Row, Trainer
from .unseen import warn_of_unseen
from .words import WordTable, word_table

log = logging.getLogger(__name__)

STATIC_BYTES = 256 << 20
"""Of a larger file of static vectors, a run keeps the words of its data only."""


def train_task(
    task: str,
    train: str | Path,
    dev: str | Path,
    model: str | Path | None,
    out: str | Path,
    config: TaskConfig | None = None,
    *,
    seeds: int = 1,
    static: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    device: str | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> dict[str, Any]:
    """Train a task model with one or more seeds; returns what they came to.

    `out/metrics.json` has the same of all seeds of the run that are finished.

    Ctrl-C and SIGTERM end the run after the step, with a checkpoint and a KeyboardInterrupt that
    says what is saved.

    Args:
        task: Its name, such as `ner`; `registry.py` has them all.
        train: File to learn from.
        dev: File that says which epoch is the best.
        model: The biLM, in any published format; None with `elmo.place` none.
        out: Folder of the run.
        config: The settings; by default the task's.
        seeds: How many models to train, from the seed `train.seed` on.
        static: File of static word vectors (GloVe, word2vec, fastText).
        resume: Continue where the run in `out` stopped, if there is one.
        force: Replace the run in `out`, if there is one.
        device: Any torch device; by default a GPU if there is one.
        on_row: Gets the row of every epoch.
    """
    chosen = find_task(task)
    config = config or chosen.config_class()
    if not isinstance(config, chosen.config_class):
        raise ConfigError(f"task {task}: expected a {chosen.config_class.__name__}")
    if seeds < 1:
        raise ConfigError(f"seeds={seeds}: expected 1 or more")
    is_ours = is_task_run(out)
    is_bare = is_ours and not holds_run(out)  # has learned nothing yet: it may start again
    folder = check_output_folder(
        out, "task run", is_ours=is_ours, resume=resume or (is_bare and not force), force=force
    )
    with interrupts() as signals:
        elmo = _bilm(config, model, device)
        run = _Run(chosen, config, elmo, folder, on_row, device, signals)
        with run_folder(folder), locked(folder / LOCK, folder):
            source = str(model) if elmo is not None else None
            run.read(Path(train), Path(dev), static, source, force)
            numbers = [config.train.seed + i for i in range(seeds)]
            return run.finish([run.train_seed(number) for number in numbers])


class _Run:
    """What the seeds of a run share."""

    def __init__(
        self,
        task: Task,
        config: TaskConfig,
        elmo: Elmo | None,
        folder: Path,
        on_row: Callable[[Row], None] | None,
        device: str | None,
        signals: Interrupts,
    ) -> None:
        self.task, self.elmo, self.folder, self.on_row = task, elmo, folder, on_row
        self.signals = signals
        name = config.tokenizer or (elmo and elmo.config.tokenizer) or "regex"
        self.config = replace(config, tokenizer=name)
        self.device = elmo.device if elmo is not None else find_device(device)
        self.reader = elmo.reader if elmo is not None else Reader(name)
        self.source: LayerSource | None = None
        if elmo is not None and not config.elmo.finetune:
            cache = config.train.cache_mb << 20
            self.source = FrozenLayers(elmo, config.elmo.layers, max_bytes=cache)
        self.results = Results(task.metric, _mixes(config.elmo, elmo))

    def read(
        self, train: Path, dev: Path, static: str | Path | None, source: str | None, force: bool
    ) -> None:
        """Read the data; then begin, or check that they are those of the run that resumes."""
        config = self.config
        self.train = self._examples(train, is_training=True)
        self.dev = self._examples(dev, is_training=False)
        if config.train.fraction < 1:
            number = max(1, round(config.train.fraction * len(self.train)))
            chance = np.random.default_rng(config.train.seed)
            kept = sorted(chance.permutation(len(self.train))[:number].tolist())
            self.train = [self.train[i] for i in kept]
        self.facts = self.task.facts(self.train)
        found = {
            "format_version": VERSION,
            "task": self.task.name,
            "config": config.to_dict(),
            "model": None if self.elmo is None else _card(self.elmo, str(source)),
            "static": None if static is None else str(static),
            "train": _data(train, self.train),
            "dev": _data(dev, self.dev),
            "facts": self.facts,
        }
        self.card = found = json.loads(json.dumps(found))
        warn_of_unseen(self.task, self.facts, self.dev, dev)
        if holds_run(self.folder) and not force:
            before = read_card(self.folder)
            check_same(self.folder, before, found)
            self.table = load_words(self.folder)
            for number in seed_numbers(self.folder):  # refuse before anything is changed
                self.results.check_seed(seed_folder(self.folder, number), config.train)
            self.card["model"] = before["model"]
        else:
            self.table = word_table(
                self._sentences(self.train), config.words, _read_static(static, self._words())
            )
            if force:  # now that everything has been read
                remove_ours(self.folder, WRITTEN)
            # First: it says whose folder this is, for a run that is killed in between.
            _write(self.folder / "task.json", self.card)
            save_words(self.folder, self.table)

    def train_seed(self, seed: int) -> dict[str, Any]:
        """Train one model, or what is left of it; its scores."""
        folder = seed_folder(self.folder, seed)
        result = self.results.finished(folder, self.config.train)
        if result is not None:
            return result
        source, tuned = self.source, None
        if self.elmo is not None and self.config.elmo.finetune:
            # Each seed starts from the published weights.
            checkpoint = self.elmo.to_checkpoint()
            checkpoint.tensors = {name: t.clone() for name, t in checkpoint.tensors.items()}
            tuned = Elmo.from_checkpoint(
                checkpoint, Execution(device=str(self.device), requires_grad=True)
            )
            source = TunedLayers(tuned, self.config.elmo.layers)
        elif source is not None:
            source.prepare(self._sentences(self.train))
            source.prepare(self._sentences(self.dev))
        model = new_model(self.task, self.config, self.facts, self.table, source, seed)
        read = TokenReader(self.config.words, self.table, source, self.device)
        bilm = None if tuned is None else tuned.bilm
        trainer = Trainer(self.task, model.to(self.device), read, self.config.train, seed, bilm)
        run = SeedRun(folder, trainer, self.signals, tuned, self.on_row)
        run.restore()
        _write(self.folder / "task.json", self.card)  # only now: a bad checkpoint changes nothing
        result = run.run(self.train, self.dev)
        if self.signals.is_requested:
            raise KeyboardInterrupt(f"seed {seed} is finished")
        return result

    def finish(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        """Write what all seeds of the folder came to; the same of those that were asked for."""
        folders = (seed_folder(self.folder, number) for number in seed_numbers(self.folder))
        found = (self.results.finished(folder, self.config.train) for folder in folders)
        every = [result for result in found if result is not None]
        mixes = {f"seed-{result['seed']}": result["mixes"] for result in every}
        _write(self.folder / "task.json", self.card)
        _write(self.folder / "metrics.json", self._summary(every))
        _write(self.folder / "weights.json", mixes)
        all_mixes = [result["mixes"] for result in every if result["mixes"]]
        if all_mixes and not draw_weights(all_mixes, self.folder / "weights.png", self.task.name):
            log.info("no weights.png: install matplotlib (elmokit[plot])")
        return self._summary(results)

    def _summary(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        metric = self.task.metric
        scores = [float(result["dev"][metric]) for result in results]
        return {
            "task": self.task.name,
            "metric": metric,
            "mean": mean(scores),
            "deviation": stdev(scores) if len(scores) > 1 else 0.0,
            "best_seed": results[int(np.argmax(scores))]["seed"],
            "seeds": results,
        }

    def _examples(self, path: Path, *, is_training: bool) -> list[Example]:
        examples = self.task.read(path, self.config, self.reader, is_training=is_training)
        kept = [e for e in examples if all(map(len, self.task.sentences(e)))]
        if not kept:
            side = "training" if is_training else "development"
            hint = f" for {side} (held_out)" if self.config.held_out else ""
            raise InputError(f"{path} has no examples{hint}")
        return kept

    def _sentences(self, examples: list[Example]) -> list[Any]:
        return [s for example in examples for s in self.task.sentences(example)]

    def _words(self) -> set[str]:
        sentences = self._sentences([*self.train, *self.dev])
        words = {word for sentence in sentences for word in sentence}
        return words | {word.lower() for word in words}


def new_model(
    task: Task,
    config: TaskConfig,
    facts: dict[str, Any],
    table: WordTable | None,
    source: LayerSource | None,
    seed: int,
) -> TaskModel:
    """A model with random weights, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        dims = (0, 0) if source is None else (source.num_layers, source.dim)
        embedding = TaskEmbedding(config.elmo, config.words, table, *dims)
        if not embedding.dim:
            raise ConfigError(
                "the model reads nothing: expected ELMo at the input, static vectors, "
                "words.dim or words.char_filters above 0"
            )
        return task.model(config, facts, embedding)


def _bilm(config: TaskConfig, model: str | Path | None, device: str | None) -> Elmo | None:
    if config.elmo.place == "none":
        if config.elmo.finetune:
            raise ConfigError("elmo.finetune: there is no biLM to train with elmo.place none")
        return None
    if model is None:
        raise ConfigError("no biLM: give a model (--model), or train the baseline (--elmo none)")
    return load_bilm(model, tokenizer=config.tokenizer, device=device)


def _mixes(place: ElmoPlace, elmo: Elmo | None) -> dict[str, int]:
    """The number of layers of each mix of a task model."""
    if elmo is None:
        return {}
    number = elmo.num_layers if chosen_layers(place.layers, elmo.num_layers) == "all" else 1
    places = (("input", place.at_input), ("output", place.at_output))
    return {name: number for name, is_used in places if is_used}


def _card(elmo: Elmo, source: str) -> dict[str, Any]:
    path = Path(source).expanduser()
    is_path = path.exists() and builtin_folder(source) is None
    return {
        "source": str(path.resolve()) if is_path else source,
        "fingerprint": fingerprint(elmo),
        "num_layers": elmo.num_layers,
        "dim": elmo.dim,
    }


def _data(path: Path, examples: list[Example]) -> dict[str, Any]:
    return {"path": str(path), "sha256": data_digest(path), "examples": len(examples)}


def _read_static(path: str | Path | None, words: set[str]) -> Any:
    if path is None:
        return None
    from ..vectors.static import read_static_vectors

    try:
        is_large = Path(path).stat().st_size > STATIC_BYTES
    except OSError as e:
        raise FileError(f"{path} cannot be read: {e.strerror or e}") from e
    if is_large:
        log.warning("%s is large: the run keeps the words of its training and dev data only", path)
    return read_static_vectors(path, words if is_large else None)


def _write(path: Path, value: dict[str, Any]) -> None:
    with whole_file(path) as temporary:
        write_json(temporary, value)
