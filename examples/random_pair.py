"""For examples without a model at hand: an official pair of files with random weights."""

from pathlib import Path

import torch

from elmokit import Elmo, ElmoConfig
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.formats.save import write_checkpoint


def write_random_pair(folder: Path) -> tuple[Path, Path]:
    """Write `options.json` and `model.hdf5` of a tiny biLM; returns their paths."""
    torch.manual_seed(0)
    cnn = CharCnnConfig(filters=((1, 16), (2, 32), (3, 64), (4, 64)))
    lstm = LstmConfig(dim=128, projection_dim=64)
    elmo = Elmo(ElmoConfig(encoder=EncoderConfig(char_cnn=cnn), lstm=lstm))
    with torch.no_grad():
        for parameter in elmo.bilm.parameters():
            parameter.mul_(1.5)  # weak random LSTMs forget at once
    write_checkpoint(elmo.to_checkpoint(), folder / "model.hdf5")
    print("No model was given: these are random weights, which have learned nothing.\n")
    return folder / "options.json", folder / "model.hdf5"
