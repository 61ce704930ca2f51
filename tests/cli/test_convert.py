"""`elmokit convert` keeps every bit, and says what it cannot keep."""

from pathlib import Path
from typing import Any

import pytest
import torch
from strategies import make_tiny, tiny_config

from elmokit import Elmo
from elmokit.formats.load import read_checkpoint


def assert_same_model(a: Path, b: Path) -> None:
    got, expected = read_checkpoint(a), read_checkpoint(b)
    assert got.config == expected.config
    assert got.vocab == expected.vocab
    assert got.characters == expected.characters and got.words == expected.words
    assert got.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert got.tensors[name].equal(tensor), name


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("tf-checkpoint", "tf"),
        ("tf-checkpoint", "official"),
        ("allennlp-elmo", "official"),
        ("allennlp-elmo", "tf"),
        ("manylangs/char-only", "manylangs"),
        ("manylangs/word-and-char", "manylangs"),
    ],
)
def test_there_and_back_is_bit_equal(
    run: Any, fixtures: Path, tmp_path: Path, name: str, to: str
) -> None:
    result = run("convert", fixtures / name, tmp_path / "elmokit")
    assert result.stdout.splitlines()[1] == f"wrote: elmokit folder, float32, at {tmp_path}/elmokit"
    run("convert", tmp_path / "elmokit", tmp_path / "back", "--to", to)
    assert_same_model(tmp_path / "back", fixtures / name)


def test_official_pair_by_the_name_of_its_file(run: Any, model: Path, tmp_path: Path) -> None:
    result = run("convert", model, tmp_path / "pair" / "lm.hdf5")
    assert "wrote: official HDF5 pair" in result.stdout
    assert sorted(path.name for path in (tmp_path / "pair").iterdir()) == [
        "lm.hdf5", "options.json",
    ]  # fmt: skip


def test_what_is_lost_is_said(run: Any, tmp_path: Path) -> None:
    elmo = make_tiny(tiny_config(tokenizer="whitespace"))
    elmo.warm_up(["One sentence ."])
    elmo.save_pretrained(tmp_path / "m")
    result = run("convert", tmp_path / "m", tmp_path / "tf", "--to", "tf")
    assert "found: elmokit folder" in result.stdout
    assert "wrote: TensorFlow checkpoint" in result.stdout
    for lost in ("mixes (default)", "warm state"):
        assert lost in result.stderr
    assert "whitespace" not in result.stderr
    assert run("convert", tmp_path / "m", tmp_path / "tf2", "--to", "tf", "-q").output == ""


@pytest.mark.parametrize("to", ["official", "tf", "elmokit"])
@pytest.mark.parametrize(("name", "text"), [("characters", "MKTAY"), ("kiwi", "태어났다.")])
def test_tokenizer_that_is_named_is_the_one_of_the_copy(
    run: Any, model: Path, tmp_path: Path, caplog: Any, to: str, name: str, text: str
) -> None:
    if name == "kiwi":
        pytest.importorskip("kiwipiepy")
    result = run("convert", model, tmp_path / "copy", "--to", to, "--tokenizer", name)
    assert name not in result.stderr
    copy = Elmo.from_pretrained(tmp_path / "copy")
    expected = Elmo.from_pretrained(model, tokenizer=name)
    assert copy.config.tokenizer == name
    assert (
        copy.tokenize(text) == expected.tokenize(text) != Elmo.from_pretrained(model).tokenize(text)
    )
    assert "tokenis" not in caplog.text  # no warning of a guess


def test_unknown_tokenizer_is_refused_before_anything_is_written(
    run: Any, model: Path, tmp_path: Path
) -> None:
    result = run("convert", model, tmp_path / "copy", "--tokenizer", "mecab", code=1)
    assert "'mecab'" in result.stderr and "'kiwi'" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_float16_halves_the_file(run: Any, model: Path, tmp_path: Path) -> None:
    result = run("convert", model, tmp_path / "half", "--dtype", "float16")
    assert "float16" in result.stdout
    weights = [folder / "model.safetensors" for folder in (model, tmp_path / "half")]
    assert weights[1].stat().st_size < 0.6 * weights[0].stat().st_size
    got, expected = read_checkpoint(tmp_path / "half"), read_checkpoint(model)
    for name, tensor in expected.tensors.items():
        assert got.tensors[name].equal(tensor.half().float()), name
    assert (
        "elmokit"
        in run("convert", model, tmp_path / "x", "--to", "tf", "--dtype", "float16", code=1).stderr
    )
    assert (
        "--force" in run("convert", model, tmp_path / "half", "--dtype", "float16", code=1).stderr
    )
    run("convert", model, tmp_path / "half", "--dtype", "float16", "--force")


def test_float16_refuses_what_it_cannot_hold(run: Any, tmp_path: Path) -> None:
    elmo = make_tiny()
    with torch.no_grad():
        elmo.bilm.forward_lm.layers[0].bias[0] = 1e6
    elmo.save_pretrained(tmp_path / "m")
    result = run("convert", tmp_path / "m", tmp_path / "half", "--dtype", "float16", code=1)
    assert "bilm.forward_lm.layers.0.bias" in result.stderr
    assert not (tmp_path / "half").exists()


def test_existing_target_is_refused_and_forced(run: Any, model: Path, tmp_path: Path) -> None:
    run("convert", model, tmp_path / "copy")
    assert "--force" in run("convert", model, tmp_path / "copy", code=1).stderr
    run("convert", model, tmp_path / "copy", "--force")
    assert_same_model(tmp_path / "copy", model)


def test_model_that_the_format_cannot_express(run: Any, fixtures: Path, tmp_path: Path) -> None:
    source = fixtures / "manylangs" / "char-only"
    result = run("convert", source, tmp_path / "x", "--to", "official", code=1)
    assert "Unicode characters" in result.stderr
    assert list(tmp_path.iterdir()) == []
