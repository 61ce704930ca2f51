"""How a model reads texts: by the tokenizer it names, by a function, or by a guess that is said."""

import logging
from pathlib import Path

import numpy as np
import pytest
from strategies import make_tiny, tiny_config

from elmokit import Elmo
from elmokit.formats.save import write_checkpoint


def commas(text: str) -> list[str]:
    return text.split(",")


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "official"
    elmo = make_tiny(tiny_config(tokenizer=None))
    write_checkpoint(elmo.to_checkpoint(), folder, "official")
    return folder


def test_an_unknown_tokenisation_is_said_once(
    official: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elmo = Elmo.from_pretrained(official)
    elmo.embed([["tokens", "are", "fine"]])
    assert not caplog.records
    elmo.embed("A text.")
    elmo.embed("Another text.")
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "does not say how its training text was tokenised" in caplog.text


@pytest.mark.parametrize("tokenizer", ["regex", "whitespace", commas])
def test_a_named_tokenizer_is_no_guess(
    official: Path, tokenizer: str, caplog: pytest.LogCaptureFixture
) -> None:
    Elmo.from_pretrained(official, tokenizer=tokenizer).embed("A text.")
    files = official / "options.json", official / "weights.hdf5"
    Elmo.from_files(*files, tokenizer=tokenizer).embed("A text.")
    assert not caplog.records


def test_a_warm_start_says_nothing(official: Path, caplog: pytest.LogCaptureFixture) -> None:
    Elmo.from_pretrained(official, state="warm").embed([["tokens"]])
    assert not caplog.records


def test_a_function_tokenises(
    official: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elmo = Elmo.from_pretrained(official, tokenizer=commas)
    assert elmo.tokenize("New York,is big") == [["New York", "is big"]]
    expected = elmo.embed([["New York", "is big"]])[0]
    np.testing.assert_array_equal(elmo.embed("New York,is big"), expected)
    elmo.save_pretrained(tmp_path / "saved")
    assert "the tokenizer is a Python function and is not saved" in caplog.text
    caplog.clear()
    again = Elmo.from_pretrained(tmp_path / "saved")
    assert again.config.tokenizer is None
    again.embed("a,b")
    assert "does not say how its training text was tokenised" in caplog.text
