"""Pre-training from a prepared corpus to a folder that `Elmo.from_pretrained` reads.

RUN/
    run.json                             the resolved configuration, the corpus, the start
    log.jsonl, curve.png                 how it went
    checkpoints/                         to resume from
    config.json, model.safetensors, …    the best model so far
    README.md                            its model card
    result.json                          perplexity of all held-out text, at the end
"""

import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..config import ElmoConfig
from ..corpus.corpus import Corpus
from ..errors import ConfigError, ElmoError, FileError, FormatError
from ..figures import draw_curve
from ..files.folders import (
    INCOMPLETE,
    LOCK,
    check_output_folder,
    finish_replacing,
    is_incomplete,
    locked,
    remove_ours,
)
from ..files.write import whole_file, write_json
from ..formats.save import save_beside
from ..model import Elmo
from .checkpoint import State, checkpoints, load_state, save_state
from .config import PRESETS, PretrainConfig
from .distributed import World, join_world
from .evaluate import (
    as_row,
    final_evaluation,
    held_out_perplexity,
    num_final_targets,
    seconds_per_target,
)
from .interrupts import Interrupts, interrupts
from .loop import Loop, Row, keep_freed_memory
from .objective import Objective
from .records import RunLog, board_writer, is_model, is_run, read_log, read_run, write_model_card
from .setup import (
    batch_reader,
    fit_to_corpus,
    held_out_batches,
    loaded_model,
    new_model,
    resumed_model,
    training_stream,
)
from .start_vectors import StartVectors, read_start_vectors, start_from_vectors

log = logging.getLogger(__name__)

_WRITTEN = (
    "log.jsonl", "curve.png", "result.json", "config.json", "model.safetensors", "vocab.txt",
    "characters.json", "words.json", "checkpoints", "tensorboard", INCOMPLETE,
)  # fmt: skip
"""What a run writes beside `run.json` and a model card that may be somebody's own."""


def pretrain(
    corpus: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: PretrainConfig | None = None,
    *,
    source: str | None = None,
    vectors: str | os.PathLike[str] | None = None,
    resume: bool = False,
    force: bool = False,
    device: str | None = None,
    tensorboard: bool = False,
    on_row: Callable[[Row], None] | None = None,
    on_stage: Callable[[str, float], None] | None = None,
) -> Elmo:
    """Train a biLM on a prepared corpus; returns the best model, which is in `out`, too.

    Ctrl-C and SIGTERM end the run after the step with a checkpoint and a KeyboardInterrupt.

    Args:
        corpus: Folder that `elmokit prepare` made.
        out: Folder of the run.
        config: The run; by default the preset `small`.
        source: A model to continue from, in any published format, instead of random weights.
        vectors: Static word vectors to start from: a GloVe, word2vec or fastText file, or `kiwi`
            for those of Kiwi's own language model. A run that resumes does not need them.
        resume: Continue where the run in `out` stopped, if there is one.
        force: Replace the run in `out`, if there is one.
        device: Any torch device; by default a GPU if there is one.
        tensorboard: Write events for TensorBoard, too.
        on_row: Gets every logged step.
        on_stage: Gets the name of what is done, until the first step is logged and after the last
            one, and the fraction of it that is done.
    """
    if tensorboard:
        board_writer()  # before anything is replaced or written
    if source is not None and vectors is not None:
        raise ConfigError("vectors are the start of a new model; they cannot go with --from")
    folder = check_output_folder(
        out, "pre-training run", is_ours=is_run(Path(out)), resume=resume, force=force
    )
    opened = Corpus.open(corpus)
    if not len(opened.train) or not len(opened.valid):
        raise ConfigError(f"{corpus}: no held-out text; prepare it with --valid or more lines")
    config = fit_to_corpus(config or PRESETS["small"], opened)
    keep_freed_memory()
    with interrupts() as signals, join_world(device) as world, ExitStack() as stack:
        if world.is_first and is_incomplete(folder):  # a run died while it replaced its model
            with locked(folder / LOCK, folder):
                finish_replacing(folder)
        world.wait()
        run = _Run(folder, opened, config, source, force, world, on_row, on_stage, signals)
        run.start(stack, None if vectors is None else os.fspath(vectors), tensorboard)
        run.announce()
        with signals.deferred():
            run.loop.run(run.after_step)
        run.finish()
    return Elmo.from_pretrained(folder, device=device)


class _Run:
    """A loop with its folder."""

    def __init__(
        self,
        folder: Path,
        corpus: Corpus,
        config: PretrainConfig,
        source: str | None,
        force: bool,
        world: World,
        on_row: Callable[[Row], None] | None,
        on_stage: Callable[[str, float], None] | None,
        signals: Interrupts,
    ) -> None:
        self.folder, self.corpus, self.world, self.signals = folder, corpus, world, signals
        self.on_row, self.on_stage, self.force = on_row, on_stage, force
        self._has_logged = False
        self.checkpoints = folder / "checkpoints"
        self.before = read_run(folder) if is_run(folder) and not force else None
        if self.before is not None and source not in (None, self.before["source"]):
            raise ConfigError(
                f"{folder} continues {self.before['source'] or 'no other model'}, not {source}; "
                "resume it without --from, or start in a new folder"
            )
        source = source if self.before is None else self.before["source"]
        self.elmo, is_new_softmax = self._model(config, source)
        self.config = config = replace(config, model=self.elmo.config)
        self.record: dict[str, Any] = {
            "corpus": str(corpus.folder.resolve()),
            "fingerprint": corpus.info.fingerprint,
            "source": source,
            "vectors": None,
            "is_new_softmax": is_new_softmax,
            "has_checkpoint": False,
            "config": config.to_dict(),
        }
        if self.before is not None:
            self._check(self.before)
        assert self.elmo.softmax is not None
        objective = Objective(
            self.elmo.bilm, self.elmo.softmax, config.train.dropout, config.train.engine
        )
        self.reader = batch_reader(self.elmo, corpus, world.device)
        stream = training_stream(corpus.train, config.data, config.train.seed, world.size)
        frozen_steps = config.train.softmax_steps if is_new_softmax else 0
        objective = objective.to(world.device)
        self.loop = Loop(config, objective, stream, self.reader, world, frozen_steps)
        self.held_out = held_out_batches(corpus.valid, config.train.evaluate_tokens)

    def start(self, stack: ExitStack, vectors: str | None, tensorboard: bool) -> None:
        """Restore what is there, or begin; open the log; let no other run write here for as long.

        `stack` closes what is opened here.
        """
        start_vectors = self._read_vectors(vectors)  # what fails leaves no folder behind
        self.world.wait()  # until all have seen the folder as it was
        if self.world.is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(self.folder / LOCK, self.folder))
            if self.force:
                remove_ours(self.folder, _WRITTEN)
        self.world.wait()
        state = load_state(self.checkpoints)
        self.world.wait()
        if state is not None:
            self._restore(state)
            self.loop.progress.is_done = False  # the budget may be larger now
            self.record["has_checkpoint"] = True
            log.info("resuming from step %d", state.progress.step)
        elif self.before is not None:
            self._check_new(self.before)
        self._write_record()
        if state is None and start_vectors is not None:
            self._fit(start_vectors)
        self._saved_at = time.monotonic()
        self._num_final = num_final_targets(self.held_out, self.corpus.valid)
        if self.config.train.max_minutes is not None:
            pace = seconds_per_target(self.elmo, self.corpus)
            self.loop.reserve = self._capped(pace * self._num_final)
        if self.world.is_first:
            self.log = RunLog(self.folder, self.loop.progress.step, tensorboard)
            stack.callback(self.log.close)
            self._last = (self.loop.progress.tokens, self.loop.step_seconds)
            if self.record["source"] is not None and state is None and not self.log.has_start:
                self._evaluate_start()

    def _evaluate_start(self) -> None:
        """Log what the other model knows of this text, so that one sees what training changes.

        Its words are the corpus's by now; those that it did not know have rows of random weights.
        """
        on_progress = self._stage("evaluating the model before the first step")
        found = held_out_perplexity(
            self.elmo, self.held_out, self.corpus.words, on_progress=on_progress
        )
        valid = {f"valid_{name}": value for name, value in as_row(found).items()}
        self._write(self.loop.row() | valid | {"loss": math.log(found.mean)})

    def _restore(self, state: State) -> None:
        try:
            self.loop.restore(state)
        except ElmoError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as e:
            raise FormatError(
                f"{self.checkpoints}, step {state.progress.step}: does not fit this run "
                f"({e!s:.100}); restore it from a copy, or start again in a new folder"
            ) from e

    def announce(self) -> None:
        """Tell what is trained, on what and for how long, as the name of a stage."""
        if self.on_stage is None or not self.world.is_first:
            return
        config, elmo = self.config.train, self.elmo
        limits = (
            (config.epochs, "{:g} epochs"), (config.max_steps, "{:,} steps"),
            (config.max_tokens, "{:,.0f} tokens"), (config.max_minutes, "{:g} minutes"),
        )  # fmt: skip
        budget = " or ".join(text.format(limit) for limit, text in limits if limit is not None)
        num_parameters = sum(parameter.numel() for parameter in self.loop.parameters)
        self.on_stage(
            f"{self.folder}: {num_parameters:,} parameters, {elmo.dim} dimensions, on "
            f"{self.world.device}; {self.corpus.info.train_tokens:,} tokens of training text, "
            f"{len(self.corpus.vocab):,} words to predict; trains for {budget}",
            0.0,
        )

    def after_step(self) -> None:
        """Evaluate, log and save where it is time."""
        config, progress = self.config.train, self.loop.progress
        if not self._has_logged and self.on_stage is not None and self.world.is_first:
            self.on_stage("training", min(1.0, self.loop.budget_used))
        is_last = self.loop.budget_used >= 1
        is_evaluated = is_last or progress.step % config.evaluate_every == 0
        row: Row | None = None
        if is_evaluated or progress.step % config.log_every == 0:
            row = self.loop.row()
        if is_evaluated and self.world.is_first:
            assert row is not None
            row |= self._evaluate()
        if row is not None and self.world.is_first:
            self._write(row)
        is_out_of_patience = 0 < config.patience <= progress.since_best
        is_old = time.monotonic() - self._saved_at >= 60 * config.checkpoint_minutes
        progress.is_done, is_old, is_stopped = self.world.agree_all(
            is_last or is_out_of_patience, is_old, self.signals.is_requested
        )
        if progress.is_done or is_old or is_stopped or progress.step % config.checkpoint_every == 0:
            self._save()
        if is_stopped and not progress.is_done:
            raise KeyboardInterrupt(f"step {progress.step:,} is saved")

    def finish(self) -> None:
        """The last words: perplexity of all held-out text, the warm state, the curve."""
        if not self.world.is_first:
            self.world.wait()
            return
        best = Elmo.from_pretrained(self.folder, device=str(self.world.device))
        on_progress = self._stage("evaluating all held-out text")
        result = final_evaluation(best, self.corpus, self.held_out, on_progress)
        best.config = replace(best.config, state=result["state"])
        save_beside(best.to_checkpoint(), self.folder)
        with whole_file(self.folder / "result.json") as temporary:
            write_json(temporary, result | {"best": self.loop.progress.best} | self._counts())
        write_model_card(self.folder, self.record, self.corpus, self._counts(), result["valid"])
        self._draw()
        self.world.wait()

    def _model(self, config: PretrainConfig, source: str | None) -> tuple[Elmo, bool]:
        """The model to train, and whether its softmax has to be learned from nothing.

        A run that continued another model has all of it in its own folder.
        """
        if source is None:
            return new_model(config, self.corpus), False
        before = self.before
        if before is not None and before["has_checkpoint"] and is_model(self.folder):
            saved = ElmoConfig.from_dict(before["config"]["model"], "model")
            return resumed_model(self.folder, saved), before["is_new_softmax"]
        return loaded_model(source, self.corpus, config.train.seed)

    def _read_vectors(self, vectors: str | None) -> StartVectors | None:
        """The vectors that this run starts from, unless it started long ago."""
        recorded = self.before["vectors"] if self.before is not None else None
        if self.before is not None:
            known = None if recorded is None else recorded["source"]
            if vectors is not None and vectors != known:
                raise ConfigError(
                    f"{self.folder} started from {known or 'random weights'}, not from {vectors}; "
                    "resume it without --vectors, or start in a new folder"
                )
            vectors = known
        self.record["vectors"] = recorded or (vectors and {"source": vectors})
        if vectors is None or checkpoints(self.checkpoints):
            return None
        train, width = self.config.train, self.config.model.lstm.projection_dim
        on_progress = self._stage(f"reading the vectors of {vectors}")
        return read_start_vectors(vectors, self.corpus, width, train.seed, on_progress)

    def _fit(self, vectors: StartVectors) -> None:
        """Start from static vectors, and keep that: `--resume` must not need them."""
        train = self.config.train
        on_progress = self._stage("fitting the token encoder to the vectors")
        started = start_from_vectors(
            self.elmo, vectors, self.corpus, self.reader,
            steps=train.vector_steps, seed=train.seed, on_progress=on_progress,
        )  # fmt: skip
        self.record["vectors"] = started
        self._write_record()  # first: with a checkpoint, nobody counts again
        self._save()

    def _save(self) -> None:
        """Write a checkpoint; all processes call it together."""
        state = self.loop.save()
        self._saved_at = time.monotonic()
        if not self.world.is_first:
            return
        if self.loop.progress.best is None:
            self._export()  # first: a run that resumes may need what is not in a checkpoint
        save_state(self.checkpoints, state)
        if not self.record["has_checkpoint"]:
            self.record["has_checkpoint"] = True
            self._write_record()

    def _check(self, before: dict[str, Any]) -> None:
        """A run resumes with its own text and model; its budget may change."""
        read_log(self.folder / "log.jsonl")  # a damaged one stops the run before anything changes
        if before["fingerprint"] != self.record["fingerprint"]:
            raise ConfigError(
                f"{self.folder} was trained on {before['corpus']}, which has other text; "
                "resume with that corpus, or start in a new folder"
            )
        for section in ("model", "data", "softmax"):
            old, new = before["config"][section], self.record["config"][section]
            if PretrainConfig.from_dict({section: old}) != PretrainConfig.from_dict({section: new}):
                raise ConfigError(
                    f"{self.folder}: the run has other settings of {section}; resume without "
                    "changing them (they are in run.json), or start in a new folder"
                )

    def _check_new(self, before: dict[str, Any]) -> None:
        """Only a run that never wrote a checkpoint may begin at step 0 again."""
        if before["has_checkpoint"]:
            raise FileError(
                f"{self.checkpoints}: the checkpoints of this run are gone; restore them from a "
                "copy, or start again in a new folder"
            )
        log.warning("%s has no checkpoint yet: starting at step 0", self.folder)

    def _evaluate(self) -> Row:
        progress, start = self.loop.progress, time.perf_counter()
        perplexity = held_out_perplexity(self.elmo, self.held_out, self.corpus.words)
        if self.loop.reserve:
            pace = (time.perf_counter() - start) / self.held_out.num_targets
            self.loop.reserve = self._capped(pace * self._num_final)
        if progress.best is None or perplexity.mean < progress.best:
            progress.best, progress.since_best = perplexity.mean, 0
            self._export()
        else:
            progress.since_best += 1
        return {f"valid_{name}": value for name, value in as_row(perplexity).items()}

    def _capped(self, seconds: float) -> float:
        """Time for the end of the run, but no more than half of a budget of minutes."""
        return min(seconds, 30 * (self.config.train.max_minutes or 0.0))

    def _export(self) -> None:
        """Write the weights as they are now as the run's model."""
        save_beside(self.elmo.to_checkpoint(), self.folder)
        write_model_card(self.folder, self.record, self.corpus, self._counts())

    def _write_record(self) -> None:
        if self.world.is_first:
            with whole_file(self.folder / "run.json") as temporary:
                write_json(temporary, self.record)

    def _write(self, row: Row) -> None:
        progress = self.loop.progress
        tokens, seconds = progress.tokens - self._last[0], self.loop.step_seconds - self._last[1]
        self._last = (progress.tokens, self.loop.step_seconds)
        used = min(1.0, self.loop.budget_used)
        row["share"] = round(used, 5)
        row["tokens_per_s"] = round(tokens / max(seconds, 1e-9), 1)
        if progress.step:
            row["eta_seconds"] = round(progress.seconds * (1 - used) / max(used, 1e-9))
        self.log.write(row)
        self._has_logged = row["step"] > 0  # from now on, rows tell how far the run is
        if "valid_mean" in row:
            self._draw()
        if self.on_row is not None:
            self.on_row(row)

    def _draw(self) -> None:
        rows = read_log(self.folder / "log.jsonl")
        is_sampled = self.loop.sampler is not None
        if not draw_curve(rows, self.folder / "curve.png", is_sampled):
            log.info("no curve.png: install matplotlib (elmokit[plot])")

    def _counts(self) -> Row:
        progress = self.loop.progress
        return {"step": progress.step, "tokens": progress.tokens, "seconds": progress.seconds}

    def _stage(self, name: str) -> Callable[[float], None] | None:
        return self.on_stage and partial(self.on_stage, name)
