"""The Python blocks of docs/files.md read the files that elmokit writes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strategies import make_tiny, tiny_config
from task_data import ner_config, write_data

from elmokit import Elmo, PrepareConfig, prepare, pretrain, train_task
from elmokit.embed_file import embed_file
from elmokit.formats.save import write_checkpoint
from elmokit.pretraining.config import DataConfig, PretrainConfig, SoftmaxConfig, TrainConfig
from elmokit.text.ids import Vocab

PAGE = Path(__file__).resolve().parents[1] / "docs" / "files.md"
LINES = ["He has a gift.", "", "그는 태어났다."]


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def section_files(title: str) -> set[str]:
    """The names in the first column of a section's table."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.M)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def small_run(folder: Path) -> None:
    text = folder / "text.txt"
    text.write_text("".join(f"the gift number {i} is new .\n" for i in range(60)), encoding="utf-8")
    config = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
    prepare([text], folder / "corpus", config, workers=1)
    train = TrainConfig(epochs=None, max_steps=2, warmup_steps=1, log_every=1)
    pretrain(
        folder / "corpus",
        folder / "run",
        PretrainConfig(
            model=tiny_config(),
            data=DataConfig(batch_tokens=64, lanes=4, unroll=5),
            softmax=SoftmaxConfig(num_samples=2),
            train=train,
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of every file that the page describes."""
    folder = tmp_path_factory.mktemp("files")
    vocab = Vocab(["</S>", "<S>", "<UNK>", "gift"])
    make_tiny(tiny_config(num_softmax_words=4), vocab=vocab).save_pretrained(folder / "model")
    elmo = Elmo.from_pretrained(folder / "model", device="cpu")
    write_checkpoint(elmo.to_checkpoint(), folder / "official", "official")
    (folder / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    for suffix in ("h5", "npz", "parquet", "jsonl"):
        embed_file(elmo, folder / "in.txt", folder / f"vectors.{suffix}")
    embed_file(elmo, folder / "in.txt", folder / "sentences.h5", level="sentence")
    small_run(folder)
    (folder / "data").mkdir()
    data, _ = write_data(folder / "data")
    train_task("ner", data, data, elmo, folder / "task", ner_config({"epochs": 1}))
    return folder


def test_every_block_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Any]
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(folder)
    invoke("evaluate", "model", "in.txt", "--scores", "scores.jsonl")
    names: dict[str, Any] = {}
    found = blocks()
    assert len(found) == 12
    for code in found:
        exec(compile(code, str(PAGE), "exec"), names)
    assert names["line"]["tokens"] == ["He", "has", "a", "gift", "."]
    assert names["matrix"].shape == (3, 32)
    assert names["lines"][2]["text"] == LINES[2]
    assert names["metadata"]["tokenizer"] == "regex"
    assert names["first_sentence"][:2] == ["the", "gift"]
    assert names["metrics"]["seeds"] and names["losses"]


@pytest.mark.parametrize(
    ("title", "name"), [("Prepared corpora", "corpus"), ("Models", "model"),
                        ("Pre-training runs", "run"), ("Task runs", "task")]
)  # fmt: skip
def test_every_file_of_a_folder_is_on_the_page(folder: Path, title: str, name: str) -> None:
    described = section_files(title)
    if name == "run":
        described |= section_files("Models")
    described = {name.split("/")[0].replace("seed-N", "seed-1") for name in described}
    written = {path.name for path in (folder / name).iterdir() if path.name[0] != "."}
    assert written <= described


@pytest.fixture
def invoke() -> Callable[..., Any]:
    from typer.testing import CliRunner

    from elmokit.cli import app

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    return run
