"""A trained task model, ready to predict and to be scored."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Self, TypeAlias, overload

import torch

from ...errors import ConfigError, ElmoError, FileError, FormatError, InputError, quoted
from ...files.read import is_there, json_field, read_json, read_lines
from ...model import Elmo
from ...model.execution import find_device
from ...text.reader import Reader
from ..parts import bilm
from ..parts.bilm import FrozenLayers
from ..parts.embedding import TokenReader
from ..parts.generation import GenerateConfig, Writer
from ..registry import current_name, find_task
from ..results import Result
from ..task import (
    AnyTask,
    ConfigT,
    ExampleT,
    PredictionT,
    Scores,
    Task,
    TaskModel,
    new_model,
    warn_of_unknown_labels,
)
from . import files
from .trainer import predict

log = logging.getLogger(__name__)


class TrainedTask(Generic[ConfigT, ExampleT, PredictionT]):
    """A task, its model and everything that the model reads.

    Example:
        >>> tagger = load_task("run")  # doctest: +SKIP
        >>> tagger("Anna Lee lives in Paris.").entities  # doctest: +SKIP
        (Entity(text='Anna Lee', label='PER', start=0, end=8, score=0.981), …)
    """

    def __init__(
        self,
        task: Task[ConfigT, ExampleT, PredictionT],
        config: ConfigT,
        model: TaskModel[ExampleT, PredictionT],
        read: TokenReader,
        reader: Reader,
        record: dict[str, Any],
        seed: int,
        score: float | None = None,
    ) -> None:
        self.task, self.config, self.model, self.read = task, config, model, read
        self.reader, self.seed, self.score = reader, seed, score
        self.label_sets = record["facts"]
        self._bilm = (record["model"] or {"source": "no biLM"})["source"] or "a biLM from memory"
        self._data = [record[side] for side in ("train", "dev")]

    def decoding(self, **changes: Any) -> Self:
        """This model with other settings of its search: those of `DecodeConfig`, such as `beam`."""
        if not isinstance(self.model, Writer):
            raise ConfigError(f"the task {self.task.name} writes no text: it has no search to set")
        model: Any = copy(self.model)  # with the same weights
        object.__setattr__(model, "decode", replace(self.model.decode, **changes))
        chosen = copy(self)
        chosen.model = model
        return chosen

    def evaluate(self, path: str | Path, target: str | Path | None = None) -> Scores:
        """The scores on a file, and the number of examples.

        For the file that the model has learned from, only what was held out is scored; its
        contents tell, whatever it is called now.

        Args:
            path: The file.
            target: For tasks that write text: the file with the target of each line of `path`.
        """
        path, config = Path(path), self.config
        if isinstance(config, GenerateConfig):
            config = replace(config, dev_target=None if target is None else str(target))
        elif target is not None:
            raise ConfigError(f"the task {self.task.name} reads one file, not a second of targets")
        if config.held_out and any(files.is_same_data(path, data) for data in self._data):
            log.warning(
                "%s is the training data: scoring only the %g of it that was held out",
                *(path, config.held_out),
            )
        elif config.held_out:
            config = replace(config, held_out=0.0)
        examples = self.task.read(path, config, self.reader, is_training=False)
        kept = list(filter(self.task.has_words, examples))
        if not kept:
            raise InputError(f"{path} has no examples")
        warn_of_unknown_labels(self.task, self.label_sets, kept, path)
        if len(kept) < len(examples):
            log.warning(
                "%s: examples without words, not counted: %d", path, len(examples) - len(kept)
            )
        scores = self.task.score(kept, self._predictions(kept))
        return {**scores, "examples": len(kept)}

    def predict(self, examples: Sequence[ExampleT]) -> list[PredictionT | None]:
        """What the model says about each example; None about one without words."""
        real = [i for i, example in enumerate(examples) if self.task.has_words(example)]
        found = self._predictions([examples[i] for i in real])
        by_index = dict(zip(real, found, strict=True))
        return [by_index.get(i) for i in range(len(examples))]

    @overload
    def __call__(self, *inputs: str, **named: str) -> Any: ...
    @overload
    def __call__(self, inputs: Iterable[str | Sequence[str]], /) -> list[Any]: ...
    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """What the model says: a `Result` about one text, or one about each text of a list.

        Which kind of `Result` is up to the task, such as `NerResult`.

        Tasks with two inputs take both, in their order or by name: `(question, text)` for `squad`,
        `(premise, hypothesis)` for `snli`; or a list of such pairs.
        """
        if named or len(inputs) != 1 or isinstance(inputs[0], str):
            (result,) = self._results_of([self._one(inputs, named)])
            return result
        many = inputs[0]
        is_row = isinstance(many, Iterable) and not isinstance(many, (bytes, bytearray, Mapping))
        if not is_row or hasattr(many, "columns"):  # a table would be read as its header
            raise self._wrong(f"got {type(many).__name__}")
        return self._results_of(
            [
                self._one((item,) if isinstance(item, str) else item, {}, i)
                for i, item in enumerate(many)
            ]
        )

    def predict_texts(
        self, texts: str | Iterable[str]
    ) -> list[tuple[ExampleT, PredictionT | None]]:
        """The examples of each line of text, as `elmokit predict` reads it, and their predictions.

        A bare string is one line.
        """
        lines = [texts] if isinstance(texts, str) else texts
        examples = [example for line in lines for example in self.examples(line)]
        return list(zip(examples, self.predict(examples), strict=True))

    def predict_file(self, path: str | Path, form: str | None = None) -> list[Result]:
        """A result for each text of a file, whose labels are ignored.

        Args:
            path: Lines of text, or data of the kind that the task trains on.
            form: `text`, or one of `task.formats`; by default what the suffix says.
        """
        chosen = form or self.task.format_of(str(path))
        if chosen == "text":
            return self.results([self.examples(line) for line in read_lines(path)])
        return self.results(self.unlabelled(path, chosen))

    def unlabelled(self, path: str | Path, form: str) -> list[list[ExampleT]]:
        """What is asked about each text of a data file in one of `task.formats`."""
        if form not in self.task.formats:
            known = ", ".join(["text", *self.task.formats])
            raise ConfigError(
                f"format {quoted(form)}: the task {self.task.name} reads one of {known}"
            )
        return self.task.unlabelled(Path(path), form, self.config, self.reader)

    def results(self, texts: Sequence[Sequence[ExampleT]]) -> list[Result]:
        """A result for each text, given as the examples of what is asked about it."""
        # One after the other: each text takes as many as it has examples.
        predictions = iter(self.predict([example for examples in texts for example in examples]))
        return [
            self.task.joined([self.task.result(e, p) for e, p in zip(examples, predictions)])
            for examples in texts
        ]

    def examples(self, line: str) -> list[ExampleT]:
        """What is asked about a line of text: examples without labels."""
        return self.task.examples(line, self.reader, self.config)

    def __repr__(self) -> str:
        score = "" if self.score is None else f", dev {self.task.metric} {self.score:.4f}"
        return f"TrainedTask({self.task.name}, {self._bilm}, seed {self.seed}{score})"

    def _results_of(self, rows: Sequence[Sequence[str]]) -> list[Result]:
        lines = [self.task.line(texts, self.config) for texts in rows]
        return self.results([self.examples(line) for line in lines])

    def _one(self, texts: Any, named: Mapping[str, Any], number: int | None = None) -> list[str]:
        """The inputs of one text in their order, or an error that says what is expected."""
        where = "" if number is None else f"item {number}: "
        names = self.task.inputs
        if not isinstance(texts, (tuple, list)):
            raise self._wrong(f"{where}got {type(texts).__name__} ({quoted(texts)})")
        for name in named:
            if name not in names:
                raise self._wrong(f"{where}there is no input {quoted(name)}")
            if name in names[: len(texts)]:
                raise self._wrong(f"{where}{name} is given twice")
        found = [*texts, *(named[name] for name in names[len(texts) :] if name in named)]
        if len(found) != len(names):
            raise self._wrong(f"{where}got {len(found)} of {len(names)} inputs")
        for name, text in zip(names, found, strict=True):
            if not isinstance(text, str):
                raise self._wrong(f"{where}{name} is {type(text).__name__} ({quoted(text)})")
        return found

    def _wrong(self, found: str) -> InputError:
        names = self.task.inputs
        expected = "a text, or a list of texts"
        if len(names) > 1:
            expected = f"({', '.join(names)}) or {', '.join(f'{n}=…' for n in names)}, as strings, "
            expected += "or a list of such pairs"
        return InputError(f"{found}; the task {self.task.name} takes {expected}")

    def _predictions(self, examples: Sequence[ExampleT]) -> list[PredictionT]:
        size = self.config.train.batch_size
        return predict(self.task, self.model, self.read, examples, size)


AnyTrainedTask: TypeAlias = TrainedTask[Any, Any, Any]


@overload
def load_task(
    run: str | Path,
    *,
    task: Task[ConfigT, ExampleT, PredictionT],
    model: str | Path | Elmo | None = None,
    layers: FrozenLayers | None = None,
    seed: int | None = None,
    device: str | None = None,
) -> TrainedTask[ConfigT, ExampleT, PredictionT]: ...
@overload
def load_task(
    run: str | Path,
    *,
    task: None = None,
    model: str | Path | Elmo | None = None,
    layers: FrozenLayers | None = None,
    seed: int | None = None,
    device: str | None = None,
) -> AnyTrainedTask: ...
def load_task(
    run: str | Path,
    *,
    task: AnyTask | None = None,
    model: str | Path | Elmo | None = None,
    layers: FrozenLayers | None = None,
    seed: int | None = None,
    device: str | None = None,
) -> AnyTrainedTask:
    """The trained model of a run folder.

    Args:
        run: Folder that `train_task` wrote.
        task: The task, where it is your own and not installed.
        model: The biLM, or where it is now; by default where it was.
        layers: Layers of that biLM, computed so far and to be shared.
        seed: Which of the seeds; by default the best on the development data.
        device: Any torch device; a loaded biLM stays on its own.
    """
    opened = _OpenRun(Path(run), task, model, layers, device)
    return opened.load(_best_seed(opened.folder) if seed is None else seed)


def load_seeds(
    run: str | Path,
    *,
    task: AnyTask | None = None,
    model: str | Path | Elmo | None = None,
    layers: FrozenLayers | None = None,
    device: str | None = None,
) -> Iterator[AnyTrainedTask]:
    """The models of all seeds of a run, one by one; arguments as for `load_task`.

    The biLM is loaded once, and its layers of a sentence are computed once, for all of them.
    """
    opened = _OpenRun(Path(run), task, model, layers, device)
    numbers = files.seed_numbers(opened.folder) or [_best_seed(opened.folder)]
    if opened.layers is not None and layers is None:
        opened.layers.is_cached = len(numbers) > 1
    for number in numbers:
        yield opened.load(number)


class _OpenRun:
    """A run folder with what its seeds share."""

    def __init__(
        self,
        folder: Path,
        task: AnyTask | None,
        model: str | Path | Elmo | None,
        layers: FrozenLayers | None,
        device: str | None,
    ) -> None:
        if not files.is_task_run(folder):
            raise FileError(
                f"{folder} is no task run: it has no task.json; make one: elmokit train"
            )
        self.folder, self.device = folder, device
        self.record = files.read_task_json(folder)
        self.task, self.config = self._find_task(task)
        self.layers = None
        if self.record["model"] is not None and not self.config.elmo.finetune:
            self.layers = layers or self._frozen(model)
            bilm.check_layers(self.layers, self.config.elmo)
            self._check_fingerprint(self.layers.elmo)

    def load(self, seed: int) -> AnyTrainedTask:
        """The model of a seed."""
        layers, config, folder = self.layers, self.config, files.seed_folder(self.folder, seed)
        if self.record["model"] is not None and config.elmo.finetune:
            tuned = bilm.load_bilm(folder / "bilm", tokenizer=config.tokenizer, device=self.device)
            layers = FrozenLayers(tuned, config.elmo.layers, is_cached=False)
        elmo = None if layers is None else layers.elmo
        device = find_device(self.device) if elmo is None else elmo.device
        table, labels = files.load_words(self.folder), self.record["facts"]
        task = self.task.with_learned(files.load_learned(self.folder, self.task.learned_files))
        weights = folder / "model.safetensors"
        try:
            with torch.device("meta"):  # a model as large as a damaged file says is not made
                expected = new_model(task, config, labels, table, layers, seed)
        except KeyError as e:
            where = self.folder / "task.json"
            raise FormatError(f"{where}: the field facts.{e.args[0]} is missing") from e
        files.check_weights(weights, expected)
        model = new_model(task, config, labels, table, layers, seed)
        files.load_weights(weights, model)
        model.use()
        read = TokenReader(config.words, table, layers, device)
        reader = bilm.bilm_reader(elmo, config.tokenizer)
        return TrainedTask(
            task, config, model.to(device).eval(), read, reader, self.record, seed,
            files.dev_score(folder, self.task.metric),
        )  # fmt: skip

    def _find_task(self, task: AnyTask | None) -> tuple[AnyTask, Any]:
        """The task of the run, and the settings."""
        name = self.record["task"]
        if task is not None and current_name(task.name) != name:
            raise ConfigError(f"{self.folder} is a run of the task {name}, not of {task.name}")
        try:
            task = task or find_task(name)
            return task, task.config_class.from_dict(self.record["config"], "config")
        except ConfigError as e:
            raise FormatError(f"{self.folder / 'task.json'}: {e}") from e

    def _frozen(self, model: str | Path | Elmo | None) -> FrozenLayers:
        """The layers of the biLM that the run was trained with, wherever it is now."""
        config = self.config
        source = model or self.record["model"]["source"]
        if source is None:
            raise ConfigError(
                f"{self.folder} was trained with a biLM from memory; give it, or say where it is "
                "with --model"
            )
        try:
            elmo = bilm.load_bilm(source, tokenizer=config.tokenizer, device=self.device)
        except ElmoError as e:
            raise FileError(
                f"{self.folder} was trained with the biLM {source}, which cannot be loaded ({e}); "
                "say where it is now with --model"
            ) from e
        cache = config.train.cache_mb << 20
        return FrozenLayers(elmo, config.elmo.layers, max_bytes=cache, is_cached=False)

    def _check_fingerprint(self, elmo: Elmo) -> None:
        if bilm.fingerprint(elmo) != self.record["model"]["fingerprint"]:
            raise ConfigError(
                f"{elmo.source or 'the given model'} is not the biLM that {self.folder} was "
                "trained with: its weights differ; say where that one is with --model"
            )


def _best_seed(folder: Path) -> int:
    """The best seed of a finished run; of an unfinished one, the first that has a model."""
    metrics = folder / "metrics.json"
    if metrics.is_file():
        return int(json_field(read_json(metrics), "best_seed", int, where=str(metrics)))
    for seed in files.seed_numbers(folder):
        if is_there(files.seed_folder(folder, seed) / "model.safetensors"):
            return seed
    raise FileError(f"{folder} has no model yet; train it with: elmokit train … --resume")
