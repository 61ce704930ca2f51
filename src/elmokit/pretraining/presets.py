"""Runs that make sense: from minutes on a laptop to the paper's model."""

from ..config import CharCnnConfig, ElmoConfig, EncoderConfig, LstmConfig
from .config import DataConfig, PretrainConfig, SoftmaxConfig, TrainConfig


def _model(filters: list[tuple[int, int]], dim: int, projection: int, highways: int) -> ElmoConfig:
    cnn = CharCnnConfig(filters=tuple(filters), num_highway=highways)
    lstm = LstmConfig(dim=dim, projection_dim=projection)
    return ElmoConfig(encoder=EncoderConfig(char_cnn=cnn), lstm=lstm)


PRESETS: dict[str, PretrainConfig] = {
    "tiny": PretrainConfig(
        preset="tiny",
        model=_model([(1, 16), (2, 32), (3, 64), (4, 128)], 256, 64, 1),
        data=DataConfig(batch_tokens=1280, lanes=64),
        softmax=SoftmaxConfig(num_samples=1024),
        train=TrainConfig(beta2=0.999, dropout=0.05),
    ),
    "small": PretrainConfig(
        preset="small",
        model=_model([(1, 32), (2, 32), (3, 64), (4, 128), (5, 256)], 512, 128, 1),
        data=DataConfig(lanes=64),
        train=TrainConfig(beta2=0.999),
    ),
    "medium": PretrainConfig(
        preset="medium",
        model=_model(
            [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)], 1024, 256, 1
        ),
        softmax=SoftmaxConfig(num_samples=8192),
        train=TrainConfig(lr=1e-3, beta2=0.999, warmup_steps=1000),
    ),
    "original": PretrainConfig(
        preset="original",
        model=_model(
            [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)], 4096, 512, 2
        ),
        softmax=SoftmaxConfig(num_samples=8192),
        train=TrainConfig(lr=5e-4, warmup_steps=2000),
    ),
}
