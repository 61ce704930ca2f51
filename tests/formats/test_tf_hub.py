"""A module of TensorFlow Hub: variables and no options."""

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from strategies import assert_refused, make_tiny, tiny_config

from elmokit import Elmo
from elmokit.cli.info import describe
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint
from elmokit.formats.tensor_bundle import read_bundle, write_bundle

TEXTS = [["dogs", "are", "in", "the", "fog"], ["x" * 60]]
WEIGHTS, SCALING = "aggregation/weights", "aggregation/scaling"


def module(folder: Path, change: Callable[[dict[str, np.ndarray]], object] = len) -> Elmo:
    """A module in `folder`, whose variables `change` may change; and the model that it holds.

    The modules were made by bilm-tf's inference graph, which names its variables so.
    """
    lstm = replace(tiny_config().lstm, cell_clip=3.0, proj_clip=3.0, skip_connections=True)
    elmo = make_tiny(tiny_config(lstm=lstm))
    write_checkpoint(elmo.to_checkpoint(), folder / "tf", "tf")
    variables = {
        name.replace("lm/", "bilm/", 1)
        .replace("rnn/multi_rnn_cell/cell_", "RNN/MultiRNNCell/Cell")
        .replace("/lstm_cell", "/rnn/lstm_cell"): value
        for name, value in read_bundle(folder / "tf" / "model.ckpt").items()
    }
    assert "bilm/RNN_1/RNN/MultiRNNCell/Cell1/rnn/lstm_cell/projection/kernel" in variables
    variables |= {WEIGHTS: np.zeros(3, np.float32), SCALING: np.ones((), np.float32)}
    change(variables)
    (folder / "variables").mkdir()
    write_bundle(folder / "variables" / "variables", variables)
    return elmo


def test_module_gives_the_vectors_of_its_model(tmp_path: Path) -> None:
    elmo = module(tmp_path)
    got = Elmo.from_pretrained(tmp_path)
    for one, other in zip(got.embed(TEXTS), elmo.embed(TEXTS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_are_those_of_the_variables(tmp_path: Path) -> None:
    elmo = module(tmp_path)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.format == "TensorFlow Hub module"
    assert checkpoint.config.lstm == elmo.config.lstm
    assert checkpoint.config.encoder == elmo.config.encoder


def test_learned_mix_is_that_of_the_model(tmp_path: Path) -> None:
    scalars = np.array([0.5, -1.0, 2.0], np.float32)
    elmo = module(tmp_path, lambda v: v.update({WEIGHTS: scalars, SCALING: np.full(1, 1.5, "f")}))
    weights = np.exp(scalars) / np.exp(scalars).sum()
    layers = elmo.embed(TEXTS, layers="all")[0]
    mixed = Elmo.from_pretrained(tmp_path).embed(TEXTS, layers="mix")[0]
    np.testing.assert_allclose(mixed, 1.5 * np.einsum("l,ltd->td", weights, layers), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("bilm/char_embed", None, "char_embed is missing"),
        ("bilm/CNN/W_cnn_0", None, "filters"),
        ("bilm/CNN/W_cnn_1", np.ones((2, 4, 8), "f"), "CNN/W_cnn_1 has shape (2, 4, 8)"),
        ("bilm/CNN/b_cnn_1", None, "CNN/b_cnn_1"),
        ("bilm/CNN_proj/W_proj", np.ones((9, 16), "f"), "shape"),
        (WEIGHTS, np.ones(4, "f"), "aggregation/weights has shape (4,)"),
        (SCALING, np.ones(2, "f"), "aggregation/scaling has shape (2,)"),
    ],
)
def test_what_is_no_elmo_is_refused(
    tmp_path: Path, name: str, value: np.ndarray | None, problem: str
) -> None:
    module(tmp_path, lambda v: v.pop(name) if value is None else v.update({name: value}))
    assert_refused(lambda: Elmo.from_pretrained(tmp_path), "variables.index", problem)


def test_damaged_module_is_refused(tmp_path: Path) -> None:
    module(tmp_path)
    (tmp_path / "variables" / "variables.index").write_bytes(b"garbage")
    assert_refused(lambda: Elmo.from_pretrained(tmp_path), "variables.index")


@pytest.mark.parametrize("inside", ["", "elmo/3/"])
def test_zip_of_a_module_is_the_module(tmp_path: Path, inside: str) -> None:
    elmo = module(tmp_path / "module")
    shutil.rmtree(tmp_path / "module" / "tf")
    (tmp_path / "module" / "saved_model.pb").write_bytes(b"graph")
    with zipfile.ZipFile(tmp_path / "module.zip", "w") as archive:
        for file in (tmp_path / "module").rglob("*"):
            archive.write(file, f"{inside}{file.relative_to(tmp_path / 'module')}")
    got = Elmo.from_pretrained(tmp_path / "module.zip")
    assert got.format == "TensorFlow Hub module in a .zip"
    np.testing.assert_array_equal(got.embed(TEXTS)[0], elmo.embed(TEXTS)[0])


def test_size_on_disk_counts_the_folders_in_it(tmp_path: Path) -> None:
    module(tmp_path)
    shutil.rmtree(tmp_path / "tf")
    size = sum(file.stat().st_size for file in (tmp_path / "variables").iterdir())
    assert describe(str(tmp_path))["size_on_disk"] == size > 1000
