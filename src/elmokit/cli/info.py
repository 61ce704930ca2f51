"""`elmokit models`, `download` and `info`: which models there are, and what one is."""

import json
import logging
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..tables import format_table
from .options import Force, Json, Model, Quiet, Verbose
from .report import in_bytes, in_short, in_time, reported, say
from .task_run import task_run_rows

if TYPE_CHECKING:
    from ..formats.catalogue import ModelEntry
    from ..formats.checkpoint import Checkpoint

FIRST_WORDS = 10


@reported
def models_cli(
    language: Annotated[
        str | None,
        typer.Option(metavar="LANGUAGE", help="Only models of a language: ja, Japanese."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the bundled and the published models."""
    from ..formats.catalogue import list_models

    entries = list_models(language)
    if as_json:
        _print_json([_published_record(entry) for entry in entries])
        return
    titles = ["name", "language", "dim", "size", "state", "tokens", "text", "licence"]
    # Cut to the width of a terminal; files and pipes get all of it.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in format_table(titles, [*map(_model_row, entries)]).split("\n"):
        print(line if len(line) <= width else f"{line[: width - 1]}…")
    refused = sum(entry.status not in ("bundled", "listed") for entry in entries)
    if refused and not quiet:
        say("elmokit info NAME says why a model is unverified, manual, dead or unloadable")


@reported
def download_cli(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from elmokit models.")],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder to write; default: the cache."),
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option("--unverified", help="Try a model even if nobody has checked its address."),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Download a published model, so that it loads by its name.

    ELMOKIT_CACHE chooses the folder of the cache; ELMOKIT_MIRROR=URL fetches URL/NAME/FILE instead.
    """
    from ..formats.catalogue import download_model

    folder = download_model(name, output, unverified=unverified, force=force)
    if not quiet:
        say(f"{name} is in {folder}")


@reported
def info_cli(
    model: Model, as_json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Show what a model is: language, text, licence, format, architecture, problems.

    For the RUN of a trained task: its data, settings, biLM and scores.
    """
    from ..formats.catalogue import find_model
    from ..tasks.runs.files import is_task_run

    if is_task_run(model):
        from ..tasks.runs.describe import describe_run

        run = describe_run(model)
        if as_json:
            _print_json(run)
        else:
            _print_table(task_run_rows(run))
        return
    entry = find_model(model)
    published = _published_record(entry) if entry else None
    if published and published["status"] != "bundled" and not published["is_cached"]:
        if as_json:
            _print_json(published)
        else:
            _print_table(_published_rows(published))
            print("", *_address_lines(published), sep="\n")
        return
    if not verbose:
        # What the library warns of is part of the table.
        logging.getLogger("elmokit").setLevel(logging.ERROR)
    record = describe(model) | ({"published": published} if published else {})
    if as_json:
        _print_json(record)
    else:
        _print_table(_rows(record))
        if command := _resume_command(record):
            print(f"\nTo resume:\n{command}")  # on a line of its own, for people to copy


def _print_json(record: object) -> None:
    print(json.dumps(record, ensure_ascii=False, indent=2))


def describe(source: str) -> dict[str, Any]:
    """What `elmokit info --json` prints: everything about the model at `source` but its weights."""
    from ..engine import native
    from ..formats.load import model_path, read_checkpoint
    from ..pretraining.records import is_run, run_status

    path = model_path(source)
    run = {"run": run_status(path)} if is_run(path) else {}
    if run and not (path / "model.safetensors").exists():
        return {"source": source, **run}
    checkpoint = read_checkpoint(path)
    config, vocab = checkpoint.config, checkpoint.vocab
    return {
        "source": source,
        **run,
        "format": checkpoint.format,
        "size_on_disk": _size(path),
        "dim": config.dim,
        "layers": config.num_layers,
        "parameters": {part: _count(checkpoint, f"{part}.") for part in ("bilm", "softmax")},
        "encoder": config.encoder.to_dict(),
        "lstm": config.lstm.to_dict(),
        "tokenizer": config.tokenizer,
        "normalization": config.normalization,
        "state": config.state,
        "has_warm_state": "warm_h" in checkpoint.tensors,
        "engine": f"native ({isa})" if (isa := native.chosen()) else "torch",
        "mixes": _mixes(checkpoint),
        "vocabulary": vocab and {"size": len(vocab), "first": list(vocab[:FIRST_WORDS])},
        "warnings": [*checkpoint.notes, *_problems(checkpoint)],
    }


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder and the folders in it."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _count(checkpoint: "Checkpoint", prefix: str) -> int:
    return sum(t.numel() for name, t in checkpoint.tensors.items() if name.startswith(prefix))


def _mixes(checkpoint: "Checkpoint") -> dict[str, dict[str, Any]]:
    import torch

    return {
        name: {
            "weights": torch.softmax(checkpoint.tensors[f"mixes.{name}.scalars"], 0).tolist(),
            "gamma": checkpoint.tensors[f"mixes.{name}.gamma"].item(),
            **mix.to_dict(),
        }
        for name, mix in checkpoint.config.mixes.items()
    }


def _problems(checkpoint: "Checkpoint") -> list[str]:
    """Weights that cannot be meant."""
    problems = []
    for name, tensor in checkpoint.tensors.items():
        if not tensor.isfinite().all():
            number = int((~tensor.isfinite()).sum())
            problems.append(f"{name}: {number:,} of {tensor.numel():,} weights are NaN or infinite")
        # Biases, mixes and warm states may be zero; a matrix is not after any training.
        elif tensor.ndim > 1 and name.startswith(("bilm.", "softmax.")) and not tensor.any():
            problems.append(f"{name}: all weights are zero")
    return problems


def _rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The record in words, for a table of two columns."""
    run = _run_rows(record["run"]) if "run" in record else []
    if "format" not in record:  # a run that has no model yet
        return [("run", record["source"]), *run]
    parameters = record["parameters"]
    softmax = f", {in_short(parameters['softmax'])} softmax" if parameters["softmax"] else ""
    warm = "a warm state is stored" if record["has_warm_state"] else "no warm state is stored"
    return [
        ("model", record["source"]),
        ("format", record["format"]),
        *(_origin_rows(record["published"]) if "published" in record else []),
        ("size on disk", in_bytes(record["size_on_disk"])),
        ("vectors", f"{record['dim']} values, layers 0..{record['layers'] - 1} (0 has no context)"),
        ("parameters", f"{in_short(parameters['bilm'])} biLM{softmax}"),
        *_architecture_rows(record["encoder"], record["lstm"]),
        ("tokenizer", record["tokenizer"] or "not known; texts are read with regex"),
        ("normalisation", record["normalization"] or "none"),
        ("state", f"{record['state']}; {warm}"),
        ("engine", f"{record['engine']}, on the CPU of this machine"),
        ("mixes", "\n".join(map(_mix, record["mixes"].items())) or "none saved: mix = average"),
        ("vocabulary", _vocabulary(record["vocabulary"])),
        *run,
        *[("warning", warning) for warning in record["warnings"]],
    ]


def _run_rows(run: dict[str, Any]) -> list[tuple[str, str]]:
    """How a pre-training run is doing."""
    done = "finished" if run["is_finished"] else f"{run['share']:.0%} done"
    left = ""
    if run["eta_seconds"] and not run["is_finished"]:
        left = f", about {in_time(run['eta_seconds'])} left at this speed"
    rows = [
        ("training", f"{done}: step {run['step']:,}, {in_short(run['tokens'])} tokens "
         f"({run['epochs']:.2f} epochs) in {in_time(run['seconds'])}{left}"),
        ("corpus", run["corpus"]),
    ]  # fmt: skip
    if run["loss"] is not None:
        kind = "sampled" if run["is_sampled"] else "full softmax"
        rows.append(
            ("training loss", f"{run['loss']:.3f} ({kind}), {run['tokens_per_s']:,.0f} tokens/s")
        )
    if run["best"]:
        best = run["best"]
        rows.append(
            ("perplexity", f"{best['forward']:.2f} forward, {best['backward']:.2f} backward, "
             f"{best['mean']:.2f} mean, held out, at step {best['step']:,}")
        )  # fmt: skip
    if run["vectors"]:
        rows.append(("start", f"static vectors of {run['vectors']['source']}"))
    if run["checkpoint_problem"]:
        rows.append(("warning", f"cannot be resumed: {run['checkpoint_problem']}"))
    elif not run["is_finished"]:
        rows.append(("resumes", _resume_point(run)))
    return rows


def _resume_point(run: dict[str, Any]) -> str:
    """Where `--resume` would really continue."""
    checkpoint = run["checkpoint"]
    where = "no checkpoint yet: it would start at step 0"
    if checkpoint is not None:
        where = f"from step {checkpoint['step']:,}, {in_short(checkpoint['tokens'])} tokens"
        if (later := run["step"] - checkpoint["step"]) > 0:
            where += f"; the {later:,} steps after it would be repeated"
    return where


def _resume_command(record: dict[str, Any]) -> str | None:
    """The command that continues an unfinished run."""
    run = record.get("run")
    if run is None or run["is_finished"] or run["checkpoint_problem"]:
        return None
    return shlex.join(["elmokit", "pretrain", run["corpus"], "-o", record["source"], "--resume"])


def _architecture_rows(encoder: dict[str, Any], lstm: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    cnn = encoder["char_cnn"]
    if cnn is not None:
        scheme = {"bytes": "UTF-8 bytes", "unicode": "Unicode characters"}[cnn["characters"]]
        filters = " ".join(f"{width}x{number}" for width, number in cnn["filters"])
        rows += [
            ("characters", f"{scheme}, {cnn['max_characters']} a word at most, {cnn['dim']} values "
             f"each, {cnn['num_characters']} ids"),
            ("filters", f"{filters} (width x number), {cnn['activation']}"),
            ("highway", f"{cnn['num_highway']} layer{'s' * (cnn['num_highway'] != 1)}"),
        ]  # fmt: skip
    if encoder["num_words"]:
        rows.append(("words", f"{encoder['num_words']:,} vectors of {encoder['word_dim']} values"))
    projected = lstm["projection_dim"] < lstm["dim"]
    units = f"{lstm['dim']} units" + (f" projected to {lstm['projection_dim']}" * projected)
    skip = "with" if lstm["skip_connections"] else "without"
    clips = f"cell {_clip(lstm['cell_clip'])}, projection {_clip(lstm['proj_clip'])}"
    return [
        *rows,
        ("LSTM", f"2 x {lstm['num_layers']} layers of {units}, {skip} skip connections"),
        ("clips", clips),
    ]


def _clip(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _mix(item: tuple[str, dict[str, Any]]) -> str:
    name, mix = item
    weights = " ".join(f"{weight:.3f}" for weight in mix["weights"])
    norm = ", layer norm" if mix["layer_norm"] else ""
    return f"{name}: {weights}, gamma {mix['gamma']:.3f}{norm}"


def _vocabulary(vocabulary: dict[str, Any] | None) -> str:
    if vocabulary is None:
        return "none: the model cannot score text"
    return f"{vocabulary['size']:,} words: {' '.join(vocabulary['first'])} …"


def _print_table(rows: list[tuple[str, str]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        for name, value in rows:
            lines = [part for line in value.split("\n") for part in textwrap.wrap(line, 62)]
            for i, line in enumerate(lines):
                print(f"{name if i == 0 else '':<15}  {line}")
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        color = "yellow" if name == "warning" else "default"
        table.add_row(Text(name, style="bold"), Text(value, style=color))
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _published_record(entry: "ModelEntry") -> dict[str, Any]:
    """A published model as plain data."""
    from ..formats.catalogue.entries import is_complete, model_folder

    record = asdict(entry)
    record["files"] = [{k: v for k, v in file.items() if v is not None} for file in record["files"]]
    return {**record, "is_cached": is_complete(model_folder(entry))}


def _published_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """A model that is not downloaded, for the table of `elmokit info`."""
    state = "not downloaded"
    if record["status"] != "listed":
        state = f"{record['status']}: {record['reason']}"
    return [
        ("model", record["name"]),
        ("state", state),
        *_origin_rows(record),
        ("format", record["format"]),
        ("vectors", f"{record['dim']} values per layer" if record["dim"] else "size not known"),
        ("download", in_bytes(record["size"]) if record["size"] else "size not known"),
    ]


def _origin_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """What the files of a published model do not say, for the same table."""
    return [
        ("language", f"{record['language_name']} ({record['language']})"),
        ("publisher", record["publisher"]),
        ("text", record["text"]),
        ("reads", record["tokens"]),
        ("licence", record["licence"]),
        *([("perplexity", record["perplexity"])] if record["perplexity"] else []),
    ]


def _address_lines(record: dict[str, Any]) -> Iterator[str]:
    """Names, addresses and hashes of the files, each whole on its line, for people to copy."""
    for file in record["files"]:
        yield file["name"]
        yield from (f"  {url}" for url in file["urls"])
        yield from (f"  {kind} {file[kind]}" for kind in ("sha256", "sha1", "md5") if kind in file)
    if record["page"]:
        yield f"also at {record['page']}"


def _model_row(entry: "ModelEntry") -> list[str]:
    from ..formats.catalogue.entries import builtin_folder, is_complete, model_folder

    size = entry.size
    if (folder := builtin_folder(entry.name)) is not None:
        size = sum(file.stat().st_size for file in folder.iterdir())
    state: str = "" if entry.status == "listed" else entry.status
    if is_complete(model_folder(entry)):
        state = "cached"
    return [
        entry.name, entry.language_name, str(entry.dim or "?"), in_bytes(size) if size else "?",
        state, entry.tokens, entry.text, entry.licence,
    ]  # fmt: skip
