"""The folder of a TensorFlow training run; and a module of TensorFlow Hub, without options."""

import json
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
from elmokit.text.ids import Vocab

VOCAB = Vocab(["</S>", "<S>", "<UNK>", "the", "cat"])
BIAS = "lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/bias"
TEXTS = [["dogs", "are", "in", "the", "fog"], ["x" * 60]]
WEIGHTS, SCALING = "aggregation/weights", "aggregation/scaling"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tf")
    elmo = make_tiny(tiny_config(num_softmax_words=len(VOCAB)), vocab=VOCAB)
    write_checkpoint(elmo.to_checkpoint(), folder, "tf")
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


def change(folder: Path, **changes: np.ndarray | None) -> None:
    variables = read_bundle(folder / "model.ckpt") | changes
    kept = {name: v for name, v in variables.items() if v is not None}
    write_bundle(folder / "model.ckpt", kept)


def test_checkpoint_goes_there_and_back_with_its_softmax(original: Path) -> None:
    expected = make_tiny(tiny_config(num_softmax_words=len(VOCAB)), vocab=VOCAB).to_checkpoint()
    got = read_checkpoint(original)
    for name, tensor in got.tensors.items():
        assert tensor.equal(expected.tensors[name]), name
    assert expected.tensors.keys() - got.tensors.keys() == {
        "mixes.default.scalars", "mixes.default.gamma",
    }  # fmt: skip
    assert got.vocab == VOCAB
    options = json.loads((original / "options.json").read_text())
    assert options["char_cnn"]["n_characters"] == 261
    assert options["n_tokens_vocab"] == len(VOCAB)


def test_index_file_and_options_are_the_same_model(original: Path) -> None:
    expected = Elmo.from_pretrained(original).embed([["the", "cat"]])[0]
    for name in ("model.ckpt.index", "options.json"):
        got = Elmo.from_pretrained(original / name).embed([["the", "cat"]])[0]
        np.testing.assert_array_equal(got, expected)


def test_state_of_the_optimiser_is_not_read(folder: Path) -> None:
    change(folder, **{f"{BIAS}/Adagrad": np.zeros(3, np.float32), "global_step": np.array(7)})
    Elmo.from_pretrained(folder)


def test_newest_checkpoint_is_the_one_that_the_folder_names(folder: Path) -> None:
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(folder / f"model.ckpt{suffix}", folder / f"model.ckpt-9{suffix}")
    (folder / "model.ckpt.index").write_bytes(b"garbage")
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/other/model.ckpt-9"\n')
    Elmo.from_pretrained(folder)
    (folder / "checkpoint").unlink()
    assert_refused(
        lambda: Elmo.from_pretrained(folder), str(folder), "model.ckpt-9.index, model.ckpt.index"
    )
    Elmo.from_pretrained(folder / "model.ckpt-9.index")


@pytest.mark.parametrize("content", [b"\xff\xff", b"", b'model_checkpoint_path: "../gone"'])
def test_damaged_list_of_checkpoints_is_refused_or_does_not_matter(
    folder: Path, content: bytes
) -> None:
    (folder / "checkpoint").write_bytes(content)
    if content == b"\xff\xff":
        assert_refused(lambda: Elmo.from_pretrained(folder), str(folder / "checkpoint"))
    else:
        Elmo.from_pretrained(folder)


@pytest.mark.parametrize(
    ("value", "mentions"),
    [
        (None, ["missing"]),
        (np.zeros(3, np.float32), ["(3,)", "(128,)"]),
        (np.zeros(128, np.int32), ["floating-point", "int32"]),
    ],
)
def test_broken_variable_is_refused_by_its_name(
    folder: Path, value: np.ndarray | None, mentions: list[str]
) -> None:
    change(folder, **{BIAS: value})
    assert_refused(
        lambda: Elmo.from_pretrained(folder),
        "model.ckpt.index", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B", *mentions,
    )  # fmt: skip


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize("size", [0, 10, 100, -1])
def test_truncated_checkpoint_is_refused(folder: Path, suffix: str, size: int) -> None:
    path = folder / f"model.ckpt{suffix}"
    path.write_bytes(path.read_bytes()[:size])
    assert_refused(lambda: Elmo.from_pretrained(folder), "model.ckpt")


@pytest.mark.parametrize("name", ["model.ckpt.data-00000-of-00001", "options.json"])
def test_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder), name)


def test_vocabulary_of_another_length_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    assert_refused(lambda: Elmo.from_pretrained(folder), "vocab.txt", "3 words", "(5, 16)")


def test_softmax_without_one_vocabulary_is_left_out_with_a_note(folder: Path) -> None:
    shutil.copy(folder / "vocab.txt", folder / "vocab-2.txt")
    elmo = Elmo.from_pretrained(folder)
    assert elmo.softmax is None and "vocab-2.txt, vocab.txt" in elmo.notes[0]
    for path in folder.glob("vocab*"):
        path.unlink()
    elmo = Elmo.from_pretrained(folder)
    assert elmo.softmax is None and "found none" in elmo.notes[0]


def test_checkpoint_without_softmax_is_a_model_with_a_note(folder: Path) -> None:
    change(folder, **{"lm/softmax/W": None, "lm/softmax/b": None})
    elmo = Elmo.from_pretrained(folder)
    assert elmo.softmax is None and "no softmax" in elmo.notes[0]


def test_softmax_of_broken_shape_is_refused(folder: Path) -> None:
    change(folder, **{"lm/softmax/W": np.zeros((), np.float32)})
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder), "softmax/W")
    change(folder, **{"lm/softmax/W": np.zeros((5, 3), np.float32)})
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder), "softmax/W", "(5, 3)")


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
