"""An empty output name is refused by everything that writes: it would mean the current folder."""

from pathlib import Path
from typing import Any

import pytest

from elmokit import Elmo, ElmoError
from elmokit.corpus.prepare import prepare
from elmokit.embed_file import embed_file


@pytest.mark.parametrize(
    "command",
    [
        "prepare TEXT -o",
        "pretrain CORPUS -o",
        "pretrain CORPUS --force -o",
        "pretrain CORPUS --resume -o",
        "embed MODEL TEXT -o",
        "convert MODEL",
        "convert MODEL --to official",
        "train ner --train TEXT --dev TEXT --model MODEL -o",
        "train ner --train TEXT --dev TEXT --model MODEL --resume -o",
        "reproduce figure2 --data CORPUS --model MODEL -o",
        "download elmo-small -o",
        "evaluate MODEL TEXT --scores",
    ],
)
def test_an_empty_output_name_is_refused(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    text = tmp_path / "text.txt"
    text.write_text("One line .\nAnother line .\n")
    words = {"MODEL": str(model), "TEXT": str(text), "CORPUS": str(tmp_path)}
    monkeypatch.chdir(here)
    for name in ("", " "):
        result = run(*(words.get(word, word) for word in command.split()), name, code=1)
        assert "the name of the output is empty" in result.stderr
    assert not list(here.iterdir())


def test_an_empty_output_name_is_refused_in_python(
    elmo: Elmo, text: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for write in (
        lambda: elmo.save_pretrained(""),
        lambda: embed_file(elmo, text, ""),
        lambda: prepare([text], ""),
    ):
        with pytest.raises(ElmoError, match="the name of the output is empty"):
            write()
    assert not list(here.iterdir())
