"""Training of a task, from files to a run folder: `train_task` (see `files` for what is in it).

The baseline is the same call with `elmo.place` none.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Generic

import numpy as np
from torch import nn

from ...errors import ConfigError, FileError, InputError
from ...figures import draw_layer_weights
from ...files.folders import LOCK, check_output_folder, locked, remove_ours
from ...formats.catalogue.entries import builtin_folder
from ...model import Elmo, Execution
from ...model.execution import find_device
from ...pretraining.interrupts import Interrupts, interrupts
from ...vectors.static import StaticVectors, read_static_vectors
from ..config import TaskConfig
from ..parts import bilm
from ..parts.bilm import FrozenLayers, LayerSource, TunedLayers
from ..parts.embedding import TokenReader, WordTable, word_table
from ..registry import find_task
from ..task import AnyTask, ConfigT, ExampleT, PredictionT, Task, new_model, warn_of_unknown_labels
from . import files
from .seed import OnStage, SeedResults, SeedRun
from .trainer import Row, Trainer

log = logging.getLogger(__name__)

STATIC_BYTES = 256 << 20
"""Of a larger file of static vectors, a run keeps the words of its data only."""


def train_task(
    task: str | AnyTask,
    train: str | Path,
    dev: str | Path,
    model: str | Path | Elmo | None,
    out: str | Path,
    config: TaskConfig | None = None,
    *,
    seeds: int = 1,
    static: str | Path | StaticVectors | None = None,
    layers: FrozenLayers | None = None,
    resume: bool = False,
    force: bool = False,
    device: str | None = None,
    on_row: Callable[[Row], None] | None = None,
    on_stage: OnStage | None = None,
) -> dict[str, Any]:
    """Train a task model with one or more seeds; returns their scores, mean and deviation.

    `out/metrics.json` has the same of all seeds of the run that are finished. Runs that compare
    models can share what they load and compute: a loaded `model`, `static` vectors and `layers`.

    Ctrl-C and SIGTERM end the run after the step, with a checkpoint and a KeyboardInterrupt that
    says what is saved.

    Args:
        task: Its name, such as `ner` (`registry.TASKS` has them all), or a task of your own.
        train: File to learn from.
        dev: File that says which epoch is the best.
        model: The biLM: its name or path, in any published format, or loaded, and then on its own
            device; None with `elmo.place` none, or with `layers`.
        out: Folder of the run.
        config: The settings; by default the task's.
        seeds: How many models to train, from the seed `train.seed` on.
        static: Static word vectors, or their file (GloVe, word2vec, fastText).
        layers: Layers of the frozen biLM, to which this run adds those of its own sentences; made
            for the same `elmo.layers`.
        resume: Continue where the run in `out` stopped, if there is one.
        force: Replace the run in `out`, if there is one.
        device: Any torch device; by default a GPU if there is one.
        on_row: Gets the row of every epoch.
        on_stage: Gets the name of what is done, and the fraction of it that is done.
    """
    chosen = find_task(task) if isinstance(task, str) else task
    config = config or chosen.config_class()
    if not isinstance(config, chosen.config_class):
        raise ConfigError(f"task {chosen.name}: expected a {chosen.config_class.__name__}")
    config = chosen.resolved(config)
    if seeds < 1:
        raise ConfigError(f"seeds={seeds}: expected 1 or more")
    is_ours = files.is_task_run(out)
    is_bare = is_ours and not files.holds_run(out)  # has learned nothing yet: it may start again
    folder = check_output_folder(
        out, "task run", is_ours=is_ours, resume=resume or (is_bare and not force), force=force
    )
    with interrupts() as signals:
        elmo = _find_bilm(config, model, layers, device)
        run = _Run(chosen, config, elmo, layers, folder, on_row, device, signals, on_stage)
        with files.run_folder(folder), locked(folder / LOCK, folder):
            run.read(Path(train), Path(dev), static, force)
            numbers = [config.train.seed + i for i in range(seeds)]
            return run.finish([run.train_seed(number) for number in numbers])


class _Run(Generic[ConfigT, ExampleT, PredictionT]):
    """What the seeds of a run share."""

    def __init__(
        self,
        task: Task[ConfigT, ExampleT, PredictionT],
        config: ConfigT,
        elmo: Elmo | None,
        layers: FrozenLayers | None,
        folder: Path,
        on_row: Callable[[Row], None] | None,
        device: str | None,
        signals: Interrupts,
        on_stage: OnStage | None,
    ) -> None:
        self.on_stage = on_stage or (lambda stage, fraction: None)
        self.task, self.elmo, self.folder, self.on_row = task, elmo, folder, on_row
        self.signals = signals
        name = config.tokenizer or (elmo and elmo.config.tokenizer) or "regex"
        self.config = replace(config, tokenizer=name)
        self.device = elmo.device if elmo is not None else find_device(device)
        self.reader = bilm.bilm_reader(elmo, config.tokenizer)
        self.layers: LayerSource | None = None
        num_layers = 0
        if elmo is not None:
            is_mix = bilm.chosen_layers(config.elmo.layers, elmo.num_layers) == "all"
            num_layers = elmo.num_layers if is_mix else 1
            if not config.elmo.finetune:
                cache = config.train.cache_mb << 20
                self.layers = layers or FrozenLayers(elmo, config.elmo.layers, max_bytes=cache)
        self.results = SeedResults(task.metric, dict.fromkeys(config.elmo.mixes, num_layers))

    def read(
        self, train: Path, dev: Path, static: str | Path | StaticVectors | None, force: bool
    ) -> None:
        """Read the data; then begin, or check that they are those of the run that resumes."""
        config = self.config
        self.train = self._examples(train, is_training=True)
        self.dev = self._examples(dev, is_training=False)
        if config.train.fraction < 1:
            number = max(1, round(config.train.fraction * len(self.train)))
            rng = np.random.default_rng(config.train.seed)
            kept = sorted(rng.permutation(len(self.train))[:number].tolist())
            self.train = [self.train[i] for i in kept]
        self.label_sets = self.task.label_sets(self.train)
        is_resumed = files.holds_run(self.folder) and not force
        saved = files.load_learned(self.folder, self.task.learned_files) if is_resumed else {}
        self.config, learned = self.task.learn(config, self.train, saved)
        self.task, config = self.task.with_learned(learned), self.config
        found = {
            "format_version": files.VERSION,
            "task": self.task.name,
            "config": config.to_dict(),
            "model": None if self.elmo is None else _describe(self.elmo),
            "static": _static_name(static),
            "train": _describe_data(train, self.train),
            "dev": _describe_data(dev, self.dev),
            "facts": self.label_sets,
        }
        self.record = found = json.loads(json.dumps(found))
        warn_of_unknown_labels(self.task, self.label_sets, self.dev, dev)
        if is_resumed:
            before = files.read_task_json(self.folder)
            self.table = files.load_words(self.folder)
            if isinstance(static, StaticVectors):  # compared by their values, not by their name
                is_same = _has_vectors_of(static, self.table)
                found["static"] = before["static"] if is_same else "other vectors"
            files.check_unchanged(self.folder, before, found)
            for number in files.seed_numbers(self.folder):  # refuse before anything is changed
                self.results.check_seed(files.seed_folder(self.folder, number), config.train)
            self.record["model"] = before["model"]
        else:
            self.table = word_table(
                self._sentences(self.train), config.words, _read_static(static, self._words())
            )
            advice = self.task.advice(config, self.train)
            if advice is not None:
                log.warning("%s", advice)
            if force:  # now that everything has been read
                remove_ours(self.folder, files.WRITTEN)
            # First: it says whose folder this is, for a run that is killed in between.
            self._write_record()
            files.save_words(self.folder, self.table)
            files.save_learned(self.folder, learned)

    def train_seed(self, seed: int) -> dict[str, Any]:
        """Train one model, or what is left of it; its scores."""
        folder = files.seed_folder(self.folder, seed)
        result = self.results.finished(folder, self.config.train)
        if result is not None:
            return result
        layers, tuned = self.layers, None
        if self.elmo is not None and self.config.elmo.finetune:
            # Each seed starts from the published weights.
            checkpoint = self.elmo.to_checkpoint()
            checkpoint.tensors = {name: t.clone() for name, t in checkpoint.tensors.items()}
            tuned = Elmo.from_checkpoint(
                checkpoint, Execution(device=str(self.device), requires_grad=True)
            )
            layers = TunedLayers(tuned, self.config.elmo.layers)
        elif layers is not None:
            self.on_stage("computing the layers of the frozen biLM", 0.0)
            layers.prepare(self._sentences(self.train))
            layers.prepare(self._sentences(self.dev))
        model = new_model(self.task, self.config, self.label_sets, self.table, layers, seed)
        read = TokenReader(self.config.words, self.table, layers, self.device)
        tuned_bilm = None if tuned is None else tuned.bilm
        trainer = Trainer(
            self.task, model.to(self.device), read, self.config.train, seed, tuned_bilm
        )
        run = SeedRun(folder, trainer, self.signals, tuned, self.on_row, self.on_stage)
        run.restore()
        self.on_stage(
            f"training {self.task.name}, seed {seed}: {_num_parameters(model):,} parameters"
            f"{'' if self.elmo is None else f' on a biLM of {_num_parameters(self.elmo.bilm):,}'}, "
            f"{self.device}, {len(self.train):,} examples, {len(self.dev):,} for development",
            0.0,
        )
        self._write_record()  # only now: a bad checkpoint changes nothing
        result = run.run(self.train, self.dev)
        if self.signals.is_requested:
            raise KeyboardInterrupt(f"seed {seed} is finished")
        return result

    def finish(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        """Write what all seeds of the folder came to; the same of those that were asked for."""
        folders = (
            files.seed_folder(self.folder, number) for number in files.seed_numbers(self.folder)
        )
        found = (self.results.finished(folder, self.config.train) for folder in folders)
        every = [result for result in found if result is not None]
        mixes = {f"seed-{result['seed']}": result["mixes"] for result in every}
        self._write_record()
        files.write_whole_json(self.folder / "metrics.json", self._summary(every))
        files.write_whole_json(self.folder / "weights.json", mixes)
        drawn = [result["mixes"] for result in every if result["mixes"]]
        path = self.folder / "weights.png"
        if drawn and not draw_layer_weights(drawn, path, self.task.name):
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

    def _write_record(self) -> None:
        files.write_whole_json(self.folder / "task.json", self.record)

    def _examples(self, path: Path, *, is_training: bool) -> list[ExampleT]:
        examples = self.task.read(path, self.config, self.reader, is_training=is_training)
        kept = list(filter(self.task.has_words, examples))
        if not kept:
            side = "training" if is_training else "development"
            hint = f" for {side} (held_out)" if self.config.held_out else ""
            raise InputError(f"{path} has no examples{hint}")
        return kept

    def _sentences(self, examples: list[ExampleT]) -> list[Sequence[str]]:
        return [s for example in examples for s in self.task.sentences(example)]

    def _words(self) -> set[str]:
        sentences = self._sentences([*self.train, *self.dev])
        words = {word for sentence in sentences for word in sentence}
        return words | {word.lower() for word in words}


def _num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _find_bilm(
    config: TaskConfig,
    model: str | Path | Elmo | None,
    layers: FrozenLayers | None,
    device: str | None,
) -> Elmo | None:
    if config.elmo.place == "none":
        if config.elmo.finetune:
            raise ConfigError("elmo.finetune: there is no biLM to train with elmo.place none")
        return None
    if layers is not None:
        bilm.check_layers(layers, config.elmo, model)
        return layers.elmo
    if model is None:
        raise ConfigError("no biLM: give a model (--model), or train the baseline (--elmo none)")
    return bilm.load_bilm(model, tokenizer=config.tokenizer, device=device)


def _describe(elmo: Elmo) -> dict[str, Any]:
    """What `task.json` says of the biLM: which weights, and where they were loaded from."""
    source = elmo.source
    if source is not None and builtin_folder(source) is None:
        path = Path(source).expanduser()
        source = str(path.resolve()) if path.exists() else source
    return {
        "source": source,
        "fingerprint": bilm.fingerprint(elmo),
        "num_layers": elmo.num_layers,
        "dim": elmo.dim,
    }


def _describe_data(path: Path, examples: Sequence[object]) -> dict[str, Any]:
    return {"path": str(path), "sha256": files.hash_data(path), "examples": len(examples)}


def _static_name(static: str | Path | StaticVectors | None) -> str | None:
    if isinstance(static, StaticVectors) and static.source is not None:
        return static.source
    if isinstance(static, StaticVectors):
        return f"{len(static.words)} vectors of {static.dim} values, given in memory"
    return None if static is None else str(static)


def _has_vectors_of(static: StaticVectors, table: WordTable | None) -> bool:
    """Whether a run's word table has its vectors from these."""
    if table is None or table.matrix is None or table.matrix.shape[1] != static.dim:
        return False
    rows = [static.words.get(word) for word in table.words]
    known = [row for row in rows if row is not None]
    return len(known) == len(rows) and np.array_equal(static.matrix[known], table.matrix)


def _read_static(
    static: str | Path | StaticVectors | None, words: set[str]
) -> StaticVectors | None:
    """The vectors; of many, those of the words of the data only."""
    if static is None:
        return None
    if isinstance(static, StaticVectors):
        if static.matrix.nbytes <= STATIC_BYTES:
            return static
        kept = [word for word in static.words if word in words]
        rows = static.matrix[[static.words[word] for word in kept]]
        return replace(static, words={word: i for i, word in enumerate(kept)}, matrix=rows)
    try:
        is_large = Path(static).stat().st_size > STATIC_BYTES
    except OSError as e:
        raise FileError(f"{static} cannot be read: {e.strerror or e}") from e
    if is_large:
        log.warning(
            "%s is large: the run keeps the words of its training and dev data only", static
        )
    return read_static_vectors(static, words if is_large else None)
