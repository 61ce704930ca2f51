"""The folder of ELMoForManyLangs: two state dicts, dictionaries, and a configuration."""

import pickle
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import CharCnnConfig, ElmoConfig, EncoderConfig, LstmConfig
from ..errors import MAX_VALUE, ConfigError, FormatError, quoted, shortened
from ..files.read import check_readable, is_there, json_field, list_folder, read_json, read_words
from ..files.write import Sink, check_space, write_json
from .checkpoint import (
    Checkpoint,
    Format,
    Rule,
    expected_tensors,
    joined,
    read_text_settings,
    renamed,
    text_settings,
    to_ours,
    to_theirs,
)

_CLIP, _MAX_CHARACTERS = 3.0, 50
"""What every published model has; used where the folder lost its `cnn_*.json`."""
_NUMBER = (int, float, type(None))


def read_manylangs(path: Path) -> Checkpoint:
    """The model of an ELMoForManyLangs folder, or of one of its files."""
    folder = path if path.is_dir() else path.parent
    source: dict[str, Tensor] = {}
    for name in ("token_embedder.pkl", "encoder.pkl"):
        source |= {f"{name}:{key}": t for key, t in _load_state(folder / name).items()}
    settings, note = _find_settings(folder)
    config = _config(settings, source, folder)
    tensors = to_ours(rules(config), source, expected_tensors(config), str(folder))
    encoder = config.encoder
    return Checkpoint(
        config=config,
        tensors=tensors,
        characters=_read_dictionary(folder / "char.dic") if encoder.char_cnn else None,
        words=_read_dictionary(folder / "word.dic") if encoder.num_words else None,
        format=MANYLANGS.label,
        notes=[note] if note else [],
    )


def write_manylangs(checkpoint: Checkpoint, folder: Path) -> None:
    """Write an ELMoForManyLangs folder."""
    config, cnn = checkpoint.config, checkpoint.config.encoder.char_cnn
    problem = None
    if cnn is not None and cnn.characters != "unicode":
        problem = "it reads bytes, the format Unicode characters; write it as official HDF5 instead"
    elif config.lstm.forget_bias != 0.0:
        problem = f"its forget bias is {config.lstm.forget_bias}, that of the format 0"
    elif not config.lstm.skip_connections:
        problem = "it has no skip connections, the format always"
    elif not (config.lstm.projected and config.encoder.projected):
        problem = "it lacks a projection that the format always has"
    if problem:
        raise ConfigError(f"this model cannot be written as an ELMoForManyLangs folder: {problem}")
    files: dict[str, dict[str, Tensor]] = {"token_embedder.pkl": {}, "encoder.pkl": {}}
    for name, tensor in to_theirs(rules(config), checkpoint.tensors).items():
        file, key = name.split(":")
        files[file][key] = tensor
    for file, state in files.items():
        check_space(folder / file, sum(t.numel() * t.element_size() for t in state.values()))
        with Sink(folder / file) as sink:
            torch.save(state, sink)  # type: ignore[arg-type]
        sink.check()
    for file, dictionary in (("char.dic", checkpoint.characters), ("word.dic", checkpoint.words)):
        if dictionary is not None:
            lines = "".join(f"{entry}\t{i}\n" for entry, i in dictionary.items())
            (folder / file).write_text(lines, encoding="utf-8", newline="\n")
    write_json(folder / "cnn.json", _settings(config) | text_settings(config))
    write_json(folder / "config.json", {"config_path": "cnn.json"})


def rules(config: ElmoConfig) -> list[Rule]:
    """The table between the two state dicts and ours; AllenNLP's layout, its gates like torch's."""
    encoder, cnn, embedder = "bilm.encoder.", "bilm.encoder.char_cnn.", "token_embedder.pkl:"
    word_table, characters = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"
    table = []
    if config.encoder.num_words:
        table.append(renamed(encoder + "words.weight", embedder + word_table))
    if config.encoder.char_cnn is not None:
        table.append(renamed(cnn + "embedding.weight", embedder + characters))
        for i in range(len(config.encoder.char_cnn.filters)):
            for part in ("weight", "bias"):
                name = f"convolutions.{i}.{part}"
                table.append(renamed(cnn + name, embedder + name))
        for k in range(config.encoder.char_cnn.num_highway):
            for part in ("weight", "bias"):
                ours = f"{cnn}highways.{k}."
                table.append(
                    # [transform; carry], and their carry gate opens the input, ours the transform.
                    Rule((f"{ours}transform.{part}", f"{ours}carry.{part}"),
                         (f"{embedder}highways._layers.{k}.{part}",),
                         lambda t: (t[: len(t) // 2], -t[len(t) // 2 :]),
                         lambda transform, carry: (joined(transform, carry.neg()),))
                )  # fmt: skip
    for part in ("weight", "bias"):
        table.append(renamed(f"{encoder}projection.{part}", f"{embedder}projection.{part}"))
    for stack, direction in (("forward_lm", "forward"), ("backward_lm", "backward")):
        for layer in range(config.lstm.num_layers):
            ours = f"bilm.{stack}.layers.{layer}."
            theirs = f"encoder.pkl:{direction}_layer_{layer}."
            table += [
                renamed(ours + "input_weight", theirs + "input_linearity.weight"),
                renamed(ours + "recurrent_weight", theirs + "state_linearity.weight"),
                renamed(ours + "bias", theirs + "state_linearity.bias"),
                renamed(ours + "projection", theirs + "state_projection.weight"),
            ]
    return table


def _load_state(path: Path) -> dict[str, Tensor]:
    check_readable(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as e:
        raise FormatError(
            f"{path} is not a plain file of tensors: it holds code, or is damaged; "
            "nothing of it was run; get the model from its original source"
        ) from e
    except Exception as e:  # torch.load raises many kinds for damaged archives
        reason = f"{type(e).__name__}: {e}".splitlines()[0]
        raise FormatError(f"{path} is damaged ({reason}); download it again") from e
    if not isinstance(state, Mapping) or not all(isinstance(t, Tensor) for t in state.values()):
        raise FormatError(f"{path}: expected a state dict, that is, names and tensors")
    for name, t in state.items():
        # Sizes without memory behind them would cost it later.
        plain = t.layout == torch.strided and not t.is_meta
        if not plain or t.untyped_storage().nbytes() < t.numel() * t.element_size():
            raise FormatError(f"{path}: {name} is not a plain tensor with all its data")
    return dict(state)


def _read_dictionary(path: Path) -> dict[str, int]:
    """Entries and ids of a `.dic` file.

    A line with an id alone means the ideographic space. As the original strips its lines, that is
    so for all blank characters, of which the last has the id.
    """
    dictionary: dict[str, int] = {}
    for number, line in enumerate(read_words(path), start=1):
        entry, _, rest = line.strip().rpartition("\t")
        try:
            if "\t" in entry:
                raise ValueError("more than two fields")
            dictionary[entry or "\u3000"] = int(rest)
        except ValueError as e:
            raise FormatError(f"{path}, line {number}: expected an entry, a tab, an id") from e
    return dictionary


def _find_settings(folder: Path) -> tuple[dict[str, Any], str]:
    """The `cnn_*.json` that `config.json` names, often by a path of another machine."""
    named = ""
    if is_there(folder / "config.json"):
        named = str(read_json(folder / "config.json").get("config_path", ""))
    # Compared by name: a path of any length may stand there.
    named = re.split(r"[\\/]", named)[-1]
    files = list_folder(folder)
    candidates = [path for path in files if path.name == named] or [
        path for path in files if path.match("cnn*.json")
    ]
    if len(candidates) == 1:
        return read_json(candidates[0]), ""
    name = shortened(named, MAX_VALUE) or "cnn_*.json"
    note = (
        f"the settings file {name} is not in the folder; sizes were taken from the weights, "
        f"and the clips ({_CLIP:g}), the activation (relu) and the character limit "
        f"({_MAX_CHARACTERS}) from the published models"
    )
    return {}, note


def _config(settings: dict[str, Any], source: Mapping[str, Tensor], folder: Path) -> ElmoConfig:
    """The architecture: sizes from the weights, the rest from the settings."""
    setting = partial(json_field, settings, where=str(folder))
    for part, kind in (("token_embedder", "cnn"), ("encoder", "elmo")):
        name = setting(f"{part}.name", str, default=kind)
        if name.lower() != kind:
            raise FormatError(
                f"{folder}: {part}.name={quoted(name)} is not known; only {kind!r} is"
            )

    def count(pattern: str) -> int:
        return sum(re.fullmatch(pattern, name) is not None for name in source)

    def shape(name: str) -> torch.Size:
        if name not in source:
            raise FormatError(f"{folder}: the tensor {name} is missing; get a complete copy")
        return source[name].shape

    prefix = "token_embedder.pkl:"
    filters = [
        shape(f"{prefix}convolutions.{i}.weight")
        for i in range(count(re.escape(prefix) + r"convolutions\.\d+\.weight"))
    ]
    try:
        char_cnn = None
        if filters:
            characters = shape(f"{prefix}char_emb_layer.embedding.weight")
            char_cnn = CharCnnConfig(
                characters="unicode",
                num_characters=characters[0],
                max_characters=setting(
                    "token_embedder.max_characters_per_token", int, default=_MAX_CHARACTERS
                ),
                dim=characters[1],
                filters=tuple((conv[2], conv[0]) for conv in filters),
                activation=setting("token_embedder.activation", str, default="relu"),
                num_highway=count(re.escape(prefix) + r"highways\._layers\.\d+\.weight"),
            )
        table = f"{prefix}word_emb_layer.embedding.weight"
        num_words, word_dim = shape(table) if table in source else (0, 0)
        projection = shape("encoder.pkl:forward_layer_0.state_projection.weight")
        if projection[0] == projection[1]:
            raise FormatError(f"{folder}: a square state_projection is not supported")
        return ElmoConfig(
            encoder=EncoderConfig(char_cnn=char_cnn, num_words=num_words, word_dim=word_dim),
            lstm=LstmConfig(
                dim=projection[1],
                projection_dim=projection[0],
                num_layers=count(r"encoder\.pkl:forward_layer_\d+\.state_projection\.weight"),
                cell_clip=setting("encoder.cell_clip", *_NUMBER, default=_CLIP),
                proj_clip=setting("encoder.proj_clip", *_NUMBER, default=_CLIP),
                forget_bias=0.0,
            ),
            **read_text_settings(settings, str(folder)),
        )
    except FormatError:
        raise
    except (IndexError, ValueError) as e:
        raise FormatError(f"{folder}: the weights do not fit together ({e})") from e


def _settings(config: ElmoConfig) -> dict[str, Any]:
    cnn, lstm = config.encoder.char_cnn, config.lstm
    embedder: dict[str, Any] = {"name": "cnn", "word_dim": config.encoder.word_dim}
    if cnn is not None:
        embedder |= {
            "activation": cnn.activation,
            "filters": [list(pair) for pair in cnn.filters],
            "n_highway": cnn.num_highway,
            "char_dim": cnn.dim,
            "max_characters_per_token": cnn.max_characters,
        }
    return {
        "encoder": {
            "name": "elmo",
            "dim": lstm.dim,
            "projection_dim": lstm.projection_dim,
            "n_layers": lstm.num_layers,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.proj_clip,
        },
        "token_embedder": embedder,
        "dropout": 0.1,
    }


MANYLANGS = Format(
    name="manylangs",
    label="ELMoForManyLangs folder",
    layout="encoder.pkl + token_embedder.pkl",
    weights=("encoder.pkl", "token_embedder.pkl"),
    marks=("encoder.pkl", "token_embedder.pkl"),
    anchor="encoder.pkl",
    files=("*.json", "*.pkl", "*.dic"),
    read=read_manylangs,
    write=write_manylangs,
)
