"""The campaigns, each in a process of its own: what was tried, and what went wrong."""

import json
import logging
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from elmokit.text.tokenize import load_tokenizer

from .kills import COMMANDS, kill_points
from .mutate import copy_tree, damage, hostile_string
from .sandbox import Sandbox
from .targets import FILES, FOLDERS, MODELS, Target, tiny

CAMPAIGNS = ("models", "folders", "files", "strings", "kills")
STRINGS_TOGETHER = 200
LONG, FEW_KILLS = 600, 6
"""Seconds from which every kill point is tried; else so many of each command."""


def run_campaign(name: str, seed: int, seconds: float) -> None:
    """Run a campaign, and print what it found as one line of JSON per target."""
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="elmokit-fuzz-") as folder:
        os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        if name == "strings":
            _report("strings", _strings(Path(folder), seed, seconds))
        elif name == "kills":
            most = FEW_KILLS if seconds < LONG else sys.maxsize
            for number, (command, each) in enumerate(COMMANDS.items()):
                _report(f"kill: {command}", kill_points(each, Path(folder) / str(number), most))
        else:
            targets = {"models": MODELS, "folders": FOLDERS, "files": FILES}[name]
            sandbox = Sandbox(Path(folder))
            for what, target in targets.items():
                share = seconds / len(targets)
                _report(what, _mutants(target, what, Path(folder), seed, share, sandbox))


def _mutants(
    target: Target, name: str, folder: Path, seed: int, seconds: float, sandbox: Sandbox
) -> Iterator[str]:
    """The fate of damaged copies of a target."""
    chance = random.Random(f"{seed} {name}")
    home = folder / name.replace(" ", "-").replace(".", "-")
    home.mkdir()
    suffix = Path(name).suffix if "." in name else ""
    whole, here = home / f"whole{suffix}", home / f"here{suffix}"
    target.make(whole)
    files = [whole] if whole.is_file() else sorted(p for p in whole.rglob("*") if p.is_file())
    files = [file for file in files if file.stat().st_size]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        copy_tree(whole, here)
        chosen = chance.choice(files)
        place = here if chosen == whole else here / chosen.relative_to(whole)
        what = damage(place, chance, whole.is_dir())
        outcome = sandbox.run(lambda: target.use(here))
        yield outcome if outcome in ("ok", "refused") else f"{what}: {outcome}"


def _strings(folder: Path, seed: int, seconds: float) -> Iterator[str]:
    """The fate of hostile strings: tokenised, embedded, scored."""
    chance, sandbox = random.Random(seed), Sandbox(folder)
    elmo = tiny()
    tokenizers = [load_tokenizer(name) for name in ("regex", "whitespace", "kiwi")]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        texts = [hostile_string(chance) for _ in range(STRINGS_TOGETHER)]

        def use(texts: list[str] = texts) -> None:
            for number, tokenizer in enumerate(tokenizers):
                for text in texts if number < 2 else texts[:5]:
                    for token in tokenizer.tokens(text):
                        assert 0 <= token.start <= token.end <= len(text)
            assert len(elmo.embed(texts)) == len(texts)
            elmo.encode(texts)
            elmo.score(texts)

        outcome = sandbox.run(use)
        yield from (
            [outcome] * STRINGS_TOGETHER if outcome == "ok" else [f"{texts!r:.80}: {outcome}"]
        )


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
    run_campaign(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
