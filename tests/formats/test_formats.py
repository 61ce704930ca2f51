"""A format is one object: all that reads, writes or names formats follows the list of them."""

import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from strategies import make_tiny
from typer.testing import CliRunner

from elmokit import Elmo
from elmokit.cli import app
from elmokit.config import ElmoConfig
from elmokit.errors import ConfigError, FileError
from elmokit.formats import load
from elmokit.formats.catalogue import list_models
from elmokit.formats.checkpoint import Checkpoint, Format
from elmokit.formats.load import FORMATS, read_checkpoint
from elmokit.formats.save import write_checkpoint

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"


def read_toy(path: Path) -> Checkpoint:
    state = torch.load(path / "toy.pt" if path.is_dir() else path, weights_only=True)
    config = ElmoConfig.from_dict(json.loads(state["config"]), str(path))
    return Checkpoint(config=config, tensors=state["tensors"], format=TOY.label)


def write_toy(checkpoint: Checkpoint, folder: Path) -> None:
    config = json.dumps(replace(checkpoint.config, mixes={}).to_dict())
    tensors = {name: t for name, t in checkpoint.tensors.items() if name.startswith("bilm.")}
    torch.save({"config": config, "tensors": tensors}, folder / "toy.pt")


TOY = Format(
    name="toy",
    label="toy file",
    layout="toy.pt",
    weights=("toy.pt",),
    marks=("toy.pt",),
    anchor="toy.pt",
    files=("toy.pt",),
    read=read_toy,
    write=write_toy,
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more format in the list."""
    monkeypatch.setattr(load, "FORMATS", (*FORMATS, TOY))


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.usefixtures("toy")
def test_a_new_format_is_one_object(tmp_path: Path) -> None:
    elmo = make_tiny()
    elmo.save_pretrained(tmp_path / "m")
    helped = run("convert", "--help")
    assert re.search(r"toy +toy file: toy.pt", helped)

    wrote = run("convert", tmp_path / "m", tmp_path / "toy", "--to", "toy")
    assert "wrote: toy file" in wrote and "'toy' cannot hold the mixes (default)" in wrote
    assert [path.name for path in (tmp_path / "toy").iterdir()] == ["toy.pt"]
    for source in (tmp_path / "toy", tmp_path / "toy" / "toy.pt"):
        got = Elmo.from_pretrained(source)
        assert got.format == "toy file"
        assert (got.embed(["one text"])[0] == elmo.embed(["one text"])[0]).all()
    assert "toy file" in run("info", tmp_path / "toy")

    with zipfile.ZipFile(tmp_path / "toy.zip", "w") as archive:
        archive.write(tmp_path / "toy" / "toy.pt", "inner/toy.pt")
        archive.writestr("inner/other.bin", b"no file of a model")
    assert read_checkpoint(tmp_path / "toy.zip").format == "toy file in a .zip"

    assert "toy.pt" in load.model_files()  # what is fetched from the Hub
    with pytest.raises(FileError, match=r"another format \(toy file\)"):
        write_checkpoint(elmo.to_checkpoint(), tmp_path / "toy", force=True)
    (tmp_path / "none").mkdir()
    with pytest.raises(FileError, match=r"a toy file \(toy\.pt\), or an archive"):
        read_checkpoint(tmp_path / "none")
    run("convert", tmp_path / "m", tmp_path / "x", "--to", "toys", code=2)


def test_former_names_still_work(tmp_path: Path) -> None:
    """The C kernel is called native now, and nothing else."""
    make_tiny().save_pretrained(tmp_path / "m")
    assert "wrote: elmokit folder" in run(
        "convert", tmp_path / "m", tmp_path / "n", "--to", "native"
    )
    folder, format = write_checkpoint(make_tiny().to_checkpoint(), tmp_path / "o", "native")
    assert (folder, format.name) == (tmp_path / "o", "elmokit")


def test_names_and_labels_are_unique() -> None:
    for values in ([f.name for f in FORMATS], [f.label for f in FORMATS]):
        assert len(set(values)) == len(FORMATS) > 4


def test_modules_are_only_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected one of elmokit, "):
        write_checkpoint(make_tiny().to_checkpoint(), tmp_path / "x", "tf-hub")


def test_the_guide_lists_every_format() -> None:
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in GUIDE.read_text(encoding="utf-8").partition("## Other formats")[2].splitlines()
        if line.startswith("|")
    ]
    assert rows[2:] == [
        (f.label, f"`{f.layout}`", f"`--to {f.name}`" if f.write else "only read") for f in FORMATS
    ]


def test_the_catalogue_names_formats_of_the_list() -> None:
    labels = tuple(format.label for format in FORMATS)
    for entry in list_models():
        if entry.status != "unloadable":
            assert entry.format.startswith(labels), entry.name


def test_only_patterns_of_the_formats_leave_an_archive(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        for path in (tmp_path / "m").iterdir():
            archive.write(path, f"../up/{path.name}")
        archive.writestr(".", b"a name that is none")
        archive.writestr("../up/variables/../../../escaped.index", b"x")
        archive.writestr("../up/../variables.index", b"x")
        archive.writestr("../up/deep/notes.json", b"x")
    shutil.rmtree(tmp_path / "m")
    assert read_checkpoint(tmp_path / "m.zip").format == "elmokit folder in a .zip"
    assert [path.name for path in tmp_path.iterdir()] == ["m.zip"]
