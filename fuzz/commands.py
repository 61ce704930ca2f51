"""Every command and method that writes, in its smallest form."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import elmokit.embed_file as embedding
from elmokit import Corpus, Elmo, PrepareConfig, prepare, train_task
from elmokit.cli.evaluate import evaluate_cli
from elmokit.compat.allennlp import ElmoEmbedder
from elmokit.io.files import read_json
from elmokit.io.save import write_checkpoint
from elmokit.train.logs import read_log
from elmokit.train.run import pretrain

from .targets import (
    make_corpus,
    make_data_sets,
    many_langs,
    run_config,
    run_experiment,
    task_config,
    tiny,
    write_tags,
    write_text,
)

VECTOR_FILES = ("out.npz", "out.h5", "out.jsonl", "out.parquet")
FORMATS = ("native", "official", "tf", "manylangs", "pair")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that writes.

    Attributes:
        prepare: Makes what the command needs in an empty folder.
        run: The command.
        again: The command that a user gives after the kill.
        result: What the command is for, as something that can be compared.
    """

    prepare: Callable[[Path], object]
    run: Callable[[Path], object]
    again: Callable[[Path], object]
    result: Callable[[Path], object]


def _unless(name: str, command: Callable[[Path], object]) -> Callable[[Path], object]:
    """A command that a user gives again only if there is no result."""
    return lambda folder: None if (folder / name).exists() else command(folder)


def _contents(name: str) -> Callable[[Path], bytes]:
    return lambda folder: (folder / name).read_bytes()


def _with_notes(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """A run, and a file of somebody else's in its folder."""
    return lambda folder: (make(folder), (folder / "run" / "notes.txt").write_text("mine"))


def _vectors(folder: Path) -> bytes:
    return Elmo.from_pretrained(folder, device="cpu").embed("the gift").tobytes()


# prepare


def _prepare(folder: Path, *, stdin: bool = False, force: bool = False) -> None:
    config = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
    text = folder / "text.txt"
    if stdin:
        os.dup2(os.open(text, os.O_RDONLY), 0)
    prepare(["-" if stdin else text], folder / "corpus", config, workers=1, force=force)


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
        "prepare --force": Command(_old_corpus, forced, forced, fingerprint),
    }


# embed


def _embed(folder: Path, name: str, seed: int = 0, **options: bool) -> None:
    embedding.WINDOW_LINES = 25  # so that there are several blocks
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


def _train(
    folder: Path, *settings: str, seeds: int = 1, epochs: int = 2, model: bool = False, **more: Any
) -> None:
    data = folder / "tags.conll"
    config = task_config(epochs).override(*settings)
    source = folder / "model" if model else None
    train_task("ner", data, data, source, folder / "run", config, seeds=seeds, device="cpu", **more)


def _tags(folder: Path) -> None:
    write_tags(folder / "tags.conll")


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
            _tags, partial(_train, seeds=2), partial(_train, seeds=2, resume=True), _task
        ),
        "train --force": Command(
            _with_notes(lambda f: (_tags(f), _train(f, epochs=1))),
            partial(_train, force=True), partial(_train, force=True), _task,
        ),
        "train --resume": Command(
            lambda f: (_tags(f), _train(f, epochs=1)),
            partial(_train, resume=True), partial(_train, resume=True), _task,
        ),
        "train, cached layers": Command(
            _tags_and_model, lambda f: elmo(f, *cached), lambda f: elmo(f, *cached, resume=True),
            _task,
        ),
        "train, biLM too": Command(
            _tags_and_model, lambda f: elmo(f, *tuned), lambda f: elmo(f, *tuned, resume=True),
            _task,
        ),
    }  # fmt: skip


# reproduce


def _data_sets(folder: Path, *, old: str = "") -> None:
    make_data_sets(folder)
    if old:
        run_experiment(folder, old)


def _report(name: str) -> Callable[[Path], object]:
    def result(folder: Path) -> object:
        out = folder / "out"
        pictures = sorted(path.name for path in out.glob("*.png"))
        text = (out / f"{name}.md").read_text().replace(str(folder), "")
        return pictures, text, len(read_json(out / f"{name}.json"))

    return result


def _reproduces(name: str) -> dict[str, Command]:
    run, resumed = (
        partial(run_experiment, name=name),
        partial(run_experiment, name=name, resume=True),
    )
    forced = partial(run_experiment, name=name, force=True)
    old = partial(_data_sets, old=name)
    return {
        f"reproduce {name}": Command(_data_sets, run, resumed, _report(name)),
        f"reproduce {name} --force": Command(old, forced, forced, _report(name)),
    }


COMMANDS: dict[str, Command] = {
    **_prepares(),
    **{name: command for file in VECTOR_FILES for name, command in _embeds(file).items()},
    "ElmoEmbedder.embed_file": Command(
        _model_and_text("official", "out.h5"), _allennlp, _allennlp,
        lambda f: (f / "out.h5").stat().st_size,
    ),
    "evaluate --scores": Command(
        _model_and_text("native"), _scores, _unless("scores.jsonl", _scores),
        _contents("scores.jsonl"),
    ),
    "evaluate --scores --force": Command(
        _model_and_text("native", "scores.jsonl"), partial(_scores, force=True),
        partial(_scores, force=True), _contents("scores.jsonl"),
    ),
    "save_pretrained": Command(lambda f: None, _save, _save, lambda f: _vectors(f / "model")),
    "save_pretrained again": Command(
        partial(_save, seed=1), _save, _save, lambda f: _vectors(f / "model")
    ),
    **{name: command for format in FORMATS for name, command in _converts(format).items()},
    "pretrain": Command(
        lambda f: make_corpus(f / "corpus"), _pretrain, partial(_pretrain, resume=True), _run
    ),
    "pretrain --force": Command(
        _with_notes(_corpus_and(partial(_pretrain, steps=3))), partial(_pretrain, force=True),
        partial(_pretrain, force=True), _run,
    ),
    "pretrain --resume": Command(
        _corpus_and(partial(_pretrain, steps=2)), partial(_pretrain, resume=True),
        partial(_pretrain, resume=True), _run,
    ),
    "pretrain --from": Command(
        _corpus_and(_save), _pretrain_from, partial(_pretrain_from, resume=True), _run
    ),
    "pretrain --vectors": Command(
        _corpus_and(_static), _pretrain_vectors, partial(_pretrain_vectors, resume=True), _run
    ),
    **_trains(),
    **_reproduces("table6"),
    **_reproduces("figure2"),
}  # fmt: skip
