"""The folder of ELMoForManyLangs: what it may look like, and how it may be broken."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle
from strategies import assert_close, assert_refused, random_model, tiny_config

from elmokit import Elmo, ElmoError
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.formats.load import read_checkpoint
from elmokit.formats.save import write_checkpoint

CNN = CharCnnConfig(
    characters="unicode", num_characters=20, dim=4, filters=((1, 4), (2, 8)), num_highway=2
)
LSTM = LstmConfig(dim=24, projection_dim=16, forget_bias=0.0)
ENCODERS = {
    "characters": EncoderConfig(char_cnn=CNN),
    "words and characters": EncoderConfig(char_cnn=CNN, num_words=11, word_dim=3),
    "words": EncoderConfig(char_cnn=None, num_words=11, word_dim=3),
}
SENTENCES = [["ab", "한글", "zzz"], ["🙂" * 60], []]


def make(kind: str) -> Elmo:
    return random_model(tiny_config(encoder=ENCODERS[kind], lstm=LSTM))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manylangs")
    write_checkpoint(make("words and characters").to_checkpoint(), folder, "manylangs")
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


def assert_same_vectors(one: Elmo, other: Elmo) -> None:
    for a, b in zip(
        one.embed(SENTENCES, layers="all"), other.embed(SENTENCES, layers="all"), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def change_state(folder: Path, file: str, **changes: object) -> None:
    state = torch.load(folder / file, weights_only=True) | changes
    torch.save({name: t for name, t in state.items() if t is not None}, folder / file)


def change_settings(folder: Path, path: str, value: object) -> None:
    settings_ = json.loads((folder / "cnn.json").read_text())
    *parents, last = path.split(".")
    part = settings_
    for name in parents:
        part = part[name]
    part[last] = value
    (folder / "cnn.json").write_text(json.dumps(settings_))


# ------------------------------------------------------------------ what it may look like


@pytest.mark.parametrize("kind", ENCODERS)
def test_model_goes_there_and_back_bit_for_bit(tmp_path: Path, kind: str) -> None:
    start = make(kind).to_checkpoint()
    write_checkpoint(start, tmp_path / "there", "manylangs")
    there = read_checkpoint(tmp_path / "there")
    write_checkpoint(there, tmp_path / "elmokit")
    back = read_checkpoint(tmp_path / "elmokit")
    for name, tensor in start.tensors.items():
        if not name.startswith("mixes."):
            assert back.tensors[name].equal(tensor), name
    assert (back.config.encoder, back.config.lstm) == (start.config.encoder, start.config.lstm)
    assert (back.characters, back.words) == (start.characters, start.words)


def test_read_model_equals_its_equations(original: Path) -> None:
    elmo = Elmo.from_pretrained(original)
    oracle = Oracle.of(elmo)
    for sentence, got in zip(SENTENCES, elmo.embed(SENTENCES, layers="all"), strict=True):
        assert_close(got, oracle.embed(sentence)[0])


def test_each_file_of_the_folder_is_the_same_model(original: Path) -> None:
    for name in ("encoder.pkl", "token_embedder.pkl", "config.json"):
        assert_same_vectors(Elmo.from_pretrained(original / name), Elmo.from_pretrained(original))


def test_zip_as_it_is_published_is_the_model(original: Path, tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "179"), "zip", original)
    assert_same_vectors(Elmo.from_pretrained(tmp_path / "179.zip"), Elmo.from_pretrained(original))


@pytest.mark.parametrize(
    "config_path",
    ["/home/someone/elmo/configs/cnn.json", "C:\\elmo\\cnn.json", "../../configs/cnn.json",
     "/gone/cnn_50_100_512_4096_sample.json", ""],
)  # fmt: skip
def test_stale_path_of_the_settings_does_not_matter(
    folder: Path, original: Path, config_path: str
) -> None:
    (folder / "config.json").write_text(json.dumps({"config_path": config_path, "gpu": 0}))
    elmo = Elmo.from_pretrained(folder)
    assert_same_vectors(elmo, Elmo.from_pretrained(original))
    assert not elmo.notes


def test_settings_are_not_read_from_outside_the_folder(folder: Path, original: Path) -> None:
    (folder.parent / "cnn.json").write_text("broken")
    (folder / "config.json").write_text(json.dumps({"config_path": "../cnn.json"}))
    assert_same_vectors(Elmo.from_pretrained(folder), Elmo.from_pretrained(original))


def test_lost_settings_are_those_of_the_published_models_with_a_note(
    folder: Path, original: Path
) -> None:
    (folder / "cnn.json").unlink()
    (folder / "config.json").unlink()
    elmo = Elmo.from_pretrained(folder)
    assert "cnn_*.json is not in the folder" in elmo.notes[0]
    assert elmo.config.lstm.cell_clip == 3.0
    assert_same_vectors(elmo, Elmo.from_pretrained(original))


def test_dictionary_reads_blanks_as_the_ideographic_space(folder: Path) -> None:
    """The original strips every line, so whatever is blank there lost its character."""
    lines = (folder / "char.dic").read_text(encoding="utf-8").splitlines()
    for blank in ("", " ", "\u3000", "\xa0", "\t"):
        text = "\n".join([*lines, f"{blank}\t0" if blank else "0"])
        (folder / "char.dic").write_text(text + "\n", encoding="utf-8")
        characters = read_checkpoint(folder).characters
        assert characters["\u3000"] == 0
        assert "\xa0" not in characters and " " not in characters


def test_ideographic_space_goes_there_and_back(tmp_path: Path) -> None:
    checkpoint = make("characters").to_checkpoint()
    checkpoint.characters = {**checkpoint.characters, "\u3000": 1}
    write_checkpoint(checkpoint, tmp_path / "there", "manylangs")
    assert read_checkpoint(tmp_path / "there").characters == checkpoint.characters


@pytest.mark.parametrize(
    ("config", "mention"),
    [
        (tiny_config(), "bytes"),
        (tiny_config(encoder=ENCODERS["characters"]), "forget bias"),
        (tiny_config(encoder=ENCODERS["characters"], lstm=LstmConfig(
            dim=24, projection_dim=16, forget_bias=0.0, skip_connections=False)), "skip"),
        (tiny_config(encoder=ENCODERS["characters"], lstm=LstmConfig(
            dim=16, projection_dim=16, forget_bias=0.0)), "projection"),
        (tiny_config(encoder=EncoderConfig(char_cnn=CNN, projected=False), lstm=LstmConfig(
            dim=24, projection_dim=12, forget_bias=0.0)), "projection"),
    ],
)  # fmt: skip
def test_model_that_the_format_cannot_hold_is_refused(tmp_path: Path, config, mention: str) -> None:
    checkpoint = random_model(config).to_checkpoint()
    assert_refused(
        lambda: write_checkpoint(checkpoint, tmp_path / "no", "manylangs"),
        "ELMoForManyLangs", mention,
    )  # fmt: skip
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ how it may be broken


class Code:
    """What a hostile pickle holds: a call of its choice."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("file", ["encoder.pkl", "token_embedder.pkl"])
@pytest.mark.parametrize("how", ["pickle", "torch", "inside"])
def test_code_in_a_pickle_is_not_run(folder: Path, tmp_path: Path, file: str, how: str) -> None:
    marker = tmp_path / "marker"
    if how == "pickle":
        (folder / file).write_bytes(pickle.dumps(Code(marker)))
    elif how == "torch":
        torch.save(Code(marker), folder / file)
    else:
        change_state(folder, file, extra=Code(marker))
    assert_refused(lambda: Elmo.from_pretrained(folder), file, "code")
    assert not marker.exists()
    pickle.loads(pickle.dumps(Code(marker)))  # what it would have done
    assert marker.exists()


@pytest.mark.parametrize("file", ["encoder.pkl", "token_embedder.pkl"])
@pytest.mark.parametrize("size", [0, 1, 3, 100, 2000, -1])
def test_truncated_pickle_is_refused(folder: Path, file: str, size: int) -> None:
    (folder / file).write_bytes((folder / file).read_bytes()[:size])
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder / file))


@pytest.mark.parametrize("content", [b"garbage" * 99, b"\x80\x02}.", b"PK\x03\x04" + bytes(99)])
def test_garbage_is_refused(folder: Path, content: bytes) -> None:
    (folder / "encoder.pkl").write_bytes(content)
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder))


@pytest.mark.parametrize("value", [[1, 2], torch.zeros(3), {"x": 1}, {"x": {"y": torch.zeros(1)}}])
def test_pickle_that_is_no_state_dict_is_refused(folder: Path, value: object) -> None:
    torch.save(value, folder / "encoder.pkl")
    assert_refused(lambda: Elmo.from_pretrained(folder), "encoder.pkl")


PROJECTION = "forward_layer_0.state_projection.weight"
BIAS = "forward_layer_1.state_linearity.bias"


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("encoder.pkl", PROJECTION, None),
        ("encoder.pkl", PROJECTION, torch.zeros(3, 3, 3)),
        ("encoder.pkl", PROJECTION, torch.zeros(16)),
        ("encoder.pkl", PROJECTION, torch.zeros(24, 24)),
        ("encoder.pkl", "backward_layer_1.input_linearity.weight", None),
        ("encoder.pkl", "backward_layer_1.input_linearity.weight", torch.zeros(96, 15)),
        ("encoder.pkl", BIAS, torch.zeros(96, dtype=torch.int64)),
        ("encoder.pkl", BIAS, torch.zeros(96, dtype=torch.cfloat)),
        ("encoder.pkl", BIAS, torch.zeros(96).to_sparse()),
        ("encoder.pkl", BIAS, torch.zeros(96, device="meta")),
        ("encoder.pkl", BIAS, torch.zeros(1).expand(96)),
        ("token_embedder.pkl", "char_emb_layer.embedding.weight", None),
        ("token_embedder.pkl", "char_emb_layer.embedding.weight", torch.zeros(20)),
        ("token_embedder.pkl", "char_emb_layer.embedding.weight", torch.zeros(20, 5)),
        ("token_embedder.pkl", "word_emb_layer.embedding.weight", torch.zeros(11)),
        ("token_embedder.pkl", "word_emb_layer.embedding.weight", torch.zeros(2, 3)),
        ("token_embedder.pkl", "word_emb_layer.embedding.weight", torch.zeros(0, 3)),
        ("token_embedder.pkl", "convolutions.0.weight", torch.zeros(4, 4)),
        ("token_embedder.pkl", "convolutions.1.weight", torch.zeros(8, 4, 99)),
        ("token_embedder.pkl", "convolutions.0.bias", None),
        ("token_embedder.pkl", "highways._layers.1.weight", torch.zeros(3, 12)),
        ("token_embedder.pkl", "projection.weight", None),
    ],
)  # fmt: skip
def test_broken_tensor_is_refused(folder: Path, file: str, name: str, value: object) -> None:
    change_state(folder, file, **{name: value})
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder))


@pytest.mark.parametrize(
    ("name", "mention"),
    [("forward_layer_1.state_linearity.bias", "forward_layer_1.state_linearity.bias"),
     ("backward_layer_0.input_linearity.weight", "backward_layer_0.input_linearity.weight")],
)  # fmt: skip
def test_missing_tensor_is_named(folder: Path, name: str, mention: str) -> None:
    change_state(folder, "encoder.pkl", **{name: None})
    assert_refused(lambda: Elmo.from_pretrained(folder), mention, "missing")


@pytest.mark.parametrize(
    ("path", "value"),
    [("encoder", []), ("encoder", "elmo"), ("token_embedder", None), ("encoder.name", "lstm"),
     ("encoder.name", 7), ("token_embedder.name", ["cnn"]), ("encoder.cell_clip", "3"),
     ("encoder.proj_clip", -1), ("token_embedder.activation", "gelu"),
     ("token_embedder.max_characters_per_token", "50"),
     ("token_embedder.max_characters_per_token", 50.5),
     ("token_embedder.max_characters_per_token", 10**12)],
)  # fmt: skip
def test_broken_settings_are_refused(folder: Path, path: str, value: object) -> None:
    change_settings(folder, path, value)
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder))


@pytest.mark.parametrize("file", ["config.json", "cnn.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{"])
def test_settings_that_are_no_json_are_refused(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    assert_refused(lambda: Elmo.from_pretrained(folder), file)


@pytest.mark.parametrize("file", ["char.dic", "word.dic"])
@pytest.mark.parametrize(
    ("content", "mention"),
    [(b"a\tb\n", "line 1"), (b"<oov>\t0\nx y\n", "line 2"), (b"\xff\t0\n", "line 1"),
     (b"a\tb\t3\n", "line 1"), (b"<oov>\t-1\n", ""), (b"<oov>\t99\n", ""), (b"x\t0\n", "")],
)  # fmt: skip
def test_broken_dictionary_is_refused(
    folder: Path, file: str, content: bytes, mention: str
) -> None:
    (folder / file).write_bytes(content)
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder), mention)


@pytest.mark.parametrize("file", ["encoder.pkl", "token_embedder.pkl", "char.dic"])
def test_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder), file)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=100)
def test_damaged_bytes_are_a_model_or_an_error_of_ours(
    original: Path, tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[float, int]]
) -> None:
    folder = Path(shutil.copytree(original, tmp_path_factory.mktemp("damaged") / "model"))
    data = bytearray((folder / "encoder.pkl").read_bytes())
    for place, value in damage:
        data[int(place * (len(data) - 1))] = value
    (folder / "encoder.pkl").write_bytes(data)
    try:
        Elmo.from_pretrained(folder)
    except ElmoError as e:
        assert str(folder) in str(e) and "\n" not in str(e)


def test_square_projection_is_refused(tmp_path: Path) -> None:
    """AllenNLP's LSTM projects always, ours only to fewer values."""
    config = tiny_config(encoder=ENCODERS["characters"], lstm=LSTM)
    write_checkpoint(random_model(config).to_checkpoint(), tmp_path / "model", "manylangs")
    folder = tmp_path / "model"
    state = {}
    for name in [f"{d}_layer_{j}." for d in ("forward", "backward") for j in (0, 1)]:
        state |= {name + "input_linearity.weight": torch.zeros(64, 16),
                  name + "state_linearity.weight": torch.zeros(64, 16),
                  name + "state_linearity.bias": torch.zeros(64),
                  name + "state_projection.weight": torch.eye(16)}  # fmt: skip
    torch.save(state, folder / "encoder.pkl")
    assert_refused(lambda: Elmo.from_pretrained(folder), str(folder), "square state_projection")
