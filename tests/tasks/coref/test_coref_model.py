"""The model learns, reads ELMo where it is told, and its parts equal naive versions of them."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from coref_data import STORIES, Setup, config, story, write_stories
from hypothesis import given, settings
from strategies import assert_refused, make_tiny
from task_data import assert_gradients_reach_the_mixes

from elmokit import Elmo
from elmokit.tasks.coref import CorefConfig
from elmokit.tasks.coref.document import bracketed, make_clusters
from elmokit.tasks.coref.model import (
    Antecedents,
    Mentions,
    antecedent_likelihood,
    length_groups,
    training_window,
)
from elmokit.tasks.coref.spans import (
    distance_buckets,
    head_weights,
    in_sentence,
    predecessors,
    prune,
    windows,
)
from elmokit.tasks.runs.load import load_task
from elmokit.tasks.runs.train import train_task

DOCUMENTS = [story(text, f"story-{i}") for i, text in enumerate(STORIES)]


@pytest.mark.parametrize("place", ["none", "both"])
def test_stories_are_learned_by_heart(place: str, tiny: Elmo) -> None:
    setup = Setup(config(place=place), tiny, DOCUMENTS)
    assert setup.score()["f1"] < 0.9
    setup.train()
    scores = setup.score()
    assert scores["f1"] == 1 and scores["metrics"]["mentions"]["f1"] == 1


def test_singletons_are_learned_by_heart_where_they_are_wanted(tiny: Elmo) -> None:
    texts = ["(1 Anna 1) met (2 the dog 2) . (1 She 1) ran .", "(1 Bob 1) sings .", *STORIES]
    documents = [story(text) for text in texts]
    setup = Setup(config(singletons=True), tiny, documents)
    setup.train()
    assert setup.score()["f1"] == 1
    (found,) = setup.model.predict([documents[1]], setup.read)
    assert found == [((0, 1),)]


@pytest.mark.parametrize("place", ["none", "input", "output", "both"])
def test_gradients_reach_the_mixes_alone(place: str, tiny: Elmo) -> None:
    setup = Setup(config(place=place), tiny, DOCUMENTS)
    before = {n: p.clone() for n, p in tiny.named_parameters()}
    setup.model.train()
    setup.model.loss(DOCUMENTS, setup.read).backward()
    assert_gradients_reach_the_mixes(setup.model, place, tiny)
    for name, parameter in tiny.named_parameters():
        assert parameter.grad is None and torch.equal(parameter, before[name])


def test_batch_is_the_mean_of_its_documents(tiny: Elmo) -> None:
    setup = Setup(config(), tiny, DOCUMENTS)
    setup.model.eval()
    with torch.no_grad():
        together = setup.model.loss(DOCUMENTS, setup.read)
        alone = [setup.model.loss([document], setup.read) for document in DOCUMENTS]
    torch.testing.assert_close(together, torch.stack(alone).mean())


@pytest.mark.parametrize("text", ["(1 Go 1)", ". . .", "a b c d e f g h (1 i 1) . (1 j 1) ."])
def test_odd_documents_have_a_loss_and_an_answer(text: str, tiny: Elmo) -> None:
    for singletons in (False, True):
        setup = Setup(config(singletons=singletons), tiny, DOCUMENTS)
        document = story(text)
        loss = setup.model.loss([document], setup.read)
        loss.backward()
        assert torch.isfinite(loss)
        grads = [p.grad for p in setup.model.parameters() if p.grad is not None]
        assert all(torch.isfinite(grad).all() for grad in grads)
        (clusters,) = setup.model.predict([document], setup.read)
        spans = [span for cluster in clusters for span in cluster]
        assert len(spans) == len(set(spans))


def test_a_sentence_scores_the_same_in_any_document(tiny: Elmo) -> None:
    setup = Setup(config(), tiny, DOCUMENTS)
    setup.model.eval()
    long = [["so"] * 9, ["no"], *DOCUMENTS[1].sentences, ["and"] * 5]

    def scores(sentences: list[Sequence[str]]) -> torch.Tensor:
        spans, is_span = setup.model.score_spans(sentences, setup.read)
        assert len(is_span) == sum(map(len, sentences))
        return spans.scores[is_span]

    with torch.no_grad():
        alone = torch.cat([scores([sentence]) for sentence in long])
        torch.testing.assert_close(scores(long), alone, atol=1e-5, rtol=1e-4)


def test_sentences_are_grouped_by_length() -> None:
    assert length_groups([5, 1, 9, 10, 1, 3, 20]) == [[1, 4], [5, 0], [2, 3], [6]]
    assert length_groups([7]) == [[0]]


def test_long_documents_are_learned_in_windows() -> None:
    document = DOCUMENTS[3]
    ends = [0, *accumulate(map(len, document.sentences))]
    seen = set()
    torch.manual_seed(0)
    for _ in range(60):
        window = training_window(document, 8)
        first = document.sentences.index(window.sentences[0])
        end = first + len(window.sentences)
        assert window == document.window(first, end)
        # It is as long as it can be.
        assert ends[end] - ends[first] <= 8
        assert end == 4 or ends[end + 1] - ends[first] > 8
        seen.add(first)
    assert seen == {0, 1, 2}
    short = {training_window(document, 1).sentences for _ in range(40)}
    assert short == {(sentence,) for sentence in document.sentences}
    assert training_window(document, ends[-1]) == document


def test_spans_stay_in_their_sentences() -> None:
    found = in_sentence(torch.tensor([1, 4, 2]), 3)
    owner = [0, 1, 1, 1, 1, 2, 2]
    for start in range(7):
        for width in range(3):
            last = start + width
            assert found[start, width] == (last < 7 and owner[last] == owner[start])
    assert found.sum() == 1 + (4 + 3 + 2) + (2 + 1)


def test_windows_and_predecessors() -> None:
    x = torch.arange(1.0, 9.0).view(4, 2)
    assert windows(x, 3)[2].tolist() == [[5, 6], [7, 8], [0, 0]]
    assert windows(x[:, 0], 2).tolist() == [[1, 3], [3, 5], [5, 7], [7, 0]]
    assert predecessors(x[:, 0], 3).tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 3], [1, 3, 5]]


def test_head_attention_and_mention_scores_equal_a_loop() -> None:
    torch.manual_seed(0)
    settings = config()
    mentions = Mentions(settings, input_dim=5, state_dim=6).eval().double()
    x, states = torch.randn(7, 5).double(), 3 * torch.randn(7, 6).double()
    with torch.no_grad():
        spans = mentions(x, states)
        raw = mentions.head(states)
        kept = [(t, w) for t in range(7) for w in range(3) if t + w < 7]
        g = spans.represent(kept)
        for row, (start, width) in enumerate(kept):
            inside = slice(start, start + width + 1)
            weights = raw[inside].exp() / raw[inside].exp().sum()
            head = sum(a * x_t for a, x_t in zip(weights, x[inside], strict=True))
            parts = [states[start], states[start + width], head, mentions.width.weight[width]]
            expected = torch.cat(parts)
            torch.testing.assert_close(g[row], expected)
            torch.testing.assert_close(spans.scores[start, width], mentions.score(expected))


def test_head_attention_survives_large_scores() -> None:
    weights = head_weights(torch.tensor([0.0, 5000.0, -5000.0, 0.0]), 3)
    assert torch.isfinite(weights).all()
    assert weights[0].tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]


@st.composite
def grids(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    num_tokens, width = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    lengths = []
    while sum(lengths) < num_tokens:
        lengths.append(min(draw(st.integers(1, 5)), num_tokens - sum(lengths)))
    is_span = in_sentence(torch.tensor(lengths), width).numpy()
    scores = rng.permutation(num_tokens * width).reshape(num_tokens, width).astype(np.float32)
    return scores, is_span, draw(st.integers(1, 12))


def crosses(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two sets of tokens overlap without one holding the other."""
    one, other = (set(range(start, start + width + 1)) for start, width in (a, b))
    return bool(one & other) and not (one <= other or other <= one)


@given(grids())
def test_pruning_equals_brute_force(grid: tuple[np.ndarray, np.ndarray, int]) -> None:
    scores, is_span, limit = grid
    places = [(int(t), int(w)) for t, w in np.argwhere(is_span)]
    expected: list[tuple[int, int]] = []
    for place in sorted(places, key=lambda p: -scores[p]):
        if len(expected) < limit and not any(crosses(place, other) for other in expected):
            expected.append(place)
    kept = prune(scores, is_span, limit)
    assert kept == sorted(expected) and len(kept) <= limit


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 99))
def test_likelihood_equals_enumeration(num: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = max(1, min(most, num - 1))
    scores = torch.tensor(rng.normal(size=(num, most + 1)))
    ids = rng.integers(0, 3, num)
    expected = []
    for i in range(num):
        scores[i, 0] = 0
        all_, right = [(0.0, None)], []
        for k in range(most):
            j = i - most + k
            if j < 0:
                scores[i, k + 1] = -torch.inf
            else:
                all_.append((scores[i, k + 1].item(), j))
        right = [s for s, j in all_ if j is not None and ids[i] and ids[j] == ids[i]] or [0.0]
        total = sum(np.exp(s) for s, _ in all_)
        expected.append(np.log(sum(np.exp(s) for s in right) / total))
    found = antecedent_likelihood(scores, torch.tensor(ids))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("num", "most", "block"), [(1, 5, 99), (6, 3, 20), (6, 20, 1 << 22)])
def test_pair_scores_equal_a_loop(
    num: int, most: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmokit.tasks.coref.spans.PRODUCT_VALUES", block)
    torch.manual_seed(0)
    model = Antecedents(config(max_antecedents=most), span_dim=5).double().eval()
    g, scores = torch.randn(num, 5).double(), torch.randn(num).double()
    g.requires_grad_()
    found = model(g, scores)
    used = max(1, min(most, num - 1))
    assert found.shape == (num, used + 1)
    rows = []
    for i in range(num):
        row = [torch.zeros(()).double()]
        for j in range(i - used, i):
            if j < 0:
                row.append(torch.tensor(-torch.inf).double())
                continue
            bucket = distance_buckets(torch.tensor([i - j]))[0]
            pair = torch.cat([g[i], g[j], g[i] * g[j], model.distance.weight[bucket]])
            row.append(scores[i] + scores[j] + model.score(pair))
        rows.append(torch.stack(row))
    expected = torch.stack(rows)
    torch.testing.assert_close(found, expected)
    if num == 1:
        return
    chance = torch.randn(found.shape).double()
    parameters = [g, *model.parameters()]
    losses = (torch.where(t.isinf(), 0.0, t) * chance for t in (found, expected))
    first, second = (torch.autograd.grad(loss.sum(), parameters) for loss in losses)
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other)


def test_distance_buckets() -> None:
    distances = torch.tensor([1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 900])
    assert distance_buckets(distances).tolist() == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]


def test_links_make_clusters() -> None:
    spans = [(0, 1), (2, 3), (2, 5), (6, 7), (8, 9), (9, 10)]
    links = [None, None, 0, 2, 1, None]
    expected = [((0, 1), (2, 5), (6, 7)), ((2, 3), (8, 9))]
    assert make_clusters(spans, links) == expected
    alone = [True, True, True, True, True, False]
    assert make_clusters(spans, links, alone) == expected
    assert make_clusters(spans, links, [True] * 6) == [*expected, ((9, 10),)]
    assert make_clusters([], []) == []


def test_brackets_nest() -> None:
    sentences = [["the", "king", "of", "Rome"], ["he", "."]]
    clusters = [((0, 2), (4, 5)), ((0, 4),), ((3, 4),), ((0, 1),)]
    assert bracketed(sentences, clusters) == ["[[[the]4 king]1 of [Rome]3]2", "[he]1 ."]


def test_run_folder_scores_and_predicts_as_trained(tmp_path: Path) -> None:
    make_tiny().save_pretrained(tmp_path / "bilm")
    data = write_stories(tmp_path / "stories.conll")
    short = config({"epochs": 3, "batch_size": 1})
    out = tmp_path / "run"
    summary = train_task("coref", data, data, tmp_path / "bilm", out, short, device="cpu")
    trained = load_task(tmp_path / "run", device="cpu")
    metrics = trained.evaluate(data)
    assert metrics.pop("examples") == 4
    assert metrics == summary["seeds"][0]["dev"]
    (_, nothing), (example, clusters) = trained.predict_texts(["", "Anna met Bob. She likes him."])
    assert nothing is None and example.sentences == DOCUMENTS[0].sentences
    assert trained.predict([DOCUMENTS[0]]) == [clusters]


def test_settings_are_checked() -> None:
    assert_refused(lambda: CorefConfig(max_width=0), "max_width=0")
    assert_refused(lambda: CorefConfig(spans_per_token=0), "spans_per_token=0")
    assert_refused(lambda: CorefConfig(dropout=1), "dropout=1")
    assert_refused(lambda: CorefConfig(mention_loss=-1), "mention_loss=-1")
    assert_refused(lambda: CorefConfig(mention_loss=0, singletons=True), "mention_loss")
    assert CorefConfig().override("max_antecedents=250").max_antecedents == 250
