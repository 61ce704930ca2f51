"""Our own folder, broken in every way that we could think of."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from strategies import assert_refused, make_tiny, random_model, tiny_config

from elmokit import Elmo, ElmoError
from elmokit.config import CharCnnConfig, EncoderConfig
from elmokit.text.ids import Vocab

VOCAB = Vocab(["<S>", "</S>", "<UNK>", "word"])
CNN = CharCnnConfig(characters="unicode", num_characters=20, dim=4, filters=((1, 4), (2, 8)))
CONFIG = tiny_config(
    encoder=EncoderConfig(char_cnn=CNN, num_words=11, word_dim=3), num_softmax_words=len(VOCAB)
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all the files that a model of ours can have."""
    folder = tmp_path_factory.mktemp("elmokit")
    elmo = random_model(CONFIG, vocab=VOCAB)
    elmo.warm_up(["some text"])
    elmo.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


def change_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        part = config
        for name in parents:
            part = part[name]
        part[last] = value
    (folder / "config.json").write_text(json.dumps(config))


def change_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    tensors = load_file(folder / "model.safetensors") | changes
    kept = {name: t for name, t in tensors.items() if t is not None}
    save_file(kept, folder / "model.safetensors")


def load(folder: Path) -> Elmo:
    return Elmo.from_pretrained(folder)


def test_folder_and_each_of_its_files_is_the_same_model(original: Path) -> None:
    expected = load(original).embed([["a", "b"]])[0]
    for name in ("config.json", "model.safetensors"):
        np.testing.assert_array_equal(load(original / name).embed([["a", "b"]])[0], expected)


@pytest.mark.parametrize(
    ("changes", "mentions"),
    [
        ({"format_version": 2}, ["format_version=2", "update elmokit"]),
        ({"format_version": None}, ["format_version=None"]),
        ({"format_version": "1"}, ["format_version='1'"]),
        ({"lstm__dimm": 4}, ["lstm.dimm", "did you mean 'dim'"]),
        ({"lstm": None}, ["lstm"]),
        ({"lstm__dim": 10**12}, ["dim=1000000000000"]),
        ({"lstm__dim": 10**6}, ["bilm.", "shape"]),
        ({"lstm__num_layers": 3}, ["bilm.forward_lm.layers.2", "missing"]),
        ({"lstm__num_layers": 10**9}, ["num_layers=1000000000"]),
        ({"encoder__num_words": -3}, ["num_words=-3"]),
        ({"encoder__num_words": 2**31, "encoder__word_dim": 2**20}, ["bilm.encoder.words.weight"]),
        ({"encoder__char_cnn__filters": [[1, 4], [3, 8]]}, ["convolutions.1.weight"]),
        ({"num_softmax_words": 5}, ["softmax.weight"]),
        ({"num_softmax_words": 0}, ["softmax", "belongs to no part"]),
        ({"mixes": {"keys": {}}}, ["keys"]),
        ({"mixes": {"default": {"dropout": 2.0}}}, ["dropout=2.0"]),
        ({"mixes": {"other": {}}}, ["mixes.other"]),
        ({"tokenizer": "sentencepiece"}, ["tokenizer='sentencepiece'"]),
        ({"state": "hot"}, ["state='hot'"]),
        ({"normalization": "NFX"}, ["normalization='NFX'"]),
    ],
)
def test_broken_configuration_is_refused_by_its_field(
    folder: Path, changes: dict, mentions: list[str]
) -> None:
    change_config(folder, **changes)
    assert_refused(lambda: load(folder), str(folder), *mentions)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 10**5])
@pytest.mark.parametrize("name", ["config.json", "characters.json", "words.json"])
def test_json_that_is_none_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    assert_refused(lambda: load(folder), str(folder / name))


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "vocab.txt", "characters.json", "words.json"],
)
def test_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert_refused(lambda: load(folder), str(folder), name)


@pytest.mark.parametrize(
    ("name", "content", "mentions"),
    [
        ("characters.json", {}, ["character dictionary"]),
        ("characters.json", {"a": 1}, ["character dictionary", "<oov>"]),
        ("characters.json", {"<oov>": "1"}, ["characters.json", "'<oov>'", "whole number"]),
        ("characters.json", {"<oov>": True}, ["characters.json", "'<oov>'", "whole number"]),
        ("characters.json", {c: 99 for c in ("<oov>", "<pad>", "<bos>", "<eos>", "<bow>", "<eow>")},
         ["character dictionary", "id 99", "0..19"]),
        ("words.json", {"word": 1}, ["word dictionary", "<UNK>"]),
        ("words.json", {"<UNK>": -1}, ["word dictionary", "id -1"]),
        ("words.json", {"<UNK>": 11}, ["word dictionary", "id 11", "0..10"]),
        ("words.json", {"<UNK>": None}, ["words.json", "'<UNK>'"]),
    ],
)  # fmt: skip
def test_broken_dictionary_is_refused(
    folder: Path, name: str, content: dict, mentions: list[str]
) -> None:
    (folder / name).write_text(json.dumps(content))
    assert_refused(lambda: load(folder), str(folder), *mentions)


@pytest.mark.parametrize(
    ("content", "mentions"),
    [
        (b"<S>\n</S>\n<UNK>\n", ["has 3 words", "says 4"]),
        (b"<S>\n</S>\nword\nother\n", ["<UNK>"]),
        (b"", ["<S>"]),
        (b"<S>\n</S>\n<UNK>\n\xff\n", ["line 4", "UTF-8"]),
    ],
)
def test_broken_vocabulary_is_refused(folder: Path, content: bytes, mentions: list[str]) -> None:
    (folder / "vocab.txt").write_bytes(content)
    assert_refused(lambda: load(folder), str(folder / "vocab.txt"), *mentions)


@pytest.mark.parametrize("size", [0, 4, 7, 8, 100, 3000, -1])
def test_truncated_weights_are_refused(folder: Path, size: int) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    assert_refused(lambda: load(folder), str(weights))


@pytest.mark.parametrize(
    "content",
    [
        b"garbage" * 100,
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 56)
        + b'{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}} '
        + bytes(4),
        struct.pack("<Q", 56)
        + b'{"x":{"dtype":"Z99","shape":[1],"data_offsets":[0,4]}}  '
        + bytes(4),
    ],
)
def test_garbage_weights_are_refused(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    assert_refused(lambda: load(folder), "model.safetensors")


BIAS = "bilm.forward_lm.layers.0.bias"


@pytest.mark.parametrize(
    ("changes", "mentions"),
    [
        ({BIAS: None}, ["missing"]),
        ({BIAS: torch.zeros(7)}, ["(7,)", "(128,)"]),
        ({BIAS: torch.zeros(128, dtype=torch.int32)}, ["int32"]),
        ({BIAS: torch.zeros(128, dtype=torch.bool)}, ["bool"]),
        ({"mixes.default.gamma": torch.zeros(1)}, ["mixes.default.gamma", "(1,)"]),
        ({"bilm.extra": torch.zeros(1)}, ["bilm.extra", "belongs to no part"]),
        ({"warm_h": torch.zeros(2, 2, 1, 3)}, ["warm_h", "(2, 2, 1, 3)"]),
        ({"warm_h": None}, ["warm_h"]),
    ],
)
def test_broken_tensor_is_refused_by_its_name(
    folder: Path, changes: dict, mentions: list[str]
) -> None:
    change_tensors(folder, **changes)
    name = next(iter(changes))
    assert_refused(lambda: load(folder), str(folder / "model.safetensors"), name, *mentions)


def test_model_without_warm_state_loads(folder: Path) -> None:
    change_tensors(folder, warm_h=None, warm_c=None)
    assert load(folder).warm_h is None


@given(st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 255)), min_size=1, max_size=5))
@settings(max_examples=100)
def test_damaged_bytes_are_a_model_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    make_tiny().save_pretrained(folder)
    data = bytearray((folder / "model.safetensors").read_bytes())
    for place, value in damage:
        data[place] = value
    (folder / "model.safetensors").write_bytes(data)
    try:
        load(folder)
    except ElmoError as e:
        assert "model.safetensors" in str(e) and "\n" not in str(e)
