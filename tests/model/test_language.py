"""An Elmo as a language model: scores, perplexity, substitutes."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, State
from strategies import (
    WORDS,
    assert_close,
    assert_refused,
    batches,
    configs,
    make_tiny,
    random_model,
    tiny_config,
)

from elmokit import Elmo
from elmokit.errors import ConfigError, InputError
from elmokit.text.ids import Vocab

VOCAB = Vocab(["<S>", "</S>", "<UNK>", *WORDS, "a", "b", "c", "d"])


def make_lm(seed: int = 0, vocab: Vocab = VOCAB, **changes: object) -> Elmo:
    changes = {"tokenizer": "whitespace", **changes}
    elmo = make_tiny(tiny_config(num_softmax_words=len(vocab), **changes), seed, vocab=vocab)
    with torch.no_grad():
        elmo.softmax.weight.mul_(3)
        elmo.softmax.bias.normal_()
    return elmo


class LmOracle(Oracle):
    """The softmax on top of the oracle, one word at a time."""

    def log_p(self, h: np.ndarray) -> np.ndarray:
        logits = self.tensors["softmax.weight"] @ h + self.tensors["softmax.bias"]
        return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())

    def top(self, words: list, state: State | None = None) -> tuple[np.ndarray, State]:
        layers, after = self.layers(np.stack([self.token(word) for word in words]), state)
        return layers[-1], after

    def score(
        self, tokens: list, state: State | None = None
    ) -> tuple[np.ndarray, np.ndarray, State]:
        bos, eos = self.boundaries()
        top, after = self.top([bos, *tokens, eos], state)
        targets = [VOCAB.id("<S>"), *map(VOCAB.id, tokens), VOCAB.id("</S>")]
        width = self.config.lstm.projection_dim
        n = len(tokens)
        forward = [self.log_p(top[k, :width])[targets[k + 1]] for k in range(n + 1)]
        backward = [self.log_p(top[k + 1, width:])[targets[k]] for k in range(n + 1)]
        return np.array(forward), np.array(backward), after


# -------------------------------------------------------------------------------- scores


@given(configs(), batches(), st.integers(0, 2**16), st.sampled_from(["auto", "torch"]))
@settings(max_examples=40)
def test_scores_are_those_of_the_equations(
    config: object, sentences: list, seed: int, engine: str
) -> None:
    config = replace(config, num_softmax_words=len(VOCAB))
    elmo = random_model(config, seed, vocab=VOCAB, engine=engine)
    oracle = LmOracle.of(elmo)
    for sentence, score in zip(sentences, elmo.score(sentences, batch_size=3), strict=True):
        # A boundary mark inside a sentence reads and counts as the boundary that it names.
        if {"<bos>", "<eos>"} & set(sentence):
            continue
        forward, backward, _ = oracle.score(sentence)
        assert_close(score.forward_tokens, forward)
        assert_close(score.backward_tokens, backward)
        assert score.forward == pytest.approx(forward.sum(), rel=1e-5)
        assert score.backward == pytest.approx(backward.sum(), rel=1e-5)
        assert score.num_tokens == len(sentence) + 1
        assert score.num_unknown == sum(w not in VOCAB or w == "<UNK>" for w in sentence)


def test_scores_are_those_of_the_plain_modules() -> None:
    elmo = make_lm()
    sentence = ["a", "zebra", "한글"]
    ids = elmo._embedder.ids(["<S>", *sentence, "</S>"])
    targets = torch.tensor([0, VOCAB.id("a"), 2, VOCAB.id("한글"), 1])
    with torch.no_grad():
        x = elmo.bilm.encoder(ids)[None]
        ahead, back = elmo.bilm(x, torch.tensor([5])).layers[-1, 0].chunk(2, dim=-1)
        forward = elmo.softmax(ahead[:-1]).gather(1, targets[1:, None]).sum().item()
        backward = elmo.softmax(back[1:]).gather(1, targets[:-1, None]).sum().item()
    score = elmo.score([sentence])[0]
    assert (score.forward, score.backward) == pytest.approx((forward, backward), rel=1e-5)
    assert score.num_unknown == 1


def test_probabilities_of_all_continuations_sum_to_one() -> None:
    # What the first word can be, and what the last one can be, is one of the vocabulary's rows.
    vocab = Vocab(["<UNK>", "a", "</S>", "b", "<S>"])
    elmo = make_lm(vocab=vocab)
    words = ["x", "a", "</S>", "b", "<S>"]
    scores = elmo.score([[word, "b"] for word in words])
    assert sum(math.exp(s.forward_tokens[0]) for s in scores) == pytest.approx(1, abs=1e-5)
    scores = elmo.score([["b", word] for word in words])
    assert sum(math.exp(s.backward_tokens[2]) for s in scores) == pytest.approx(1, abs=1e-5)


@given(batches(), st.integers(1, 6))
@settings(max_examples=20)
def test_neighbours_do_not_change_a_score(sentences: list, batch_size: int) -> None:
    elmo = make_lm()
    together = elmo.score(sentences, batch_size=batch_size)
    streamed = list(elmo.score_stream(sentences, batch_size=batch_size))
    for sentence, score, same in zip(sentences, together, streamed, strict=True):
        alone = elmo.score([sentence])[0]
        np.testing.assert_allclose(score.forward_tokens, alone.forward_tokens, atol=1e-5)
        np.testing.assert_allclose(score.backward_tokens, alone.backward_tokens, atol=1e-5)
        assert same.forward == pytest.approx(score.forward, abs=1e-4)


def test_scores_stream_without_reading_everything() -> None:
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield ["a", "b"]

    scores = make_lm().score_stream(endless(), batch_size=2)
    assert next(scores).num_tokens == 3
    assert read <= 16 * 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_of_weights_score_about_the_same(dtype: torch.dtype) -> None:
    expected = make_lm().score("a b zebra")
    got = make_lm().to(dtype).score("a b zebra")
    assert got.forward == pytest.approx(expected.forward, rel=1e-5 if dtype.itemsize > 4 else 0.05)


def test_a_single_text_has_a_single_score() -> None:
    elmo = make_lm()
    assert elmo.score("a b") == elmo.score([["a", "b"]])[0]
    assert elmo.score([]) == []


def test_empty_sentence_has_the_score_of_its_boundary() -> None:
    elmo = make_lm()
    score = elmo.score("")
    forward, backward, _ = LmOracle.of(elmo).score([])
    assert (score.num_tokens, score.num_unknown) == (1, 0)
    assert (score.forward, score.backward) == pytest.approx((forward[0], backward[0]), rel=1e-5)


def test_odd_words_have_finite_scores() -> None:
    elmo = make_lm()
    for word in ("x" * 10_000, "한" * 10_000, "👩‍👩‍👧‍👦", "\ud800", "<UNK>"):
        score = elmo.score([[word]])[0]
        assert score.num_unknown == 1 and math.isfinite(score.forward + score.backward)


def test_unknown_words_differ_as_context_only() -> None:
    elmo = make_lm()
    one, other = elmo.score([["zebra", "a"], ["yak", "a"]])
    assert one.forward_tokens[0] == pytest.approx(other.forward_tokens[0], abs=1e-5)
    assert abs(one.forward_tokens[1] - other.forward_tokens[1]) > 1e-3


def test_carried_state_goes_from_call_to_call() -> None:
    elmo = make_lm(state="carry")
    oracle, state = LmOracle.of(elmo), None
    for sentence in (["a", "b"], ["c"], [], ["d", "a"]):
        forward, backward, state = oracle.score(sentence, state)
        (score,) = elmo.score([sentence])
        assert_close(score.forward_tokens, forward)
        assert_close(score.backward_tokens, backward)


def test_carried_stream_takes_each_batch_as_a_call() -> None:
    sentences = [["a"], ["b", "c"], ["d"], ["a", "c", "d"], ["b"]]
    elmo, other = make_lm(state="carry"), make_lm(state="carry")
    streamed = list(elmo.score_stream(sentences, batch_size=2))
    called = [s for i in range(0, 5, 2) for s in other.score(sentences[i : i + 2])]
    assert [s.forward for s in streamed] == pytest.approx([s.forward for s in called], abs=1e-5)


def test_warm_state_starts_each_sentence() -> None:
    elmo = make_lm(state="warm")
    elmo.warm_up([["a", "b"], ["c"]])
    warm = State(elmo.warm_h[:, :, 0].numpy(), elmo.warm_c[:, :, 0].numpy())
    for sentence in (["a", "b"], ["a", "b"], ["c"]):
        forward, backward, _ = LmOracle.of(elmo).score(sentence, warm)
        (score,) = elmo.score([sentence])
        assert_close(score.forward_tokens, forward)
        assert_close(score.backward_tokens, backward)


# ---------------------------------------------------------------------------- perplexity


def test_perplexity_is_that_of_the_scores() -> None:
    elmo = make_lm()
    sentences = [["a", "b", "zebra"], ["c"], []]
    scores = elmo.score(sentences)
    forward = -sum(s.forward for s in scores) / 7
    backward = -sum(s.backward for s in scores) / 7
    got = elmo.perplexity(iter(sentences), batch_size=2)
    assert got[:3] == pytest.approx(
        (math.exp(forward), math.exp(backward), math.exp((forward + backward) / 2)), rel=1e-5
    )
    assert got.mean == pytest.approx(math.sqrt(got.forward * got.backward))
    assert (got.num_tokens, got.num_unknown) == (7, 1)


@pytest.mark.parametrize("num_lanes", [1, 2, 3])
@pytest.mark.parametrize("max_tokens", [1, 4, 8192])
def test_streams_are_read_step_by_step_with_carried_state(
    num_lanes: int, max_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmokit.model.language_model.MAX_BATCH_TOKENS", max_tokens)
    elmo = make_lm()
    sentences = [["a", "b", "zebra"], ["c"], ["d"], [], ["a", "c", "b", "d"], ["b", "b"], ["a"]]
    expected = streams_by_hand(LmOracle.of(elmo), sentences, num_lanes)
    got = elmo.perplexity(sentences, streams=num_lanes)
    assert got[:3] == pytest.approx(expected[:3], rel=1e-5)
    assert got.num_tokens == expected[3]


def streams_by_hand(oracle: LmOracle, sentences: list, num_lanes: int) -> tuple:
    """Perplexities and tokens; each lane one word at a time, whoever ends first takes the next."""
    sums = []
    width = oracle.config.lstm.projection_dim
    for direction in (0, 1):
        waiting = [["<S>", *s, "</S>"][:: -1 if direction else 1] for s in sentences]
        lanes: list = [[] for _ in range(num_lanes)]
        states: list = [None] * num_lanes
        terms: list = []
        while True:
            step = []
            for k in range(num_lanes):
                if len(lanes[k]) < 2 and waiting:
                    lanes[k] = waiting.pop(0)
                if len(lanes[k]) < 2:
                    break
                top, states[k] = oracle.top([lanes[k].pop(0)], states[k])
                half = top[0, width:] if direction else top[0, :width]
                step.append(oracle.log_p(half)[VOCAB.id(lanes[k][0])])
            if len(step) < num_lanes:
                break
            terms += step
        sums.append(-np.mean(terms))
    return math.exp(sums[0]), math.exp(sums[1]), math.exp(sum(sums) / 2), len(terms)


def test_streams_leave_the_carried_state_alone() -> None:
    elmo, other = make_lm(state="carry"), make_lm(state="carry")
    elmo.perplexity([["a", "b"], ["c"]], streams=2)
    assert elmo.score("a") == other.score("a")


def test_perplexity_of_the_reference_checkpoint(fixtures: Path) -> None:
    folder = fixtures / "tf-checkpoint"
    expected = json.loads((folder / "perplexity.json").read_text())
    elmo = Elmo.from_pretrained(folder, device="cpu", tokenizer="whitespace")
    lines = (folder / expected["heldout"]).read_text(encoding="utf-8").splitlines()
    got = elmo.perplexity(lines, streams=expected["batch_size"])
    assert got.mean == pytest.approx(expected["perplexity"], abs=1e-4)


def test_text_without_sentences_has_no_perplexity() -> None:
    elmo = make_lm()
    with pytest.raises(InputError, match="no sentence"):
        elmo.perplexity([])
    with pytest.raises(InputError, match="fewer streams"):
        elmo.perplexity([["a"], ["b"]], streams=3)
    with pytest.raises(ConfigError, match="streams=0"):
        elmo.perplexity([["a"]], streams=0)
    with pytest.raises(InputError, match="wrap"):
        elmo.perplexity("a b")


# --------------------------------------------------------------------------- substitutes


def test_substitutes_are_ranked_by_both_directions() -> None:
    elmo = make_lm()
    oracle = LmOracle.of(elmo)
    tokens = ["a", "zebra", "b", "c", "d"]
    width = elmo.config.lstm.projection_dim
    left, _ = oracle.top(["<S>", "a", "zebra"])
    right, _ = oracle.top(["c", "d", "</S>"])
    forward, backward = oracle.log_p(left[-1, :width]), oracle.log_p(right[0, width:])
    zipf = 1 / np.arange(1, len(VOCAB) + 1)
    joint = (np.exp(forward + backward) / zipf)[3:]
    joint /= joint.sum()
    found = elmo.substitutes(tokens, k=100, index=2)
    order = np.argsort(-joint)
    assert [s.word for s in found.best] == [VOCAB[int(i) + 3] for i in order]
    assert [s.rank for s in found.best] == list(range(1, len(joint) + 1))
    np.testing.assert_allclose([s.probability for s in found.best], joint[order], atol=1e-5)
    for s in found.best:
        row = VOCAB.id(s.word)
        assert (s.forward, s.backward) == pytest.approx((forward[row], backward[row]), rel=1e-4)
    assert found.original in found.best and found.original.word == "b"


def test_hidden_word_does_not_count() -> None:
    elmo = make_lm()
    hidden = [elmo.substitutes(f"a b [{word}] c d") for word in ("a", "d", "zebra", "x" * 99)]
    assert all(found.best == hidden[0].best for found in hidden)
    assert hidden[0].original.word == "a" and hidden[2].original is None


@pytest.mark.parametrize("place", [0, 1, 3, 4])
def test_every_word_of_the_context_counts(place: int) -> None:
    # A model that forgets its state gives the same whatever stands far away.
    elmo = make_lm()
    with torch.no_grad():
        elmo.softmax.weight.mul_(10)
    tokens = ["a", "b", "c", "d", "b"]
    other = [*tokens]
    other[place] = "한글"
    one, two = (elmo.substitutes(t, k=100, index=2).best for t in (tokens, other))
    one.sort(), two.sort()
    moved = [np.array([s[3:] for s in part]) for part in (one, two)]
    changed = np.abs(moved[0] - moved[1]).max(axis=0) > 1e-3
    assert changed.tolist() == [place < 2, place > 2]
    shares = [[s.probability for s in part] for part in (one, two)]
    assert shares[0] != pytest.approx(shares[1], rel=1e-3)


def test_substitutes_at_the_ends_of_a_sentence() -> None:
    elmo = make_lm()
    for text in ("[a]", "[a] b", "b [a]"):
        found = elmo.substitutes(text, k=2)
        assert len(found.best) == 2 and found.original.word == "a"


def test_substitutes_are_words() -> None:
    vocab = Vocab(["a", "<UNK>", "", "b", "<S>", "a", "</S>"])
    found = make_lm(vocab=vocab).substitutes("b [a]", k=10)
    assert sorted(s.word for s in found.best) == ["a", "b"]
    assert sum(s.probability for s in found.best) == pytest.approx(1)


def test_substitutes_do_not_move_the_carried_state() -> None:
    elmo, other = make_lm(state="carry"), make_lm(state="carry")
    elmo.score("a b"), other.score("a b")
    before = elmo.substitutes("a [b]")
    assert elmo.substitutes("a [b]") == before
    assert elmo.score("c") == other.score("c")
    elmo.reset_state()
    assert elmo.substitutes("a [b]") != before


@pytest.mark.parametrize(
    ("text", "index", "mention"),
    [
        ("no brackets", None, "exactly one word in brackets"),
        ("[two] [brackets]", None, "exactly one"),
        ("[two words]", None, "'two', 'words'"),
        (["a", "b"], None, "index="),
        (["a", "b"], 2, "0..1"),
        (["a", "b"], -1, "0..1"),
    ],
)
def test_unclear_place_is_refused(text: object, index: int | None, mention: str) -> None:
    with pytest.raises(InputError, match=mention):
        make_lm().substitutes(text, index=index)


def test_substitutes_refuse_a_wrong_number() -> None:
    with pytest.raises(ConfigError, match="k=0"):
        make_lm().substitutes("[a]", k=0)


# ------------------------------------------------------------------------ what is needed


def test_model_without_softmax_says_what_to_do(tiny: Elmo) -> None:
    calls = (
        lambda: tiny.score("a"),
        lambda: list(tiny.score_stream([["a"]])),
        lambda: tiny.perplexity([["a"]]),
        lambda: tiny.perplexity([["a"]], streams=1),
        lambda: tiny.substitutes("[a]"),
    )
    for call in calls:
        with pytest.raises(ConfigError, match=r"no softmax.*elmokit pretrain DIR --from MODEL"):
            call()


def test_softmax_without_its_words_is_refused() -> None:
    with pytest.raises(ConfigError, match="no vocabulary"):
        make_tiny(tiny_config(num_softmax_words=5)).score("a")
    with pytest.raises(ConfigError, match=r"13 words.* 5 rows"):
        make_tiny(tiny_config(num_softmax_words=5), vocab=VOCAB).score("a")


def test_batch_size_is_checked() -> None:
    with pytest.raises(ConfigError, match="batch_size=0"):
        make_lm().score("a", batch_size=0)


def test_saved_model_scores_the_same(tmp_path: Path) -> None:
    elmo = make_lm()
    elmo.save_pretrained(tmp_path / "lm")
    again = Elmo.from_pretrained(tmp_path / "lm", device="cpu")
    assert again.score("a b zebra") == elmo.score("a b zebra")


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ({"k": None}, "k=None"),
        ({"k": True}, "k=True"),
        ({"k": 2.5}, "k=2.5"),
        ({"k": np.array([1, 2])}, "k=array([1, 2])"),
        ({"k": 0}, "k=0"),
        ({"index": True}, "index=True"),
        ({"index": "1"}, "index='1'"),
        ({"index": np.array(1.0)}, "index=array(1.)"),
        ({"index": 10**5000}, "index=<a number of"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_numbers_that_are_none_are_refused(options: dict[str, Any], mention: str) -> None:
    elmo = make_tiny(tiny_config(num_softmax_words=len(VOCAB)), vocab=VOCAB)
    with pytest.raises((ConfigError, InputError)) as caught:
        elmo.substitutes(["the", "cat"], **({"index": 0} | options))
    assert mention in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    elmo = make_tiny(tiny_config(num_softmax_words=len(VOCAB)), vocab=VOCAB)
    found = elmo.substitutes(["the", "cat"], np.array(2), index=np.int64(1))  # type: ignore[arg-type]
    assert found == elmo.substitutes(["the", "cat"], 2, index=1)


def test_array_without_axes_is_no_list() -> None:
    elmo = make_tiny(tiny_config(num_softmax_words=len(VOCAB)), vocab=VOCAB)
    scalar: Any = np.array("a text")
    for call in (
        lambda: elmo.score(scalar),
        lambda: elmo.perplexity(scalar),
        lambda: elmo.substitutes(scalar, index=0),
        lambda: elmo.embed(scalar),
        lambda: elmo.embed([scalar]),
    ):
        assert_refused(call, "ndarray", "expected")
