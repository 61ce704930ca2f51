"""Texts of several sentences: each is read on its own, and the text keeps its one entry."""

import logging
import math
from typing import Any

import numpy as np
import pytest
from strategies import assert_refused, make_tiny, tiny_config

from elmokit import Elmo
from elmokit.text.ids import Vocab
from elmokit.text.reader import Reader

ENGLISH = ("He left. The others stayed.", ["He left.", "The others stayed."])
KOREAN = (
    "오늘은 날씨가 좋았다 그래서 공원에 갔다",  # Kiwi needs no punctuation
    ["오늘은 날씨가 좋았다", "그래서 공원에 갔다"],
)


def make(tokenizer: str = "regex", **settings: Any) -> Elmo:
    vocab = Vocab(["<S>", "</S>", "<UNK>", "He", "left", "공원"])
    config = tiny_config(num_softmax_words=len(vocab), tokenizer=tokenizer, **settings)
    return make_tiny(config, vocab=vocab)


CASES = pytest.mark.parametrize(
    ("tokenizer", "text", "parts"), [("regex", *ENGLISH), ("kiwi", *KOREAN)]
)


@CASES
def test_a_split_text_has_the_vectors_of_its_sentences(
    tokenizer: str, text: str, parts: list[str]
) -> None:
    elmo = make(tokenizer)
    for layers, axis in (("top", 0), ("all", 1)):
        expected = np.concatenate(elmo.embed(parts, layers=layers), axis=axis)
        got = elmo.embed(text, layers=layers, sentences="split")
        np.testing.assert_allclose(got, expected, atol=1e-6)
        streamed = [*elmo.embed_stream(["", text, parts], layers=layers, sentences="split")]
        np.testing.assert_allclose(streamed[1], expected, atol=1e-6)
        assert streamed[0].shape[axis] == 0
        assert streamed[2].shape[axis] == 2  # tokens that are given stay one sentence
    whole = elmo.embed(text, sentences="lines")
    joined = elmo.embed(text, sentences="split")
    assert whole.shape != joined.shape or np.abs(whole - joined).max() > 1e-4


@CASES
def test_a_sentence_vector_is_pooled_over_all_tokens(
    tokenizer: str, text: str, parts: list[str]
) -> None:
    elmo = make(tokenizer)
    expected = np.concatenate(elmo.embed(parts, layers="top")).mean(axis=0)
    found = elmo.encode(text, layers="top", sentences="split")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    (encoded,) = elmo.encode([text], layers="top", sentences="split")
    np.testing.assert_allclose(encoded, expected, atol=1e-6)


@CASES
def test_the_score_of_a_split_text_is_the_sum(tokenizer: str, text: str, parts: list[str]) -> None:
    elmo = make(tokenizer)
    scores = elmo.score(parts)
    got = elmo.score(text, sentences="split")
    for name in ("forward", "backward", "num_tokens", "num_unknown", "num_characters"):
        total = sum(getattr(score, name) for score in scores)
        assert getattr(got, name) == pytest.approx(total, rel=1e-5)
    assert len(got.forward_tokens) == got.num_tokens
    expected = elmo.perplexity(parts)
    assert elmo.perplexity([text], sentences="split")[:5] == pytest.approx(expected[:5], rel=1e-5)
    assert elmo.perplexity([text], sentences="split").mean != pytest.approx(
        elmo.perplexity([text], sentences="lines").mean, rel=1e-5
    )


@CASES
def test_annotated_tokens_have_their_place_in_the_whole_text(
    tokenizer: str, text: str, parts: list[str]
) -> None:
    sentence = make(tokenizer).annotate(f"  {text}", sentences="split")
    assert sentence.offsets is not None and len(sentence) == len(sentence.offsets)
    if tokenizer == "regex":
        found = [f"  {text}"[start:end] for start, end in sentence.offsets]
        assert found == list(sentence.tokens)
    assert sentence.offsets[-1][1] == len(text) + 2


def test_offsets_are_those_of_the_text_as_given() -> None:
    text = "Cafe\u0301 noir. The e\u0301clair."  # NFC makes each pair one character
    first, second = Reader("regex").spans_of_sentences(text, "split")
    assert [text[t.start : t.end] for t in second] == ["The", "e\u0301clair", "."]
    assert [t.text for t in first] == ["Café", "noir", "."]


def test_what_looks_like_several_sentences_is_mentioned_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for text, _ in (ENGLISH, ("그는 갔다. 그녀는 남았다.", [])):
        elmo = make()
        with caplog.at_level(logging.WARNING, "elmokit"):
            elmo.embed(["He left.", "Dr. Kim left."])
            elmo.embed([text], sentences="lines")
            elmo.embed([text], sentences="split")
            elmo.embed([text.split()])
            assert not caplog.records
            elmo.encode([text])
            elmo.embed(text)
        (record,) = caplog.records
        assert "looks like 2 sentences" in record.message and "sentences='split'" in record.message
        caplog.clear()


def test_values_that_cannot_work() -> None:
    elmo = make()
    assert_refused(lambda: elmo.embed("a", sentences="wrapped"), "its own entry", "'split'")  # type: ignore[call-overload]
    assert_refused(lambda: elmo.encode("a", sentences="words"), "'lines', 'split' or 'auto'")  # type: ignore[arg-type]
    carried = make(state="carry")
    assert_refused(lambda: carried.embed("A b. C d.", sentences="split"), "state='carry'")


def test_auto_keeps_texts_of_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    elmo = make()
    texts = [*("He left." for _ in range(9)), ENGLISH[0]]
    kept = elmo.embed(texts, sentences="auto")[-1]
    np.testing.assert_allclose(kept, elmo.embed(ENGLISH[0], sentences="lines"), atol=1e-6)
    wrapped = [
        "a sentence that runs over the ends of all these",
        "lines. And so it goes on for",
    ] * 20
    elmo.embed(wrapped, sentences="auto")
    assert "run over the ends of lines" in caplog.text


def test_bits_per_character_of_a_text() -> None:
    elmo = make("whitespace")
    perplexity = elmo.perplexity([["He", "left"], ["He", "선물"]])
    scores = elmo.score([["He", "left"], ["He", "선물"]])
    characters = 3 + 5 + 3 + 3
    for direction in ("forward", "backward"):
        log_p = sum(getattr(score, direction) for score in scores)
        bits = -log_p / math.log(2) + 8 * (6 + 1)
        got = getattr(perplexity.bits_per_character, direction)
        assert got == pytest.approx(bits / characters)
    found = perplexity.bits_per_character
    assert found.mean == pytest.approx((found.forward + found.backward) / 2)
    assert all(map(math.isnan, elmo.perplexity([[]]).bits_per_character))


def test_bits_per_character_in_one_lane_are_those_of_a_text() -> None:
    elmo = make("whitespace", state="carry")
    texts = [["He", "left"], ["He", "선물", "left"]]
    elmo.reset_state()
    streams = elmo.perplexity(texts, streams=1)
    assert streams.num_unknown == 1
    nats = math.log(streams.forward) * streams.num_tokens
    bits = nats / math.log(2) + 8 * 7
    assert streams.bits_per_character.forward == pytest.approx(bits / (3 + 5 + 3 + 3 + 5))


def test_many_unknown_words_are_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    elmo = make("whitespace")
    elmo.perplexity([["He", "left"], ["He", "선물", "left"]])
    assert "outside" not in caplog.text
    elmo.perplexity([["그", "선물"]])
    assert "67% of the tokens are outside" in caplog.text


def test_a_vocabulary_has_a_fingerprint_of_its_words() -> None:
    first, same = (Vocab(["<S>", "</S>", "<UNK>", "선물"]) for _ in range(2))
    other = Vocab(["<S>", "</S>", "선물", "<UNK>"])
    assert first.fingerprint == same.fingerprint != other.fingerprint
