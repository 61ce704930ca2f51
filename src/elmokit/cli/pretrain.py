"""`elmokit pretrain`: a biLM from a prepared corpus."""

import math
import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError
from .options import Device, Force, Quiet, Resume, Settings, apply_file
from .report import Progress, in_time, reported, say

if TYPE_CHECKING:
    from ..pretraining.config import PretrainConfig


@reported
def pretrain_cli(
    corpus: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder that `elmokit prepare` made.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="RUN", help="Folder of the run.")
    ],
    preset: Annotated[
        str | None, typer.Option(help="tiny, small (the default), medium or original.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="TOML or JSON on top of the preset."),
    ] = None,
    settings: Settings = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="MODEL", help="Continue from a model in any published format."
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Start from static word vectors: a GloVe, word2vec or fastText file, or kiwi for "
            "the Korean vectors inside Kiwi. --resume does not need them.",
        ),
    ] = None,
    resume: Resume = False,
    force: Force = False,
    max_minutes: Annotated[
        float | None,
        typer.Option(help="Budget in minutes, final evaluation included; the schedule fits it."),
    ] = None,
    max_tokens: Annotated[
        float | None, typer.Option(help="Budget in tokens, such as 20e6.")
    ] = None,
    device: Device = "auto",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write events for TensorBoard.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train a biLM on a prepared corpus; RUN is then a model like any other.

    Checkpoints are written every few minutes. Ctrl-C and SIGTERM finish the step, write one more,
    and print the command that resumes the run.

    Several processes: torchrun --nproc-per-node 2 -m elmokit pretrain DIR -o RUN
    """
    from ..files.folders import output_path
    from ..files.read import read_json
    from ..pretraining.records import is_run, read_run
    from ..pretraining.run import pretrain

    run = output_path(output)
    changes = list(settings or [])
    if max_minutes is not None:
        changes.append(f"train.max_minutes={max_minutes}")
    if max_tokens is not None:
        changes.append(f"train.max_tokens={max_tokens:.0f}")
    saved = read_run(run) if resume and is_run(run) else None
    if resume and saved is None:
        say(f"{run} holds no run to resume; starting a new one")
    resolved = _resolve(run, saved, preset, config).override(*changes)
    is_first = os.environ.get("RANK", "0") == "0"
    is_sampled = resolved.softmax.loss == "sampled"
    say_row = None if quiet or not is_first else partial(_say_row, is_sampled)
    try:
        pretrain(
            corpus, run, resolved, source=source, vectors=vectors, resume=resume, force=force,
            device=device, tensorboard=tensorboard, on_row=say_row,
            on_stage=Progress(quiet) if is_first else None,
        )  # fmt: skip
    except KeyboardInterrupt as e:
        if not is_run(run):
            raise KeyboardInterrupt("nothing was learned yet; run the same command again") from None
        command = _resume_command(corpus, output, device, tensorboard)
        raise KeyboardInterrupt(*e.args, f"resume with: {command}") from None
    if is_first:
        result = read_json(run / "result.json")["valid"]
        print(
            f"{run}: held-out perplexity {result['forward']:.2f} forward, "
            f"{result['backward']:.2f} backward, {result['mean']:.2f} mean"
        )


def _resolve(
    run: Path, saved: dict[str, Any] | None, preset: str | None, path: str | None
) -> "PretrainConfig":
    """The settings of the run that resumes, or those of the preset, with the file's on top."""
    from ..pretraining.config import PRESETS, PretrainConfig

    if preset is not None and preset not in PRESETS:
        raise ConfigError(f"--preset {preset}: expected one of {', '.join(PRESETS)}")
    values = saved["config"] if saved else PRESETS[preset or "small"].to_dict()
    if saved and preset is not None and preset != values["preset"]:
        raise ConfigError(
            f"--preset {preset}: {run} was started with {values['preset'] or 'other settings'}; "
            "resume it without --preset, or start in a new folder"
        )
    if path is not None:
        apply_file(values, path)
    return PretrainConfig.from_dict(values, path or preset or "config")


def _resume_command(corpus: str, run: str, device: str, tensorboard: bool) -> str:
    """The command that continues a run as it was started; its settings are in run.json."""
    processes = os.environ.get("WORLD_SIZE", "1")
    start = f"torchrun --nproc-per-node {processes} -m elmokit" if processes != "1" else "elmokit"
    options = ["--device", device] * (device != "auto") + ["--tensorboard"] * tensorboard
    return f"{start} {shlex.join(['pretrain', corpus, '-o', run, '--resume', *options])}"


def _say_row(is_sampled: bool, row: dict[str, Any]) -> None:
    if not row["step"]:
        say(
            f"step 0  held-out perplexity {row['valid_forward']:,.1f} forward, "
            f"{row['valid_backward']:,.1f} backward, of the model as given, with the corpus's words"
        )
        return
    kind = "sampled " if is_sampled else ""
    line = (
        f"{row['share']:4.0%}  step {row['step']:,}  {row['tokens'] / 1e6:.2f}M tokens  "
        f"{kind}perplexity {math.exp(min(row['loss'], 50)):,.1f}  "
        f"{row['tokens_per_s']:,.0f} tokens/s  "
        f"left {in_time(row['eta_seconds'])}"
    )
    if "valid_mean" in row:
        line += (
            f"  held-out perplexity {row['valid_forward']:.1f} forward, "
            f"{row['valid_backward']:.1f} backward"
        )
    say(line)
    sys.stderr.flush()
