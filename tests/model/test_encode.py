"""Vectors of sentences."""

import numpy as np
import pytest
from strategies import make_tiny, tiny_config

from elmokit.errors import ConfigError, InputError

TINY = make_tiny()
SENTENCES = [["The", "cat", "sat"], ["word"], ["a", "b", "c", "d", "e"]]


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [
        ("mean", lambda v: v.mean(axis=0)),
        ("max", lambda v: v.max(axis=0)),
        ("first", lambda v: v[0]),
        ("last", lambda v: v[-1]),
        (["mean"], lambda v: v.mean(axis=0)),
        (("mean", "max", "last"), lambda v: np.concatenate([v.mean(0), v.max(0), v[-1]])),
    ],
)
@pytest.mark.parametrize("layers", ["average", "top", 1, "mix"])
def test_pooling_pools_the_vectors_of_embed(pooling, pool, layers) -> None:
    got = TINY.encode(SENTENCES, pooling=pooling, layers=layers)
    expected = np.stack([pool(v) for v in TINY.embed(SENTENCES, layers=layers)])
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_sentences_are_read_from_the_layer_that_compares_them_best() -> None:
    np.testing.assert_array_equal(TINY.encode(SENTENCES), TINY.encode(SENTENCES, layers=0))


def test_normalised_vectors_have_length_one() -> None:
    plain, normal = TINY.encode(SENTENCES), TINY.encode(SENTENCES, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1, atol=1e-6)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(normal * lengths, plain, atol=1e-6)


def test_text_gives_one_vector_and_nothing_none() -> None:
    assert TINY.encode("A short text.").shape == (32,)
    assert TINY.encode(["A short text."]).shape == (1, 32)
    assert TINY.encode([]).shape == (0, 32)
    assert TINY.encode([], pooling=("mean", "max")).shape == (0, 64)
    assert TINY.encode([], normalize_embeddings=True).shape == (0, 32)


@pytest.mark.parametrize(("inputs", "number"), [("", 0), ([[]], 0), (["a b", " ", ""], 1)])
def test_sentence_without_tokens_is_refused_with_its_number(inputs, number: int) -> None:
    with pytest.raises(InputError, match=f"sentence {number} is empty"):
        TINY.encode(inputs)


@pytest.mark.parametrize("normalize", [False, True])
def test_empty_sentences_become_zeros_or_nan_if_asked(normalize: bool) -> None:
    texts = ["The cat", "", "한국어", " \t"]
    full = TINY.encode([texts[0], texts[2]], normalize_embeddings=normalize)
    for empty, fill in (("zero", 0.0), ("nan", np.nan)):
        got = TINY.encode(texts, empty=empty, normalize_embeddings=normalize)
        np.testing.assert_allclose(got[[0, 2]], full, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(got[[1, 3]], np.full((2, 32), fill, np.float32))
    assert np.isnan(TINY.encode("", empty="nan", pooling=("mean", "max"))).sum() == 64


def test_refused_sentences_do_not_move_a_carried_state() -> None:
    elmo, fresh = (make_tiny(tiny_config(state="carry")) for _ in range(2))
    with pytest.raises(InputError):
        elmo.encode([["a"], []])
    np.testing.assert_array_equal(
        elmo.encode([["a"]], layers="top"), fresh.encode([["a"]], layers="top")
    )


def test_options_without_meaning_are_refused() -> None:
    with pytest.raises(ConfigError, match="layers='all'"):
        TINY.encode(["a b"], layers="all")
    with pytest.raises(ConfigError, match="pooling='median'"):
        TINY.encode(["a b"], pooling="median")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="empty='skip': expected one of 'raise', 'zero', 'nan'"):
        TINY.encode(["a b"], empty="skip")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least one"):
        TINY.encode(["a b"], pooling=())


def test_similarity_is_the_cosine_of_each_pair() -> None:
    a, b = TINY.encode(SENTENCES), TINY.encode(SENTENCES[:2])
    got = TINY.similarity(a, b)
    expected = [
        [x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) for y in b.astype(float)]
        for x in a.astype(float)
    ]
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(np.diag(TINY.similarity(a, a)), 1, atol=1e-6)
    assert TINY.similarity(a[0], b).shape == (1, 2)
    assert TINY.similarity(np.zeros((0, 32), np.float32), b).shape == (0, 2)
    assert not TINY.similarity(np.zeros((1, 32), np.float32), b).any()


@pytest.mark.parametrize(
    "texts", ["a text", ["two", "texts"], [["tokens"]], None, TINY.embed(["a b", "c"])]
)
def test_similarity_of_texts_says_how_to_encode_them(texts: object) -> None:
    with pytest.raises(InputError, match=r"elmo\.similarity\(elmo\.encode\(a\)"):
        TINY.similarity(texts, TINY.encode(SENTENCES))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="b is "):
        TINY.similarity(TINY.encode(SENTENCES), texts)  # type: ignore[arg-type]


def test_similarity_of_vectors_of_two_widths_is_refused() -> None:
    with pytest.raises(InputError, match="a has 32 values per vector and b 64"):
        TINY.similarity(TINY.encode(["a"]), TINY.encode(["a"], pooling=("mean", "max")))
