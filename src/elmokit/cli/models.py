"""`elmokit models` lists the published models, `elmokit download` fetches one."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Force, Json, Quiet
from .report import aligned, in_bytes, reported, say

if TYPE_CHECKING:
    from ..formats.catalogue import ModelEntry

Language = Annotated[
    str | None, typer.Option(metavar="LANGUAGE", help="Only models of a language: ja, Japanese.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from elmokit models.")]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="DIR", help="Folder to write; default: the cache."),
]
Unverified = Annotated[
    bool,
    typer.Option("--unverified", help="Try a model even if nobody has checked its address."),
]


@reported
def models_cli(language: Language = None, as_json: Json = False, quiet: Quiet = False) -> None:
    """List the bundled and the published models."""
    from ..formats.catalogue import list_models

    entries = list_models(language)
    if as_json:
        facts = [catalogue_facts(entry) for entry in entries]
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    titles = ["name", "language", "dim", "size", "state", "tokens", "text", "licence"]
    rows = [titles, *map(_row, entries)]
    for line in _fitted(list(aligned(rows))):
        print(line)
    refused = sum(entry.status not in ("bundled", "listed") for entry in entries)
    if refused and not quiet:
        say("elmokit info NAME says why a model is unverified, manual, dead or unloadable")


@reported
def download_cli(
    name: Name,
    output: Output = None,
    unverified: Unverified = False,
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


def catalogue_facts(entry: "ModelEntry") -> dict[str, Any]:
    """A published model as plain facts."""
    from ..formats.catalogue.entries import is_complete, model_folder

    facts = asdict(entry)
    facts["files"] = [{k: v for k, v in file.items() if v is not None} for file in facts["files"]]
    return {**facts, "is_cached": is_complete(model_folder(entry))}


def catalogue_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """A model that is not downloaded, for the table of `elmokit info`."""
    state = "not downloaded"
    if facts["status"] != "listed":
        state = f"{facts['status']}: {facts['reason']}"
    return [
        ("model", facts["name"]),
        ("state", state),
        *origin_rows(facts),
        ("format", facts["format"]),
        ("vectors", f"{facts['dim']} values per layer" if facts["dim"] else "size not known"),
        ("download", in_bytes(facts["size"]) if facts["size"] else "size not known"),
    ]


def origin_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """What the files of a published model do not say, for the same table."""
    return [
        ("language", f"{facts['language_name']} ({facts['language']})"),
        ("publisher", facts["publisher"]),
        ("text", facts["text"]),
        ("reads", facts["tokens"]),
        ("licence", facts["licence"]),
    ]


def address_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Names, addresses and hashes of the files, each whole on its line, for people to copy."""
    for file in facts["files"]:
        yield file["name"]
        yield from (f"  {url}" for url in file["urls"])
        yield from (f"  {kind} {file[kind]}" for kind in ("sha256", "sha1", "md5") if kind in file)
    if facts["page"]:
        yield f"also at {facts['page']}"


def _row(entry: "ModelEntry") -> list[str]:
    from ..builtin import builtin_folder
    from ..formats.catalogue.entries import is_complete, model_folder

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


def _fitted(lines: Sequence[str]) -> Iterator[str]:
    """The lines, cut to the width of a terminal; files and pipes get all of them."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in lines:
        yield line if len(line) <= width else f"{line[: width - 1]}…"
