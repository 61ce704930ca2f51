"""What tests share: hypothesis strategies, the models that they make, and a few checks."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hypothesis.strategies as st
import numpy as np
import pytest
import torch

from elmokit import Elmo, ElmoConfig, ElmoError
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.engine import native

SPECIAL_CHARACTERS = ("<oov>", "<pad>", "<bos>", "<eos>", "<bow>", "<eow>")
LETTERS = "abcdé한글🙂"
WORDS = ("ab", "abc", "é", "한글", "dddd", "🙂")
TOLERANCE = 1e-5

# All that the machine has, or the one that `make test-isa` asks for.
FORCED = os.environ.get("ELMOKIT_ISA") or None
KERNELS = tuple(isa for isa in native.available() if FORCED in (None, isa))
ENGINES = (*(["torch"] if FORCED in (None, "none") else []), *(f"native:{k}" for k in KERNELS))


def tiny_config(**changes: Any) -> ElmoConfig:
    """A model of 16 values a direction, as small as a test wants it."""
    cnn = CharCnnConfig(dim=4, filters=((1, 4), (2, 8), (3, 16)))
    values = {
        "encoder": EncoderConfig(char_cnn=cnn),
        "lstm": LstmConfig(dim=32, projection_dim=16),
        **changes,
    }
    return ElmoConfig(**values)


def make_tiny(config: ElmoConfig | None = None, seed: int = 0, **parts: Any) -> Elmo:
    """A model of random weights that are strong enough to make context matter."""
    torch.manual_seed(seed)
    elmo = Elmo(config or tiny_config(), **parts).eval()
    with torch.no_grad():
        for parameter in elmo.bilm.parameters():
            parameter.mul_(1.5)
    return elmo


def assert_close(got: Any, expected: np.ndarray, tolerance: float = TOLERANCE) -> None:
    """Equal shapes, and values that differ by less than `tolerance` of the largest."""
    got = np.asarray(got)
    assert got.shape == expected.shape
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale + 1e-7)


def assert_refused(call: Callable[[], object], *mentions: str) -> None:
    """The call raises an error of ours: one line that mentions the file and what is wrong in it."""
    with pytest.raises(ElmoError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message, message
    for mention in mentions:
        assert mention in message, message


def char_cnns(characters: st.SearchStrategy[str]) -> st.SearchStrategy[CharCnnConfig]:
    @st.composite
    def draw_cnn(draw: st.DrawFn) -> CharCnnConfig:
        kind = draw(characters)
        limit = draw(st.integers(3, 12))
        pairs = st.tuples(st.integers(1, limit), st.integers(1, 5))
        return CharCnnConfig(
            characters=kind,
            num_characters=262 if kind == "bytes" else len(SPECIAL_CHARACTERS + tuple(LETTERS)) + 2,
            max_characters=limit,
            dim=draw(st.integers(1, 5)),
            filters=tuple(draw(st.lists(pairs, min_size=1, max_size=8))),
            activation=draw(st.sampled_from(["relu", "tanh"])),
            num_highway=draw(st.integers(0, 3)),
        )

    return draw_cnn()


@st.composite
def configs(draw: st.DrawFn) -> ElmoConfig:
    """Any architecture: bytes or code points, words or not, with and without projections."""
    kind = draw(st.sampled_from(["bytes", "unicode", "word + bytes", "word + unicode", "word"]))
    characters = "unicode" if "unicode" in kind else "bytes"
    cnn = None if kind == "word" else draw(char_cnns(st.just(characters)))
    with_words = "word" in kind
    encoder = EncoderConfig(
        char_cnn=cnn,
        num_words=len(WORDS) + 5 if with_words else 0,
        word_dim=draw(st.integers(1, 6)) if with_words else 0,
        projected=draw(st.booleans()),
    )
    width = draw(st.integers(1, 8)) if encoder.projected else encoder.unprojected_dim
    clips = st.sampled_from([None, 0.05, 0.2, 3.0])
    lstm = LstmConfig(
        dim=width if draw(st.booleans()) else width + draw(st.integers(1, 6)),
        projection_dim=width,
        num_layers=draw(st.integers(1, 4)),
        cell_clip=draw(clips),
        proj_clip=draw(clips),
        skip_connections=draw(st.booleans()),
        forget_bias=draw(st.sampled_from([0.0, 1.0])),
    )
    return ElmoConfig(encoder=encoder, lstm=lstm, tokenizer="whitespace")


@st.composite
def models(draw: st.DrawFn, engines: tuple[str, ...] = ("auto",)) -> Elmo:
    """A model of any architecture with moderate random weights, biases included."""
    engine = draw(st.sampled_from(engines))
    return random_model(draw(configs()), draw(st.integers(0, 2**16)), engine=engine)


def random_model(config: ElmoConfig, seed: int = 0, **parts: Any) -> Elmo:
    """A model with the dictionaries that its configuration asks for."""
    cnn = config.encoder.char_cnn
    characters = words = None
    if cnn is not None and cnn.characters == "unicode":
        # Neither in the order of the file, nor from zero: ids are what the dictionary says.
        entries = [*LETTERS, *SPECIAL_CHARACTERS]
        characters = {entry: cnn.num_characters - 1 - i for i, entry in enumerate(entries)}
    if config.encoder.num_words:
        unknown = "<oov>" if characters else "<UNK>"
        bos, eos = ("<bos>", "<eos>") if characters else ("<S>", "</S>")
        words = {w: i + 1 for i, w in enumerate([*WORDS, unknown, bos, eos])}
    torch.manual_seed(seed)
    elmo = Elmo(config, characters=characters, words=words, **parts).eval()
    with torch.no_grad():
        for name, parameter in elmo.bilm.named_parameters():
            parameter.mul_(1.5)
            if name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return elmo


def tokens() -> st.SearchStrategy[str]:
    """Short tokens inside and outside the dictionaries; some longer than any limit."""
    spelled = st.text(LETTERS + "z<\u3042", max_size=14)
    return st.one_of(st.sampled_from([*WORDS, "<S>", "</S>", "<bos>", "<UNK>"]), spelled)


def batches() -> st.SearchStrategy[list[list[str]]]:
    """A few sentences of few tokens, some without any."""
    return st.lists(st.lists(tokens(), max_size=7), min_size=1, max_size=5)


def wild_tokens() -> st.SearchStrategy[str]:
    """Anything that Python calls a string: surrogates, blanks, emoji, ten thousand characters."""
    anything = st.text(st.characters(exclude_categories=()), max_size=60)
    odd = ["", " ", "\t\n", "\u3000", "\ud800", "a\udfffb", "👩‍👩‍👧‍👦", "🇰🇷", "\0", "e\u0301" * 5]
    long = st.sampled_from(["x", "한", "🙂", "e\u0301"]).map(lambda c: c * 10_000)
    return st.one_of(anything, st.sampled_from(odd), long)


def write_token_embeddings(path: Path, vectors: np.ndarray) -> None:
    """Write a cached token-embedding file, as bilm-tf does: one row per word of its vocabulary."""
    with h5py.File(path, "w") as file:
        file["embedding"] = np.ascontiguousarray(vectors, dtype=np.float32)
