"""`elmokit train`: a task model, with ELMo or without."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError, quoted
from .options import Device, Force, Quiet, Resume, Settings, apply_file
from .report import Progress, reported, say

if TYPE_CHECKING:
    from ..tasks.config import TaskConfig


METHODS = {"extract": "extract"}
"""How `summarise` can be done, and the task that does it so."""


@reported
def train_cli(
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="ner, classify, squad, snli, srl, coref, translate, extract, or an installed "
            "task.",
        ),
    ],
    train: Annotated[str, typer.Option("--train", metavar="FILE", help="File to learn from.")],
    dev: Annotated[
        str, typer.Option("--dev", metavar="FILE", help="File that says which epoch is the best.")
    ],
    train_target: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="For translate: the target of each line of --train; else a table."
        ),
    ] = None,
    dev_target: Annotated[
        str | None, typer.Option(metavar="FILE", help="Likewise, of each line of --dev.")
    ] = None,
    *,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="RUN", help="Folder of the run.")
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="The biLM, in any published format."),
    ] = None,
    elmo: Annotated[
        str | None,
        typer.Option("--elmo", metavar="PLACE", help="none (the baseline), input, output or both."),
    ] = None,
    elmo_layers: Annotated[
        str | None,
        typer.Option(metavar="LAYERS", help="mix (learned), top, average, or a number from 0."),
    ] = None,
    static: Annotated[
        str | None,
        typer.Option("--static", metavar="FILE", help="Word vectors: GloVe, word2vec or fastText."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For text that has no tokens; default: the biLM's own."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="FILE", help="TOML or JSON on top of the task's settings."
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="NAME",
            help="For classify: linear (seconds; the first thing to try on a few thousand texts) "
            "or bcn, the paper's network (default).",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="For summarise: extract, which chooses the best sentences of the text.",
        ),
    ] = None,
    settings: Settings = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many models to train.")] = 1,
    resume: Resume = False,
    force: Force = False,
    finetune: Annotated[bool, typer.Option("--finetune-bilm", help="Train the biLM, too.")] = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Train a task model on a frozen biLM; `evaluate` and `predict` read RUN.

    The baseline is the same command with --elmo none, which needs no --model. The score is that
    of the development data, by the best epoch of each seed.

    Checkpoints are written every few minutes. Ctrl-C and SIGTERM finish the step, write one more,
    and print the command that resumes the run.
    """
    from ..tasks.runs.files import holds_run
    from ..tasks.runs.train import train_task

    changes = list(settings or [])
    task = _with_method(task, method)
    base = _resolve(task, config)
    if head is not None and not hasattr(base, "head"):
        raise ConfigError(f"--head {quoted(head)}: the task {task} has one model; leave it out")
    if (train_target or dev_target) and not hasattr(base, "train_target"):
        raise ConfigError(f"--train-target, --dev-target: the task {task} reads one file each")
    for name, value in (
        ("head", head),
        ("train_target", train_target),
        ("dev_target", dev_target),
        ("elmo.place", elmo),
        ("elmo.layers", elmo_layers),
        ("tokenizer", tokenizer),
        ("elmo.finetune", "true" if finetune else None),
    ):
        if value is not None:
            changes.append(f"{name}={value}")
    resolved = base.override(*changes)
    if resume and not holds_run(output):
        say(f"{output} holds no run to resume; starting a new one")
    try:
        summary = train_task(
            task, train, dev, model, output, resolved, seeds=seeds, static=static, resume=resume,
            force=force, device=device, on_row=None if quiet else _say_row,
            on_stage=Progress(quiet),
        )  # fmt: skip
    except KeyboardInterrupt as e:
        if not holds_run(output):
            raise KeyboardInterrupt("nothing was learned yet; run the same command again") from None
        command = _resume_command(context)
        raise KeyboardInterrupt(*e.args, f"resume with: {command}") from None
    name = summary["metric"]
    scores = ", ".join(f"{result['dev'][name]:.4f}" for result in summary["seeds"])
    deviation = f" ± {summary['deviation']:.4f} ({scores})" if len(summary["seeds"]) > 1 else ""
    print(f"{output}: dev {name} {summary['mean']:.4f}{deviation}")


def _with_method(task: str, method: str | None) -> str:
    """The task that does what is asked for by this method."""
    if method is None:
        return task
    if task != "summarise" or method not in METHODS:
        raise ConfigError(
            f"task {quoted(task)}, --method {quoted(method)}: expected the task summarise, and a "
            f"method of {', '.join(METHODS)}"
        )
    return METHODS[method]


def _resolve(task: str, path: str | None) -> "TaskConfig":
    """The task's settings, with the file's on top."""
    from ..tasks.registry import find_task

    config: TaskConfig = find_task(task).config_class()
    if path is None:
        return config
    values = config.to_dict()
    apply_file(values, path)
    return config.from_dict(values, path)


def _resume_command(context: typer.Context) -> str:
    """The command that continues a run with the options it was started with."""
    words = ["elmokit", "train", context.params["task"]]
    given = {**context.params, "resume": True, "force": False}
    for option in context.command.params:
        value = given[str(option.name)]
        if option.param_type_name == "argument" or not value or value == option.default:
            continue
        if isinstance(value, bool):
            words.append(option.opts[0])
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for each in values for word in (option.opts[0], str(each))]
    return shlex.join(words)


def _say_row(row: dict[str, Any]) -> None:
    scores = "  ".join(
        f"{name} {value:.4f}" for name, value in row["dev"].items() if isinstance(value, float)
    )
    best = "  (best)" if row["is_best"] else ""
    say(
        f"seed {row['seed']}  epoch {row['epoch']}  loss {row['loss']:.4f}  dev {scores}  "
        f"{row['seconds']:.1f} s{best}"
    )
