"""Kill points: a process dies at every rename, removal and new folder of every writing command.

Each command runs in a forked process that ends, without any clean-up, at its n-th such call. Then
the command is given again, as a user would, and must come to the result of an unbroken run.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from elmokit import Corpus, Elmo, PrepareConfig, prepare, train_task
from elmokit.embed_file import embed_file
from elmokit.io.save import write_checkpoint
from elmokit.train.logs import read_log
from elmokit.train.run import pretrain

from .targets import _tags, _task_config, _text, make_corpus, run_config, tiny

CALLS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "link", "symlink")
KILLED = 86


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


def kill_points(command: Command, folder: Path, most: int) -> Iterator[str]:
    """What happens at each kill point: `ok`, or what is wrong."""
    start = folder / "start"
    start.mkdir(parents=True)
    command.prepare(start)
    whole = folder / "whole"
    shutil.copytree(start, whole)
    total = _in_process(lambda: command.run(whole), None)
    if total < 0:
        yield "the unbroken command failed"
        return
    expected = command.result(whole)
    points = range(total) if total <= most else [round(i * total / most) for i in range(most)]
    for point in points:
        here = folder / "here"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(start, here)
        _in_process(partial(command.run, here), point)
        if _in_process(partial(command.again, here), None) < 0:
            yield f"killed at call {point} of {total}: the command does not work any more"
        elif command.result(here) != expected:
            yield f"killed at call {point} of {total}: the result is another"
        else:
            yield "ok"


def _in_process(call: Callable[[], object], point: int | None) -> int:
    """Run in a process of its own, killed at its call number `point`; its calls, -1 if it fails."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            count = _count_calls(point)
            torch.set_num_threads(1)
            call()
            os.write(writer, str(count[0]).encode())
            status = 0
        except BaseException as e:
            os.write(2, f"    {type(e).__name__}: {e!s:.300}\n".encode() if point is None else b"")
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return int(said) if said else -1


def _count_calls(point: int | None) -> list[int]:
    """Count the calls of this process, and end it at one of them."""
    count = [0]
    for name in CALLS:
        original = getattr(os, name)

        def counted(
            *args: object, original: Callable[..., object] = original, **more: object
        ) -> object:
            if count[0] == point:
                os._exit(KILLED)
            count[0] += 1
            return original(*args, **more)

        setattr(os, name, counted)
    return count


def _fingerprint(folder: Path) -> str:
    return Corpus.open(folder / "corpus").info.fingerprint


def _prepare_corpus(folder: Path, *, force: bool = False) -> None:
    config = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
    prepare([folder / "text.txt"], folder / "corpus", config, workers=1, force=force)


def _old_corpus(folder: Path) -> None:
    _text(folder / "text.txt", 30)
    _prepare_corpus(folder)
    _text(folder / "text.txt")


def _losses(folder: Path) -> list[float]:
    assert Elmo.from_pretrained(folder / "run", device="cpu").embed("the gift").any()
    return [row["loss"] for row in read_log(folder / "run" / "log.jsonl")]


def _train(folder: Path, *, resume: bool = False, force: bool = False) -> None:
    data = folder / "tags.conll"
    config = _task_config(2)
    train_task("ner", data, data, None, folder / "run", config, device="cpu", resume=resume,
               force=force)  # fmt: skip


def _pretrain(folder: Path, *, resume: bool = False, force: bool = False) -> None:
    pretrain(folder / "corpus", folder / "run", run_config(5), device="cpu", resume=resume,
             force=force)  # fmt: skip


def _scores(folder: Path) -> str:
    return (folder / "run" / "seed-1" / "model.safetensors").read_bytes().hex()[-400:]


def _embed(folder: Path, resume: bool) -> None:
    elmo = tiny()
    embed_file(elmo, folder / "text.txt", folder / "out.npz", resume=resume)


def _vectors(folder: Path) -> bytes:
    elmo = Elmo.from_pretrained(folder / "model", device="cpu")
    return elmo.embed("the gift").tobytes()


COMMANDS = {
    "prepare": Command(
        lambda f: _text(f / "text.txt"), _prepare_corpus,
        lambda f: None if (f / "corpus").exists() else _prepare_corpus(f),
        _fingerprint,
    ),
    "prepare --force": Command(
        _old_corpus, lambda f: _prepare_corpus(f, force=True),
        lambda f: _prepare_corpus(f, force=True), _fingerprint,
    ),
    "embed": Command(
        lambda f: _text(f / "text.txt"), lambda f: _embed(f, False),
        lambda f: None if (f / "out.npz").exists() else _embed(f, True),
        lambda f: (f / "out.npz").stat().st_size,
    ),
    "save_pretrained": Command(
        lambda f: None, lambda f: tiny().save_pretrained(f / "model"),
        lambda f: tiny().save_pretrained(f / "model"), _vectors,
    ),
    "save_pretrained again": Command(
        lambda f: tiny(1).save_pretrained(f / "model"),
        lambda f: tiny().save_pretrained(f / "model"),
        lambda f: tiny().save_pretrained(f / "model"), _vectors,
    ),
    "convert --force": Command(
        lambda f: write_checkpoint(tiny(1).to_checkpoint(), f / "model", "official"),
        lambda f: write_checkpoint(tiny().to_checkpoint(), f / "model", "official", force=True),
        lambda f: write_checkpoint(tiny().to_checkpoint(), f / "model", "official", force=True),
        _vectors,
    ),
    "pretrain": Command(
        lambda f: make_corpus(f / "corpus"), _pretrain,
        lambda f: _pretrain(f, resume=True), _losses,
    ),
    "pretrain --force": Command(
        lambda f: (make_corpus(f / "corpus"), pretrain(f / "corpus", f / "run", run_config(3))),
        lambda f: _pretrain(f, force=True), lambda f: _pretrain(f, force=True), _losses,
    ),
    "train": Command(
        lambda f: _tags(f / "tags.conll"), _train, lambda f: _train(f, resume=True), _scores,
    ),
    "train --force": Command(
        lambda f: (_tags(f / "tags.conll"), _train(f)), lambda f: _train(f, force=True),
        lambda f: _train(f, force=True), _scores,
    ),
}  # fmt: skip
