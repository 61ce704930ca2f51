"""A module of TensorFlow Hub (google/elmo), read without TensorFlow.

saved_model.pb, tfhub_module.pb     the graph; not read
variables/variables.index, .data-*  bilm/… (bilm-tf's names) and aggregation/{weights,scaling}

A module has no options. Its variables give every size; what no size tells (`_UNSEEN`) is the same
in all modules that were published: they hold the paper's model.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ..config import CharCnnConfig, ElmoConfig, EncoderConfig, LstmConfig, MixConfig
from ..errors import ConfigError, FormatError
from .bilm_tf import cell_name, official_name, rules
from .checkpoint import Checkpoint, Format, check_shape, expected_tensors, to_ours
from .tensor_bundle import read_bundle

_PREFIX = "variables/variables"
"""Where a module has its checkpoint."""

_UNSEEN = (
    "activation relu, clipping at 3, skip connections and at most 50 bytes per word, "
    "as in the paper's model"
)
_WEIGHTS, _SCALING = "aggregation/weights", "aggregation/scaling"


def read_tf_hub(folder: Path) -> Checkpoint:
    """The biLM of a module, and the mix that it learned."""
    prefix = folder / _PREFIX
    where = f"{prefix}.index"
    variables = read_bundle(prefix, lambda name: name.startswith(("bilm/", "aggregation/")))
    source = {official_name(name): array for name, array in variables.items()}
    config = config_from_shapes({name: array.shape for name, array in source.items()}, where)
    checkpoint = Checkpoint(
        config=config,
        tensors=to_ours(rules(config), source, expected_tensors(config), where),
        format=TF_HUB.label,
        notes=[f"a module does not say everything; taken: {_UNSEEN}"],
    )
    if _WEIGHTS in source and _SCALING in source:
        scalars, gamma = (torch.from_numpy(source[name]) for name in (_WEIGHTS, _SCALING))
        add_mix(checkpoint, scalars, gamma, where)
    return checkpoint


def config_from_shapes(shapes: Mapping[str, tuple[int, ...]], where: str) -> ElmoConfig:
    """The architecture of variables with these official names and shapes."""

    def shape(name: str, num_dims: int) -> tuple[int, ...]:
        if name not in shapes:
            raise FormatError(f"{where}: {name} is missing; this is no ELMo module")
        if len(shapes[name]) != num_dims:
            raise FormatError(
                f"{where}: {name} has shape {shapes[name]}, not {num_dims} dimensions"
            )
        return shapes[name]

    def count(name: str) -> int:
        """How many variables there are of a name that ends in a number."""
        return next(i for i in range(len(shapes) + 1) if name.format(i) not in shapes)

    kernel = cell_name(0, 0) + "W_0"
    filters = [shape(f"CNN/W_cnn_{i}", 4) for i in range(count("CNN/W_cnn_{}"))]
    try:
        lstm = LstmConfig(
            dim=shape(kernel, 2)[1] // 4,
            projection_dim=shape(kernel, 2)[0] // 2,
            num_layers=count(cell_name(0, 0).replace("Cell0", "Cell{}") + "W_0"),
            cell_clip=3.0,
            proj_clip=3.0,
            skip_connections=True,
        )
        char_cnn = CharCnnConfig(
            dim=shape("char_embed", 2)[1],
            filters=tuple((width, number) for _, width, _, number in filters),
            activation="relu",
            num_highway=count("CNN_high_{}/W_carry"),
            max_characters=50,
        )
        encoder = EncoderConfig(char_cnn=char_cnn, projected="CNN_proj/W_proj" in shapes)
        return ElmoConfig(encoder=encoder, lstm=lstm, tokenizer=None)
    except ConfigError as e:
        raise FormatError(f"{where}: {e}") from e


def add_mix(checkpoint: Checkpoint, scalars: Tensor, gamma: Tensor, where: str) -> None:
    """Take the module's own mix, its output `elmo`, as the default one."""
    check_shape(where, _WEIGHTS, tuple(scalars.shape), (checkpoint.config.num_layers,))
    if gamma.numel() != 1:
        raise FormatError(f"{where}: {_SCALING} has shape {tuple(gamma.shape)}, not one number")
    checkpoint.config = replace(checkpoint.config, mixes={"default": MixConfig()})
    checkpoint.tensors["mixes.default.scalars"] = scalars
    checkpoint.tensors["mixes.default.gamma"] = gamma.reshape(())


TF_HUB = Format(
    name="tf-hub",
    label="TensorFlow Hub module",
    layout=f"{_PREFIX}.index",
    weights=(f"{_PREFIX}.index",),
    marks=("saved_model.pb", "tfhub_module.pb", "variables"),
    anchor=f"{_PREFIX}.index",
    files=(f"{_PREFIX}.index", f"{_PREFIX}.data-*"),
    read=read_tf_hub,
)
