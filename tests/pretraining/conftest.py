"""Small corpora, prepared once, and a small run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

from elmokit import Elmo
from elmokit.config import CharCnnConfig, ElmoConfig, EncoderConfig, LstmConfig
from elmokit.corpus.corpus import PrepareConfig
from elmokit.corpus.prepare import prepare
from elmokit.model import Perplexity
from elmokit.pretraining.config import DataConfig, PretrainConfig, SoftmaxConfig, TrainConfig
from elmokit.pretraining.evaluate import held_out_perplexity

Prepare: TypeAlias = Callable[[list[str], str], Path]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """Prepares lines of tokens as a corpus."""

    def make(lines: list[str], name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        config = PrepareConfig(tokenizer="whitespace", sentences="lines", valid_fraction=0.1)
        prepare([folder / "text.txt"], folder / "corpus", config, workers=1)
        return folder / "corpus"

    return make


@pytest.fixture(scope="session")
def corpus(prepared: Prepare) -> Path:
    """Six hundred sentences of made-up words."""
    generator = np.random.default_rng(0)
    words = [f"{a}{b}{c}" for a in "bdgk" for b in "aou" for c in "lmnr"]
    lines = [
        " ".join(generator.choice(words, generator.integers(1, 12)).tolist()) for _ in range(600)
    ]
    return prepared(lines, "words")


@pytest.fixture
def config() -> PretrainConfig:
    """A run of a few steps of a very small model."""
    cnn = CharCnnConfig(dim=4, filters=((1, 4), (2, 8), (3, 8)))
    return PretrainConfig(
        model=ElmoConfig(
            encoder=EncoderConfig(char_cnn=cnn), lstm=LstmConfig(dim=16, projection_dim=8)
        ),
        data=DataConfig(batch_tokens=96, max_length=9, lanes=6, unroll=5),
        softmax=SoftmaxConfig(num_samples=20),
        train=TrainConfig(
            lr=1e-2,
            warmup_steps=3,
            epochs=None,
            max_steps=12,
            log_every=1,
            checkpoint_every=5,
            evaluate_every=6,
            softmax_steps=4,
        ),
    )


@pytest.fixture
def wreck_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the weights useless before an evaluation, so that no later one can be the best."""

    def wreck(evaluation: int) -> None:
        calls = []

        def wrecked(elmo: Elmo, *rest: Any) -> Perplexity:
            calls.append(1)
            if len(calls) == evaluation:
                with torch.no_grad():
                    for parameter in elmo.parameters():
                        parameter.mul_(20)
            return held_out_perplexity(elmo, *rest)

        monkeypatch.setattr("elmokit.pretraining.run.held_out_perplexity", wrecked)

    return wreck
