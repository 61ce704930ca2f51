"""The names, layouts and options of bilm-tf, which its HDF5 files and checkpoints share."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from ..config import CharCnnConfig, ElmoConfig, EncoderConfig, LstmConfig
from ..errors import ConfigError, FormatError
from ..files.read import json_field
from .checkpoint import (
    Rule,
    joined,
    read_text_settings,
    renamed,
    text_settings,
    transposed,
)

_CELL = re.compile(
    r"RNN_(?P<direction>[01])/(?:RNN|rnn)/"
    r"(?:(?:MultiRNNCell|multi_rnn_cell)/(?:Cell|cell_)(?P<layer>\d+)/)?(?:rnn/)?"
    r"(?:LSTMCell|lstm_cell)/"
    r"(?P<part>W_0|B|W_P_0|kernel|bias|projection/kernel|weights|biases|projection/weights)"
)
_PARTS = {
    "kernel": "W_0", "weights": "W_0", "bias": "B", "biases": "B",
    "projection/kernel": "W_P_0", "projection/weights": "W_P_0",
}  # fmt: skip


def official_name(name: str) -> str:
    """The HDF5 name of a variable, whatever version of TensorFlow named it.

    >>> official_name("lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel")
    'RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/W_0'
    """
    name = re.sub(r"^(?:module/)?(?:lm|bilm)/", "", name)
    match = _CELL.fullmatch(name)
    if match is None:
        return name
    # A model of one layer has no MultiRNNCell around its cell.
    part = _PARTS.get(match["part"], match["part"])
    return cell_name(int(match["direction"]), int(match["layer"] or 0)) + part


def checkpoint_name(name: str) -> str:
    """The name that bilm-tf's trainer gives to the variable of an HDF5 name."""
    match = _CELL.fullmatch(name)
    if match is None:
        return f"lm/{name}"
    part = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}[match["part"]]
    return f"lm/RNN_{match['direction']}/rnn/multi_rnn_cell/cell_{match['layer']}/lstm_cell/{part}"


def rules(config: ElmoConfig) -> list[Rule]:
    """The table between official HDF5 names and ours."""
    encoder, cnn = "bilm.encoder.", "bilm.encoder.char_cnn."
    table = []
    if config.encoder.char_cnn is None:
        table.append(renamed(encoder + "words.weight", "embedding"))
    else:
        table.append(
            # The row of id 0, the padding of whole words, is not in the file.
            Rule((cnn + "embedding.weight",), ("char_embed",),
                 lambda t: (joined(t.new_zeros(1, t.shape[1]), t),), lambda t: (t[1:],))
        )  # fmt: skip
        for i in range(len(config.encoder.char_cnn.filters)):
            table += [
                Rule((f"{cnn}convolutions.{i}.weight",), (f"CNN/W_cnn_{i}",),
                     lambda t: (t[0].permute(2, 1, 0),), lambda t: (t.permute(2, 1, 0)[None],)),
                renamed(f"{cnn}convolutions.{i}.bias", f"CNN/b_cnn_{i}"),
            ]  # fmt: skip
        for k in range(config.encoder.char_cnn.num_highway):
            for gate in ("carry", "transform"):
                ours = f"{cnn}highways.{k}.{gate}."
                table += [
                    transposed(ours + "weight", f"CNN_high_{k}/W_{gate}"),
                    renamed(ours + "bias", f"CNN_high_{k}/b_{gate}"),
                ]
        if config.encoder.projected:
            table += [
                transposed(encoder + "projection.weight", "CNN_proj/W_proj"),
                renamed(encoder + "projection.bias", "CNN_proj/b_proj"),
            ]
    for direction, stack in enumerate(("forward_lm", "backward_lm")):
        for layer in range(config.lstm.num_layers):
            table += _lstm_rules(
                f"bilm.{stack}.layers.{layer}.", cell_name(direction, layer), config.lstm.projected
            )
    return table


def softmax_rules() -> list[Rule]:
    """The table for the softmax, which is in a file of its own or in a checkpoint."""
    return [renamed("softmax.weight", "softmax/W"), renamed("softmax.bias", "softmax/b")]


def cell_name(direction: int, layer: int) -> str:
    """What the HDF5 names of an LSTM's variables begin with; direction 0 is the forward one."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"


def _lstm_rules(ours: str, theirs: str, projected: bool) -> list[Rule]:
    def split(kernel: Tensor) -> tuple[Tensor, Tensor]:
        # [input rows; recurrent rows] of equal number, as x_k and h have the same width.
        weights = _swap_gates(kernel.t())
        half = weights.shape[1] // 2
        return weights[:, :half], weights[:, half:]

    def join(inputs: Tensor, recurrent: Tensor) -> tuple[Tensor]:
        return (_swap_gates(joined(inputs, recurrent, dim=1)).t(),)

    table = [
        Rule((ours + "input_weight", ours + "recurrent_weight"), (theirs + "W_0",), split, join),
        Rule((ours + "bias",), (theirs + "B",),
             lambda t: (_swap_gates(t),), lambda t: (_swap_gates(t),)),
    ]  # fmt: skip
    return [*table, transposed(ours + "projection", theirs + "W_P_0")] if projected else table


def _swap_gates(t: Tensor) -> Tensor:
    """TensorFlow orders the gates i, g, f, o; torch (and we) i, f, g, o. Its own inverse."""
    i, g, f, o = t.chunk(4)
    return joined(i, f, g, o)


def config_from_options(options: Mapping[str, Any], where: str) -> ElmoConfig:
    """The architecture that an `options.json` describes.

    `n_characters` is ignored: 261 and 262 are both in use for the same files.
    """
    field = partial(json_field, options, where=where)
    filters = field("char_cnn.filters", list)
    for pair in filters:
        if not isinstance(pair, list) or [type(value) for value in pair] != [int, int]:
            raise FormatError(f"{where}: char_cnn.filters: {pair!r:.40} is not [width, number]")
    none = type(None)
    try:
        lstm = LstmConfig(
            dim=field("lstm.dim", int),
            projection_dim=field("lstm.projection_dim", int),
            num_layers=field("lstm.n_layers", int, default=1),
            # 0 means none, too.
            cell_clip=field("lstm.cell_clip", float, int, none, default=None) or None,
            proj_clip=field("lstm.proj_clip", float, int, none, default=None) or None,
            skip_connections=field("lstm.use_skip_connections", bool, default=False),
        )
        char_cnn = CharCnnConfig(
            dim=field("char_cnn.embedding.dim", int),
            filters=tuple((width, number) for width, number in filters),
            activation=field("char_cnn.activation", str),
            num_highway=field("char_cnn.n_highway", int, none, default=0) or 0,
            max_characters=field("char_cnn.max_characters_per_token", int),
        )
        encoder = EncoderConfig(
            char_cnn=char_cnn, projected=char_cnn.num_filters != lstm.projection_dim
        )
        return ElmoConfig(encoder=encoder, lstm=lstm, **read_text_settings(options, where))
    except ConfigError as e:
        raise FormatError(f"{where}: {e}") from e


def options_from_config(config: ElmoConfig, num_characters: int) -> dict[str, Any]:
    """The `options.json` of a model that bilm-tf can express."""
    cnn, lstm = config.encoder.char_cnn, config.lstm
    problem = None
    if cnn is None:
        problem = "it reads a table of words, not characters"
    elif cnn.characters != "bytes" or config.encoder.num_words:
        problem = "it reads Unicode characters or word vectors (ELMoForManyLangs)"
    elif lstm.forget_bias != 1.0:
        problem = f"its forget bias is {lstm.forget_bias}, that of the format 1.0"
    elif config.encoder.projected != (cnn.num_filters != lstm.projection_dim):
        problem = "its token projection is square, which the format leaves out"
    if problem or cnn is None:
        raise ConfigError(f"this model cannot be written as a bilm-tf (official) model: {problem}")
    return {
        "lstm": {
            "dim": lstm.dim,
            "projection_dim": lstm.projection_dim,
            "n_layers": lstm.num_layers,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.proj_clip,
            "use_skip_connections": lstm.skip_connections,
        },
        "char_cnn": {
            "activation": cnn.activation,
            "embedding": {"dim": cnn.dim},
            "filters": [list(pair) for pair in cnn.filters],
            "n_highway": cnn.num_highway,
            "n_characters": num_characters,
            "max_characters_per_token": cnn.max_characters,
        },
        **text_settings(config),
    }
