"""Pre-training from a prepared corpus to a folder that `Elmo.from_pretrained` reads.

RUN/
    run.json                             the resolved configuration and the corpus
    log.jsonl, curve.png                 how it went
    checkpoints/                         to go on from
    config.json, model.safetensors, …    the best model so far
"""

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config import StateMode
from ..data.corpus import Corpus
from ..errors import ConfigError, FileError
from ..io.files import read_json, whole_file, write_json
from ..io.lock import locked
from ..model import Elmo
from ..nn import BiLmState
from .checkpoint import load_state, save_state
from .config import PretrainConfig
from .curve import draw_curve
from .distributed import World, world
from .evaluate import Perplexity, held_out_perplexity
from .logs import RunLog, read_log
from .loop import Loop, Row
from .objective import Objective
from .presets import PRESETS
from .setup import (
    batch_reader,
    fit_to_corpus,
    held_out_batches,
    loaded_model,
    new_model,
    training_stream,
)
from .status import is_run

log = logging.getLogger(__name__)

WARM_UP_SENTENCES = 200
"""Sentences from which the warm state comes."""

WARM_IF_BELOW = 0.99
"""Share of the perplexity from zero that the warm state must be below to become the default."""


def pretrain(
    corpus: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: PretrainConfig | None = None,
    *,
    source: str | None = None,
    resume: bool = False,
    device: str | None = None,
    tensorboard: bool = False,
    on_row: Callable[[Row], None] | None = None,
) -> Elmo:
    """Train a biLM on a prepared corpus; returns the best model, which is in `out`, too.

    Args:
        corpus: Folder that `elmokit prepare` made.
        out: Folder of the run.
        config: The run; by default the preset `small`.
        source: A model to continue from, in any published format, instead of random weights.
        resume: Go on where the run in `out` stopped, if there is one.
        device: Any torch device; by default a GPU if there is one.
        tensorboard: Write events for TensorBoard, too.
        on_row: Gets every logged step.
    """
    folder = Path(out)
    opened = Corpus.open(corpus)
    if not len(opened.train) or not len(opened.valid):
        raise ConfigError(f"{corpus}: no held-out text; prepare it with --valid or more lines")
    config = fit_to_corpus(config or PRESETS["small"], opened)
    with world(device) as here, ExitStack() as stack:
        run = _Run(folder, opened, config, source, resume, here, tensorboard, on_row)
        run.start(stack)
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
        resume: bool,
        here: World,
        tensorboard: bool,
        on_row: Callable[[Row], None] | None,
    ) -> None:
        self.folder, self.corpus, self.world, self.on_row = folder, corpus, here, on_row
        self.tensorboard = tensorboard
        has_run = is_run(folder)
        if has_run and not resume:
            raise FileError(f"{folder} holds a run already; go on with --resume, or choose another")
        self.elmo, is_new_softmax = (
            loaded_model(source, corpus, config.train.seed)
            if source is not None
            else (new_model(config, corpus), False)
        )
        config = replace(config, model=self.elmo.config)
        self.facts = {
            "corpus": str(corpus.folder.resolve()),
            "fingerprint": corpus.info.fingerprint,
            "source": source,
            "config": config.to_dict(),
        }
        if has_run:
            self._check(read_json(folder / "run.json"))
        self.config = config
        assert self.elmo.softmax is not None
        objective = Objective(self.elmo.bilm, self.elmo.softmax, config.train.dropout)
        self.reader = batch_reader(self.elmo, corpus, here.device)
        stream = training_stream(corpus.train, config.data, config.train.seed, here.size)
        self.loop = Loop(
            config,
            objective.to(here.device),
            stream,
            self.reader,
            here,
            frozen_steps=config.train.softmax_steps if is_new_softmax else 0,
        )
        self.held_out = held_out_batches(corpus.valid, config.train.evaluate_tokens)

    def start(self, stack: ExitStack) -> None:
        """Restore what is there; open the log; let no other run write here for as long."""
        if self.world.is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(self.folder / ".lock", self.folder))
        state = load_state(self.folder / "checkpoints")
        if state is not None:
            self.loop.restore(state)
            self.loop.progress.is_done = False  # the budget may be larger now
            log.info("going on from step %d", state.progress.step)
        if self.world.is_first:
            with whole_file(self.folder / "run.json") as temporary:
                write_json(temporary, self.facts)
            self.log = RunLog(self.folder, self.loop.progress.step, self.tensorboard)
            stack.callback(self.log.close)
            self._last = (self.loop.progress.tokens, self.loop.step_seconds)

    def after_step(self) -> None:
        """Evaluate, log and save where it is time."""
        config, progress = self.config.train, self.loop.progress
        is_last = progress.share(config) >= 1
        is_evaluated = is_last or progress.step % config.evaluate_every == 0
        row: Row | None = None
        if is_evaluated or progress.step % config.log_every == 0:
            row = self.loop.row()
        if is_evaluated and self.world.is_first:
            assert row is not None
            row |= self._evaluate()
        if row is not None and self.world.is_first:
            self._write(row)
        is_tired = 0 < config.patience <= progress.since_best
        progress.is_done = bool(self.world.agree(is_last or is_tired))
        if progress.is_done or progress.step % config.checkpoint_every == 0:
            state = self.loop.save()
            if self.world.is_first:
                save_state(self.folder / "checkpoints", state)
                if progress.best is None:
                    self._export()

    def finish(self) -> None:
        """The last words: perplexity of all held-out text, the warm state, the curve."""
        if not self.world.is_first:
            self.world.wait()
            return
        best = Elmo.from_pretrained(self.folder, device=str(self.world.device))
        sentences, words = self.corpus.train, self.corpus.words
        count = min(WARM_UP_SENTENCES, len(sentences))
        best.warm_up([words[i] for i in sentences[k]] for k in range(count))
        perplexities = self._final(best)
        # Sentences start from zero unless the model is lost there.
        is_lost = perplexities["warm"].mean < WARM_IF_BELOW * perplexities["zero"].mean
        state: StateMode = "warm" if is_lost else "zero"
        best.config = replace(best.config, state=state)
        best.save_pretrained(self.folder)
        with whole_file(self.folder / "result.json") as temporary:
            values = {"valid": perplexities[state]._asdict(), "state": state}
            values |= {f"valid_{name}": p._asdict() for name, p in perplexities.items()}
            write_json(temporary, values | {"best": self.loop.progress.best} | self._counts())
        self._draw()
        self.world.wait()

    def _final(self, best: Elmo) -> dict[StateMode, Perplexity]:
        """The perplexity of all held-out text, by the state in which sentences start."""
        assert best.softmax is not None and best.warm_h is not None and best.warm_c is not None
        objective = Objective(best.bilm, best.softmax)
        batches = held_out_batches(self.corpus.valid, None)
        warm = BiLmState(best.warm_h, best.warm_c)
        return {
            "zero": held_out_perplexity(objective, batches, self.reader),
            "warm": held_out_perplexity(objective, batches, self.reader, warm),
        }

    def _check(self, before: dict[str, Any]) -> None:
        """A run goes on with its own text and model; its budget may change."""
        if before["fingerprint"] != self.facts["fingerprint"]:
            raise ConfigError(
                f"{self.folder} was trained on {before['corpus']}, whose text is another; "
                "resume with that corpus, or start in a new folder"
            )
        for section in ("model", "data", "softmax"):
            old, new = before["config"][section], self.facts["config"][section]  # type: ignore[index]
            if PretrainConfig.from_dict({section: old}) != PretrainConfig.from_dict({section: new}):
                raise ConfigError(
                    f"{self.folder}: the run has other settings of {section}; resume without "
                    "changing them (they are in run.json), or start in a new folder"
                )

    def _evaluate(self) -> Row:
        progress = self.loop.progress
        perplexity = held_out_perplexity(self.loop.objective, self.held_out, self.reader)
        if progress.best is None or perplexity.mean < progress.best:
            progress.best, progress.since_best = perplexity.mean, 0
            self._export()
        else:
            progress.since_best += 1
        return {f"valid_{name}": value for name, value in perplexity._asdict().items()}

    def _export(self) -> None:
        """Write the weights as they are now as the run's model."""
        self.elmo.save_pretrained(self.folder)

    def _write(self, row: Row) -> None:
        progress = self.loop.progress
        tokens, seconds = progress.tokens - self._last[0], self.loop.step_seconds - self._last[1]
        self._last = (progress.tokens, self.loop.step_seconds)
        share = min(1.0, progress.share(self.config.train))
        row["share"] = round(share, 5)
        row["tokens_per_s"] = round(tokens / max(seconds, 1e-9), 1)
        row["eta_seconds"] = round(progress.seconds * (1 - share) / max(share, 1e-9))
        self.log.write(row)
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
