"""Every command and method that writes, in its smallest form."""

import multiprocessing
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import elmokit.corpus.prepare as preparing
import elmokit.embed_file as embedding
from elmokit import Corpus, Elmo, PrepareConfig, download_model, load_task, prepare, train_task
from elmokit.cli.evaluate import evaluate_cli
from elmokit.compat.allennlp import ElmoEmbedder
from elmokit.corpus import block
from elmokit.files.folders import is_incomplete
from elmokit.files.read import read_json
from elmokit.formats.catalogue.entries import find_model
from elmokit.formats.catalogue.install import fetch_address
from elmokit.formats.load import writable
from elmokit.formats.save import write_checkpoint
from elmokit.model import execution
from elmokit.pretraining.records import read_log
from elmokit.pretraining.run import pretrain

from .experiments import PLANS, make_data_sets, run_experiment
from .targets import (
    make_corpus,
    many_langs,
    run_config,
    task_config,
    tiny,
    write_tags,
    write_text,
)
from .web import publish

VECTOR_FILES = ("out.npz", "out.h5", "out.jsonl", "out.parquet")
FORMATS = (*(format.name for format in writable()), "pair")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that writes.

    Attributes:
        prepare: Makes what the command needs in an empty folder.
        run: The command.
        again: The command that a user gives after the kill.
        result: What the command is for, as something that can be compared.
        is_atomic: Whether there is the old result, the new one or none at any moment.
    """

    prepare: Callable[[Path], object]
    run: Callable[[Path], object]
    again: Callable[[Path], object]
    result: Callable[[Path], object]
    is_atomic: bool = True


def _unless(name: str, command: Callable[[Path], object]) -> Callable[[Path], object]:
    """A command that a user gives again only if there is no result."""
    return lambda folder: None if (folder / name).exists() else command(folder)


def _contents(name: str) -> Callable[[Path], bytes]:
    return lambda folder: (folder / name).read_bytes()


def _with_notes(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """A run, and a file of somebody else's in its folder."""
    return lambda folder: (make(folder), (folder / "run" / "notes.txt").write_text("mine"))


def _vectors(folder: Path | str) -> bytes:
    return Elmo.from_pretrained(folder, device="cpu").embed("the gift").tobytes()


# prepare


def _prepare(folder: Path, *, stdin: bool = False, force: bool = False, workers: int = 1) -> None:
    config = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
    text = folder / "text.txt"
    if stdin:
        os.dup2(os.open(text, os.O_RDONLY), 0)
    source = ["-" if stdin else text]
    prepare(source, folder / "corpus", config, workers=workers, force=force)


def _prepare_in_processes(folder: Path) -> None:
    """With workers that begin at once: by fork, which is all that differs, not by spawn."""
    preparing.BLOCK_BYTES = 500  # so that there are several blocks
    forked = multiprocessing.get_context("fork")
    block.multiprocessing = SimpleNamespace(  # type: ignore[assignment]
        get_context=lambda _: forked, parent_process=multiprocessing.parent_process
    )
    try:
        _prepare(folder, workers=2)
    finally:
        preparing.BLOCK_BYTES, block.multiprocessing = 4 << 20, multiprocessing


def _old_corpus(folder: Path) -> None:
    write_text(folder / "text.txt", 30)
    _prepare(folder)
    write_text(folder / "text.txt")


def _prepares() -> dict[str, Command]:
    def text(f: Path) -> None:
        write_text(f / "text.txt")

    def fingerprint(f: Path) -> str:
        return Corpus.open(f / "corpus").info.fingerprint

    forced, piped = partial(_prepare, force=True), partial(_prepare, stdin=True)
    return {
        "prepare": Command(text, _prepare, _unless("corpus", _prepare), fingerprint),
        "prepare -": Command(text, piped, _unless("corpus", piped), fingerprint),
        "prepare --workers 2": Command(
            text, _prepare_in_processes, _unless("corpus", _prepare_in_processes), fingerprint
        ),
        "prepare --force": Command(_old_corpus, forced, forced, fingerprint),
    }


# embed


def _embed(folder: Path, name: str, seed: int = 0, **options: bool) -> None:
    execution.WINDOW_SENTENCES = 25  # so that there are several blocks
    embedding.embed_file(tiny(seed), folder / "text.txt", folder / name, **options)


def _embeds(name: str) -> dict[str, Command]:
    def old(f: Path) -> None:
        write_text(f / "text.txt")
        _embed(f, name, seed=1)

    again = _unless(name, partial(_embed, name=name, resume=True))
    forced = partial(_embed, name=name, force=True)
    resumed = partial(_embed, name=name, force=True, resume=True)
    run, result = partial(_embed, name=name), _contents(name)
    return {
        f"embed {name}": Command(lambda f: write_text(f / "text.txt"), run, again, result),
        f"embed {name} --force": Command(old, forced, resumed, result),
    }


def _allennlp(folder: Path) -> None:
    model = folder / "model"
    embedder = ElmoEmbedder(model / "options.json", model / "weights.hdf5")
    with (folder / "text.txt").open(encoding="utf-8") as text:
        embedder.embed_file(text, folder / "out.h5")


def _scores(folder: Path, *, force: bool = False) -> None:
    scores = str(folder / "scores.jsonl")
    evaluate_cli(
        str(folder / "model"), [str(folder / "text.txt")], scores=scores, quiet=True, force=force
    )


def _model_and_text(format: Any, old: str = "") -> Callable[[Path], object]:
    def make(f: Path) -> None:
        write_text(f / "text.txt")
        write_checkpoint(tiny().to_checkpoint(), f / "model", format)
        if old:
            (f / old).write_text("old\n")

    return make


# models


def _convert(folder: Path, format: Any, seed: int = 0, force: bool = False) -> None:
    model = (many_langs if format == "manylangs" else tiny)(seed)
    target = folder / ("model/weights.hdf5" if format == "pair" else "model")
    chosen = "official" if format == "pair" else format
    write_checkpoint(model.to_checkpoint(), target, chosen, force=force)


def _converts(format: str) -> dict[str, Command]:
    run, forced = partial(_convert, format=format), partial(_convert, format=format, force=True)
    old, result = partial(_convert, format=format, seed=1), lambda f: _vectors(f / "model")
    return {
        f"convert {format}": Command(lambda f: None, run, _unless("model", run), result),
        f"convert {format} --force": Command(old, forced, forced, result),
    }


def _save(folder: Path, seed: int = 0) -> None:
    tiny(seed).save_pretrained(folder / "model")


# downloads


def _published(folder: Path) -> None:
    source = folder.parent / "published"
    write_checkpoint(tiny().to_checkpoint(), source, "official")
    publish(source, folder.parent / "models.toml")


def _published_and_old(folder: Path) -> None:
    """A download, and then another model under the same name."""
    _published(folder)
    _download(folder, folder / "model")
    write_checkpoint(tiny(1).to_checkpoint(), folder.parent / "published", "official", force=True)
    shutil.rmtree(folder / "cache")


def _download(folder: Path, out: Path | None, **options: bool) -> None:
    os.environ["ELMOKIT_CACHE"] = str(folder / "cache")
    download_model("published", out, **options)


def _fetch(folder: Path) -> None:
    os.environ["ELMOKIT_CACHE"] = str(folder / "cache")
    entry = find_model("published")
    assert entry is not None
    for file in entry.files:
        fetch_address(file.urls[0])


def _in_cache(folder: Path) -> bytes:
    os.environ["ELMOKIT_CACHE"], os.environ["ELMOKIT_OFFLINE"] = str(folder / "cache"), "1"
    try:
        return _vectors("published")
    finally:
        del os.environ["ELMOKIT_OFFLINE"]


def _files_in_cache(folder: Path) -> list[tuple[str, bytes]]:
    files = sorted((folder / "cache" / "files").glob("*/[!.]*"))
    return [(path.name, path.read_bytes()) for path in files]


def _downloads() -> dict[str, Command]:
    def cached(f: Path) -> None:
        _download(f, None)

    def by_hand(f: Path) -> None:
        _published(f)
        place = f / "cache" / "models" / "published"
        place.mkdir(parents=True)
        shutil.copy(f.parent / "published" / "options.json", place)

    def named(f: Path) -> None:
        _download(f, f / "model")

    def forced(f: Path) -> None:
        _download(f, f / "model", force=True)

    def empty(f: Path) -> None:
        _published(f)
        (f / "model").mkdir()

    def again(f: Path) -> None:
        # A folder that holds a whole model is one that nobody asks for again.
        if not (f / "model" / "source.json").exists() or is_incomplete(f / "model"):
            named(f)

    def vectors(f: Path) -> bytes:
        return _vectors(f / "model")

    return {
        "download": Command(_published, cached, cached, _in_cache),
        "download, one file by hand": Command(by_hand, cached, cached, _in_cache),
        "download -o": Command(_published, named, again, vectors),
        "download -o, an empty folder": Command(empty, named, again, vectors),
        "download -o --force": Command(_published_and_old, forced, forced, vectors),
        "from_pretrained(address)": Command(
            _published, _fetch, _fetch, _files_in_cache, is_atomic=False
        ),
    }


# runs


def _pretrain(folder: Path, steps: int = 5, **options: Any) -> None:
    pretrain(folder / "corpus", folder / "run", run_config(steps), device="cpu", **options)


def _pretrain_from(folder: Path, **options: Any) -> None:
    _pretrain(folder, source=str(folder / "model"), **options)


def _pretrain_vectors(folder: Path, **options: Any) -> None:
    _pretrain(folder, vectors=str(folder / "vectors.txt"), **options)


def _corpus_and(make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda f: (make_corpus(f / "corpus"), make(f))


def _static(folder: Path) -> None:
    words = ("the", "gift", "of", "a", "river", "bank")
    rows = (f"{word} {i} 1 {i * i} -{i}\n" for i, word in enumerate(words))
    (folder / "vectors.txt").write_text("".join(rows), encoding="utf-8")


def _run(folder: Path) -> object:
    run = folder / "run"
    assert all((run / name).is_file() for name in ("curve.png", "result.json", "README.md"))
    assert read_json(run / "run.json")["has_checkpoint"]
    losses = [row["loss"] for row in read_log(run / "log.jsonl")]
    return losses, _vectors(run), (run / "notes.txt").exists()


def _board(folder: Path) -> object:
    run = folder / "run"
    return _run(folder), any(path.stat().st_size for path in (run / "tensorboard").iterdir())


def _pretrains() -> dict[str, Command]:
    """A run writes its model several times: what is there meanwhile is not compared."""

    def corpus(f: Path) -> None:
        make_corpus(f / "corpus")

    def command(
        make: Callable[[Path], object], run: Callable[..., object], result: Any = _run, **mode: bool
    ) -> Command:
        again = mode or {"resume": True}
        return Command(make, partial(run, **mode), partial(run, **again), result, is_atomic=False)

    old = _corpus_and(partial(_pretrain, steps=3))
    commands = {
        "pretrain": command(corpus, _pretrain),
        "pretrain --force": command(_with_notes(old), _pretrain, force=True),
        "pretrain --resume": command(
            _corpus_and(partial(_pretrain, steps=2)), _pretrain, resume=True
        ),
        "pretrain --from": command(_corpus_and(_save), _pretrain_from),
        "pretrain --vectors": command(_corpus_and(_static), _pretrain_vectors),
    }
    if find_spec("tensorboard"):
        board = partial(_pretrain, tensorboard=True)
        old = _corpus_and(partial(_pretrain, steps=3, tensorboard=True))
        commands["pretrain --tensorboard"] = command(corpus, board, _board)
        commands["pretrain --tensorboard --force"] = command(old, board, _board, force=True)
    return commands


def _train(
    folder: Path, *settings: str, seeds: int = 1, epochs: int = 2, model: bool = False, **more: Any
) -> None:
    data = folder / "tags.conll"
    config = task_config(epochs).override(*settings)
    source = folder / "model" if model else None
    train_task("ner", data, data, source, folder / "run", config, seeds=seeds, device="cpu", **more)


def _tags(folder: Path) -> None:
    write_tags(folder / "tags.conll")


def _other_tags(folder: Path) -> None:
    """Other words, of the same number, with other tags."""
    text = (folder / "tags.conll").read_text(encoding="utf-8")
    for old, new in {"Anna": "Eve", "Paris": "Rome", "PER": "ORG"}.items():
        text = text.replace(old, new)
    (folder / "tags.conll").write_text(text, encoding="utf-8")


def _tagged(folder: Path) -> object:
    """What the tagger knows, and thinks."""
    task = load_task(folder / "run", device="cpu")
    weights = {name: t.tolist() for name, t in task.model.state_dict().items()}
    return weights, [tags for _, tags in task.predict_texts(["Eve met Anna in Rome, Paris"])]


def _tags_and_model(folder: Path) -> None:
    _tags(folder)
    _save(folder)


def _task(folder: Path) -> object:
    run = folder / "run"
    files = sorted(path for path in run.rglob("*") if "/." not in str(path.relative_to(folder)))
    names = [str(path.relative_to(run)) for path in files]
    weights = [path.read_bytes() for path in files if path.name == "model.safetensors"]
    epochs = [len(path.read_text().splitlines()) for path in files if path.name == "log.jsonl"]
    return names, weights, epochs, read_json(run / "metrics.json")["mean"]


def _trains() -> dict[str, Command]:
    elmo = partial(_train, model=True)
    cached = ("elmo.place=input", "train.cache_mb=0")
    tuned = ("elmo.place=input", "elmo.finetune=true")
    return {
        "train": Command(
            _tags, partial(_train, seeds=2), partial(_train, seeds=2, resume=True), _task,
            is_atomic=False,
        ),
        "train --force": Command(
            _with_notes(lambda f: (_tags(f), _train(f, epochs=1))),
            partial(_train, force=True), partial(_train, force=True), _task, is_atomic=False,
        ),
        "train --force, other data": Command(
            lambda f: (_tags(f), _train(f, epochs=1), _other_tags(f)),
            partial(_train, epochs=1, force=True), partial(_train, epochs=1, force=True), _tagged,
        ),
        "train --resume": Command(
            lambda f: (_tags(f), _train(f, epochs=1)),
            partial(_train, resume=True), partial(_train, resume=True), _task, is_atomic=False,
        ),
        "train, cached layers": Command(
            _tags_and_model, lambda f: elmo(f, *cached), lambda f: elmo(f, *cached, resume=True),
            _task, is_atomic=False,
        ),
        "train, biLM too": Command(
            _tags_and_model, lambda f: elmo(f, *tuned), lambda f: elmo(f, *tuned, resume=True),
            _task, is_atomic=False,
        ),
    }  # fmt: skip


# reproduce


def _data_sets(folder: Path, *, old: str = "") -> None:
    _save(folder)
    make_data_sets(folder / "data")
    if old:
        run_experiment(folder, old)


def _report(name: str) -> Callable[[Path], object]:
    def result(folder: Path) -> object:
        out = folder / "out"
        pictures = sorted(path.name for path in out.glob("*.png"))
        text = (out / f"{name}.md").read_text().replace(str(folder), "")
        return pictures, text, len(read_json(out / f"{name}.json"))

    return result


FORCED = ("ner", "table5", "table6", "figure2")
"""One experiment of each kind: what is replaced is the same for all of a kind."""


def _reproduces(name: str) -> dict[str, Command]:
    run = partial(run_experiment, name=name)
    resumed, forced = partial(run, resume=True), partial(run, force=True)
    commands = {f"reproduce {name}": Command(_data_sets, run, resumed, _report(name), False)}
    if name in FORCED:
        old = partial(_data_sets, old=name)
        commands[f"reproduce {name} --force"] = Command(old, forced, forced, _report(name), False)
    return commands


COMMANDS: dict[str, Command] = {
    **_prepares(),
    **{name: command for file in VECTOR_FILES for name, command in _embeds(file).items()},
    "ElmoEmbedder.embed_file": Command(
        _model_and_text("official", "out.h5"), _allennlp, _allennlp,
        lambda f: (f / "out.h5").stat().st_size,
    ),
    "evaluate --scores": Command(
        _model_and_text("elmokit"), _scores, _unless("scores.jsonl", _scores),
        _contents("scores.jsonl"),
    ),
    "evaluate --scores --force": Command(
        _model_and_text("elmokit", "scores.jsonl"), partial(_scores, force=True),
        partial(_scores, force=True), _contents("scores.jsonl"),
    ),
    "save_pretrained": Command(lambda f: None, _save, _save, lambda f: _vectors(f / "model")),
    "save_pretrained again": Command(
        partial(_save, seed=1), _save, _save, lambda f: _vectors(f / "model")
    ),
    **{name: command for format in FORMATS for name, command in _converts(format).items()},
    **_downloads(),
    **_pretrains(),
    **_trains(),
    **{name: command for experiment in PLANS for name, command in _reproduces(experiment).items()},
}  # fmt: skip
