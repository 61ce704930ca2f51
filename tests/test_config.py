"""Configurations: plain data out and in, and nothing that cannot work."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import assert_refused, configs

from elmokit import ElmoConfig
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig, MixConfig
from elmokit.errors import ConfigError


@given(configs())
@settings(max_examples=60)
def test_dictionary_survives_json_and_comes_back_equal(config: ElmoConfig) -> None:
    config = dataclasses.replace(config, mixes={"task": MixConfig(layer_norm=True, dropout=0.5)})
    again = ElmoConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert isinstance(again.encoder, EncoderConfig) and isinstance(again.lstm, LstmConfig)


def test_defaults_are_the_published_small_model() -> None:
    config = ElmoConfig()
    assert (config.lstm.dim, config.lstm.projection_dim, config.lstm.num_layers) == (1024, 128, 2)
    assert config.encoder.char_cnn.num_filters == 2048
    assert (config.encoder.char_cnn.num_highway, config.encoder.char_cnn.max_characters) == (1, 50)
    assert (config.dim, config.num_layers) == (256, 3)
    assert config.state == "zero" and config.normalization == "NFC"


def test_configurations_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ElmoConfig().state = "warm"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "mentions"),
    [
        ({"lstm": {"dimm": 8}}, ["config.lstm.dimm", "did you mean 'dim'"]),
        ({"tokeniser": "regex"}, ["config.tokeniser", "did you mean 'tokenizer'"]),
        ({"zzz": 1}, ["config.zzz", "unknown key", "encoder, lstm"]),
        ({"lstm": []}, ["config.lstm", "expected an object", "list"]),
        ({"lstm": {"dim": "8"}}, ["config.lstm.dim='8'", "int"]),
        ({"lstm": {"dim": 8.0}}, ["config.lstm.dim=8.0", "int"]),
        ({"lstm": {"dim": True}}, ["config.lstm.dim=True", "int"]),
        ({"lstm": {"skip_connections": 1}}, ["config.lstm.skip_connections=1", "bool"]),
        ({"lstm": {"cell_clip": "3"}}, ["config.lstm.cell_clip='3'", "float"]),
        ({"encoder": {"char_cnn": {"filters": [[1, 2, 3]]}}}, ["encoder.char_cnn.filters[0]"]),
        ({"encoder": {"char_cnn": {"filters": [[1, "x"]]}}}, ["encoder.char_cnn.filters[0][1]"]),
        ({"encoder": {"char_cnn": {"filters": 7}}}, ["encoder.char_cnn.filters=7"]),
        ({"mixes": {"task": 3}}, ["config.mixes.task"]),
        ({"mixes": [1]}, ["config.mixes=[1]"]),
        ({"state": None}, ["state=None"]),
    ],
)  # fmt: skip
def test_ill_formed_dictionary_is_refused_by_its_key(values: dict, mentions: list[str]) -> None:
    assert_refused(lambda: ElmoConfig.from_dict(values), *mentions)


def test_dictionary_that_is_none_is_refused() -> None:
    assert_refused(lambda: ElmoConfig.from_dict([1]), "config", "list")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "mention"),
    [
        (lambda: LstmConfig(dim=0), "dim=0"),
        (lambda: LstmConfig(dim=10**12), "dim=1000000000000"),
        (lambda: LstmConfig(dim=8, projection_dim=9), "projection_dim=9"),
        (lambda: LstmConfig(num_layers=0), "num_layers=0"),
        (lambda: LstmConfig(num_layers=10**9), "num_layers=1000000000"),
        (lambda: LstmConfig(cell_clip=0.0), "cell_clip=0.0"),
        (lambda: LstmConfig(proj_clip=-1.0), "proj_clip=-1.0"),
        (lambda: LstmConfig(proj_clip=float("nan")), "proj_clip=nan"),
        (lambda: LstmConfig(proj_clip=10**400), "proj_clip="),
        (lambda: LstmConfig(cell_clip=1e300), "cell_clip="),  # no float32
        (lambda: LstmConfig(forget_bias=float("nan")), "forget_bias="),
        (lambda: LstmConfig(forget_bias=10**400), "forget_bias="),
        (lambda: LstmConfig(forget_bias=float("nan")), "forget_bias=nan"),
        (lambda: CharCnnConfig(dim=0), "dim=0"),
        (lambda: CharCnnConfig(max_characters=2), "max_characters=2"),
        (lambda: CharCnnConfig(max_characters=10**12), "max_characters=1000000000000"),
        (lambda: CharCnnConfig(num_characters=261), "num_characters=261: expected 262"),
        (lambda: CharCnnConfig(num_highway=-1), "num_highway=-1"),
        (lambda: CharCnnConfig(num_highway=10**9), "num_highway=1000000000"),
        (lambda: CharCnnConfig(filters=()), "filters=()"),
        (lambda: CharCnnConfig(filters=((0, 4),)), "(0, 4)"),
        (lambda: CharCnnConfig(filters=((51, 4),)), "(51, 4)"),
        (lambda: CharCnnConfig(filters=((1, 0),)), "(1, 0)"),
        (lambda: CharCnnConfig(filters=((1, 2**20), (2, 2**20))), "2097152 in all"),
        (lambda: CharCnnConfig(activation="gelu"), "activation='gelu'"),
        (lambda: CharCnnConfig(characters="utf-16"), "characters='utf-16'"),
        (lambda: EncoderConfig(num_words=3), "word_dim=0"),
        (lambda: EncoderConfig(num_words=-1, word_dim=-3), "num_words=-1"),
        (lambda: EncoderConfig(char_cnn=None), "expected characters"),
        (lambda: ElmoConfig(num_softmax_words=-5), "num_softmax_words=-5"),
        (lambda: ElmoConfig(state="hot"), "state='hot'"),
        (lambda: ElmoConfig(normalization="NFKC"), "normalization='NFKC'"),
        (lambda: ElmoConfig(mixes={"a-b": MixConfig()}), "a-b"),
        (lambda: ElmoConfig(encoder=EncoderConfig(projected=False)), "projection_dim=128"),
        (lambda: MixConfig(dropout=1.5), "dropout=1.5"),
    ],
)
def test_impossible_value_is_refused_by_its_name(make, mention: str) -> None:
    assert_refused(make, mention)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(SCALARS, lambda s: st.lists(s) | st.dictionaries(st.text(), s))
KEYS = st.sampled_from(["encoder", "lstm", "mixes", "state", "tokenizer"])


@given(st.dictionaries(KEYS, JSON))
@settings(max_examples=50)
def test_arbitrary_json_is_a_configuration_or_an_error_of_ours(values: dict) -> None:
    try:
        ElmoConfig.from_dict(values)
    except ConfigError as e:
        assert str(e)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    values = ElmoConfig().to_dict()
    values["lstm"]["cell_clip"] = 10**400
    assert_refused(lambda: ElmoConfig.from_dict(values), "lstm.cell_clip=<a number of", "float")
