"""`elmokit reproduce`: the experiments of the paper."""

from typing import Annotated, Any

import typer

from ..errors import ConfigError
from .options import Device, Force, Quiet
from .report import Progress, reported, say


@reported
def reproduce_cli(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="table1, table2, table3, table5, table6, ner, sst5, figure1, figure2; on other "
            "data: wnut17, klue, nsmc, 3i4k, korquad.",
        ),
    ],
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Folder of data sets.")],
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="The biLM, in any published format.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="Folder for results and runs.")
    ],
    seeds: Annotated[int | None, typer.Option(min=1, help="Models of each arm; default 3.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="At most; default: the task's.")] = None,
    fraction: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share of the training data; default 1.")
    ] = None,
    fractions: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="figure1: shares; default 0.01,0.03,0.1,0.3,1."),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Of tables 1 to 3 and figures: which tasks.")
    ] = None,
    language: Annotated[str | None, typer.Option(metavar="NAME", help="table6: en or ko.")] = None,
    max_sentences: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="table5, table6: learn from N sentences only."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="For all tasks, or for one: ner.lstm_dim=100."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Use the runs in OUT, and continue those that are unfinished."
        ),
    ] = False,
    force: Force = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper; OUT/NAME.md has the result beside the paper's.

    NAME.json has everything, and figure1 and figure2 draw a picture. What is trained is an ordinary
    task run in OUT/runs, which `evaluate` and `predict` read.
    """
    from ..reproduce import Plan, reproduce

    given: dict[str, Any] = {
        "seeds": seeds, "epochs": epochs, "fraction": fraction, "language": language,
        "max_sentences": max_sentences, "settings": tuple(settings) if settings else None,
        "fractions": None if fractions is None else _numbers(fractions),
        "tasks": None if tasks is None else tuple(tasks.split(",")),
    }  # fmt: skip
    plan = Plan(**{option: value for option, value in given.items() if value is not None})
    progress = Progress(quiet)
    with progress.alive(f"working on {name}"):
        path = reproduce(
            name, data, model, output, plan, resume=resume, force=force, device=device,
            on_run=None if quiet else _say_run, on_row=None if quiet else _say_row,
            on_stage=progress,
        )  # fmt: skip
    print(path.read_text(encoding="utf-8"), end="")
    if not quiet:
        say(f"written to {path} and {path.with_suffix('.json')}")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError as e:
        raise ConfigError(f"--fractions {text}: expected numbers such as 0.1,0.3,1") from e


def _say_run(name: str, number: int, total: int) -> None:
    say(f"run {number} of {total}: {name}")


def _say_row(row: dict[str, Any]) -> None:
    scores = (f"{name} {value:.4f}" for name, value in row["dev"].items() if type(value) is float)
    say(f"  seed {row['seed']}  epoch {row['epoch']}  {'  '.join(scores)}  {row['seconds']:.1f} s")
