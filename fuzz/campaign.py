"""The campaigns, each in a process of its own: what was tried, and what went wrong."""

import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from elmokit import Elmo
from elmokit.text.tokenize import Tokenizer, load_tokenizer

from .commands import COMMANDS
from .kills import kill_points
from .mutate import copy_tree, damage, hostile_string
from .sandbox import Sandbox
from .targets import FILES, FOLDERS, MODELS, Target, tiny

CAMPAIGNS = {"kills": 0.5, "strings": 0.25, "models": 0.1, "folders": 0.1, "files": 0.05}
"""Their shares of the time. The first takes as long as all others, which run beside it."""
STRINGS_TOGETHER = 500
LONG = 600
"""Seconds from which every kill point is tried, however long it takes."""


def run_campaign(name: str, seed: int, seconds: float, end: float) -> None:
    """Run a campaign, and print what it found as one line of JSON per target."""
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="elmokit-fuzz-") as folder:
        os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        sandbox = Sandbox(Path(folder))
        if name == "strings":
            _report("strings", _strings(sandbox, seed, end))
        elif name == "kills":
            for number, (command, each) in enumerate(COMMANDS.items()):
                share = _share(end, len(COMMANDS) - number) if seconds < LONG else None
                _report(f"kill: {command}", kill_points(each, Path(folder) / str(number), share))
        else:
            targets = {"models": MODELS, "folders": FOLDERS, "files": FILES}[name]
            for number, (what, target) in enumerate(targets.items()):
                left = len(targets) - number
                _report(what, _mutants(target, what, Path(folder), seed, sandbox, end, left))


def _share(end: float, parts: int) -> float:
    """The seconds until `end` for one of so many parts that are left."""
    return (end - time.time()) / parts


def _mutants(
    target: Target, name: str, folder: Path, seed: int, sandbox: Sandbox, end: float, parts: int
) -> Iterator[str]:
    """The fate of damaged copies of a target, the first of `parts` that are left until `end`."""
    chance = random.Random(f"{seed} {name}")
    home = folder / name.replace(" ", "-").replace(".", "-")
    home.mkdir()
    suffix = Path(name).suffix if "." in name else ""
    whole, here = home / f"whole{suffix}", home / f"here{suffix}"
    target.make(whole)
    files = [whole] if whole.is_file() else sorted(p for p in whole.rglob("*") if p.is_file())
    files = [file for file in files if file.stat().st_size]
    copy_tree(whole, here)
    outcome = sandbox.run(lambda: target.use(here))
    if outcome != "ok":
        yield f"undamaged: {outcome}"
    end = time.time() + _share(end, parts)
    while time.time() < end:
        copy_tree(whole, here)
        chosen = chance.choice(files)
        place = here if chosen == whole else here / chosen.relative_to(whole)
        what = damage(place, chance, whole.is_dir())
        outcome = sandbox.run(lambda: target.use(here))
        yield outcome if outcome in ("ok", "refused") else f"{what}: {outcome}"
    shutil.rmtree(home)


def _strings(sandbox: Sandbox, seed: int, end: float) -> Iterator[str]:
    """The fate of hostile strings: tokenised, embedded, pooled or scored."""
    chance, elmo = random.Random(seed), tiny()
    tokenizers = [load_tokenizer(name) for name in ("regex", "whitespace", "kiwi")]
    tokenizers[2].tokens("배")  # it loads its model now, outside of the limits
    number = 0
    while time.time() < end:
        texts = [hostile_string(chance) for _ in range(STRINGS_TOGETHER)]
        number += 1
        outcome = sandbox.run(partial(_use_strings, elmo, tokenizers, texts, number % 2 == 0))
        yield from (
            [outcome] * STRINGS_TOGETHER if outcome == "ok" else [f"{texts!r:.80}: {outcome}"]
        )


def _use_strings(
    elmo: Elmo, tokenizers: list[Tokenizer], texts: list[str], is_scored: bool
) -> None:
    for tokenizer, some in zip(tokenizers, (texts, texts, texts[:10]), strict=True):
        for text in some:
            for token in tokenizer.tokens(text):
                assert 0 <= token.start <= token.end <= len(text)
    vectors = elmo.embed(texts)
    assert len(vectors) == len(texts)
    if is_scored:
        elmo.score(texts)
    else:
        elmo.encode([text for text, found in zip(texts, vectors, strict=True) if len(found)])


def _report(name: str, outcomes: Iterator[str]) -> None:
    counts = {"ok": 0, "refused": 0}
    failures = []
    for outcome in outcomes:
        if outcome in counts:
            counts[outcome] += 1
        else:
            failures.append(outcome)
    print(json.dumps({"name": name, **counts, "failures": failures}), flush=True)


if __name__ == "__main__":
    run_campaign(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
