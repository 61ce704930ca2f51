"""The nearest occurrences of a word, against a brute-force search."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_refused, make_tiny, tiny_config

from elmokit import Elmo
from elmokit.search import Match, nearest
from elmokit.tables import width_of
from elmokit.text.reader import Reader, parse_marked

CORPUS = [
    "He gave her a gift .",
    "",
    "A Gift for the music of the river .",
    "The bank of the river was wet .",
    "She has a gift for music .",
    "Nobody opened the gift , the gift of the bank .",
    "한국어 문장 에도 gift 가 있다 .",
]
QUERY = "She has a [gift] for music ."


def brute_force(elmo: Elmo, corpus: list[str], layer: str | int) -> list[tuple[float, int, int]]:
    target = elmo.embed(QUERY.replace("[", "").replace("]", ""), layers=layer)[3]
    found = []
    for i, vectors in enumerate(elmo.embed(corpus, layers=layer)):
        for j, v in enumerate(vectors):
            cosine = v @ target / np.linalg.norm(v) / np.linalg.norm(target)
            found.append((float(cosine), i, j))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("layer", ["top", "average", "mix", 0, 1])
def test_matches_are_those_of_brute_force(tiny: Elmo, layer: str | int) -> None:
    matches = nearest(tiny, CORPUS, QUERY, k=8, layer=layer)
    expected = brute_force(tiny, CORPUS, layer)[:8]
    np.testing.assert_allclose([m.score for m in matches], [s for s, _, _ in expected], atol=1e-5)
    if layer != 0:  # where equal words have equal vectors, all in one rank
        assert [(m.index, m.position) for m in matches] == [(i, j) for _, i, j in expected]
    for match in matches:
        assert match.tokens == CORPUS[match.index].split()


def test_equal_sentence_is_found_with_cosine_one(tiny: Elmo) -> None:
    (match,) = nearest(tiny, CORPUS, QUERY, k=1)
    assert (match.index, match.position) == (4, 3)
    assert match.score == pytest.approx(1, abs=1e-5)
    assert match.marked() == "She has a [gift] for music ."


def test_same_word_in_any_case(tiny: Elmo) -> None:
    matches = nearest(tiny, CORPUS, QUERY, k=99, same_word=True)
    assert {(m.index, m.position) for m in matches} == {
        (0, 4),
        (2, 1),
        (4, 3),
        (5, 3),
        (5, 6),
        (6, 3),
    }
    every = nearest(tiny, CORPUS, QUERY, k=99)
    kept = [m for m in every if m.tokens[m.position].casefold() == "gift"]
    np.testing.assert_allclose([m.score for m in matches], [m.score for m in kept], atol=1e-5)


def test_ties_go_to_the_first_occurrence(tiny: Elmo) -> None:
    matches = nearest(tiny, ["A gift ."] * 5, "a [gift] .", k=3, same_word=True)
    assert [m.index for m in matches] == [0, 1, 2]
    scores = [m.score for m in matches]
    assert scores == sorted(scores, reverse=True)


def test_windows_do_not_change_the_result(tiny: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = nearest(tiny, CORPUS, QUERY, k=20)
    monkeypatch.setattr("elmokit.model.execution.WINDOW_TOKENS", 8)
    got = nearest(tiny, CORPUS, QUERY, k=20, batch_size=2)
    assert [(m.index, m.position) for m in got] == [(m.index, m.position) for m in expected]


def test_corpus_is_read_as_a_stream(tiny: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.model.execution.WINDOW_SENTENCES", 3)
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        for read in itertools.count():
            if read == 10:
                raise RuntimeError("stop here")
            yield CORPUS[0]

    with pytest.raises(RuntimeError, match="stop here"):
        nearest(tiny, endless(), QUERY)
    assert read == 10


def test_tokens_instead_of_texts(tiny: Elmo) -> None:
    got = nearest(tiny, [line.split() for line in CORPUS], QUERY, k=3)
    assert got == nearest(tiny, CORPUS, QUERY, k=3)
    assert isinstance(got[0], Match)


def test_a_match_has_the_text_as_it_was_written(tiny: Elmo) -> None:
    text = "  She didn't  have a GIFT\tfor “music”…"
    (match,) = nearest(tiny, [text], "a [gift]", k=1, same_word=True)
    assert match.text == text and text[match.start : match.end] == "GIFT"
    assert match.marked() == "  She didn't  have a [GIFT] for “music”…"


def test_a_korean_match_shows_eojeol_with_their_particles() -> None:
    pytest.importorskip("kiwipiepy")
    elmo = make_tiny(tiny_config(tokenizer="kiwi"))
    text = "그는 배를 타고 여행을 갔다."
    (match,) = nearest(elmo, [text], "[배]가 고프다", k=1, same_word=True)
    assert match.marked() == "그는 [배]를 타고 여행을 갔다."
    assert match.tokens[match.position] == text[match.start : match.end] == "배"


def test_tokens_that_are_not_in_the_text_are_shown_as_they_are() -> None:
    elmo = make_tiny()
    elmo.reader = Reader(lambda text: text.upper().split())
    (match,) = nearest(elmo, [["A", "gift"], "she gave a Gift"], "THE [GIFT]", k=1, same_word=True)
    assert match.text[match.start : match.end].upper() == "GIFT"
    matches = nearest(elmo, ["she gave a gift"], "[THE]", k=9)
    assert {match.text for match in matches} == {"SHE GAVE A GIFT"}


def test_a_morpheme_without_characters_is_shown_by_its_eojeol() -> None:
    match = Match(1.0, 0, 2, ["여기", "바다", "이", "다"], "여기 바다다 .", 5, 5)
    assert match.marked() == "여기 [바다다] ."


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("one two three four five six seven", 80, "one two three [four] five six seven"),
        ("one two three four five six seven", 25, "… three [four] five …"),
        ("one two three four five six seven", 6, "[four]"),
        ("수많은 사람 한국어 four 한국어 사람 수많은", 26, "… 한국어 [four] 한국어 …"),
        ("abcdefghijklfourmnopqrstuvwx", 20, "…hijkl[four]mnopq…"),
    ],
)
def test_context_is_cut_to_a_width_around_the_word(text: str, width: int, shown: str) -> None:
    start = text.index("four")
    match = Match(1.0, 0, 0, [], text, start, start + 4)
    line = match.in_context(width)
    assert line.strip() == shown and width_of(line) <= max(width, 6)


@given(
    st.text(max_size=30), st.text(min_size=1, max_size=5), st.text(max_size=30), st.integers(0, 90)
)
def test_contexts_of_any_text_fit_and_line_up(
    before: str, word: str, after: str, width: int
) -> None:
    match = Match(1.0, 0, 0, [], before + word + after, len(before), len(before) + len(word))
    line, room = match.in_context(width), max(width, match.mark_width())
    assert width_of(line) <= room
    assert line.isprintable() or not (before + word + after).isprintable()
    left, mark, _ = line.partition("[") if "[" not in before else ("", "", "")
    assert not mark or width_of(left) == max(0, (width - match.mark_width()) // 2)


@pytest.mark.parametrize(
    ("query", "tokens", "position"),
    [
        ("He has a [gift] for music", ["He", "has", "a", "gift", "for", "music"], 3),
        ("the gift of a [gift]", ["the", "gift", "of", "a", "gift"], 4),
        ("[ gift ]!", ["gift", "!"], 0),
        ("I do[n't].", ["I", "do", "n't", "."], 2),
        ("cafe\u0301 [cafe\u0301]", ["café", "café"], 1),
        ("그 [눈]", ["그", "눈"], 1),
    ],
)
def test_query_is_found_by_its_place(
    tiny: Elmo, query: str, tokens: list[str], position: int
) -> None:
    assert parse_marked(tiny.reader, query) == (tokens, position)


@pytest.mark.parametrize(
    ("query", "mention"),
    [
        ("no bracket", "exactly one"),
        ("", "exactly one"),
        ("[one] and [two]", "exactly one"),
        ("[[gift]]", "exactly one"),
        ("]gift[", "exactly one"),
        ("a [gift", "exactly one"),
        ("a [] b", "no word"),
        ("a [ ] b", "no word"),
        ("[New York] is big", "2 tokens ('New', 'York')"),
        ("[don't] go", "2 tokens ('do', \"n't\")"),
        ("[gif]t", "part of the token 'gift'"),
        ("gif[t] a", "part of the token 'gift'"),
    ],
)
def test_bad_queries(tiny: Elmo, query: str, mention: str) -> None:
    assert_refused(lambda: nearest(tiny, CORPUS, query), mention)


def test_bad_arguments(tiny: Elmo) -> None:
    assert_refused(lambda: nearest(tiny, CORPUS, QUERY, k=0), "k=0")
    assert_refused(lambda: nearest(tiny, CORPUS, QUERY, layer="all"), "layer='all'")
    assert_refused(lambda: nearest(tiny, CORPUS, QUERY, layer=9), "0..2")
    assert_refused(lambda: nearest(tiny, [], QUERY), "empty")
    assert_refused(lambda: nearest(tiny, ["", " "], QUERY, same_word=True), "empty")
    assert_refused(lambda: nearest(tiny, "one text", QUERY), "[text]")
    assert_refused(lambda: nearest(tiny, {"text": CORPUS}, QUERY), "dict['text']")
    assert nearest(tiny, ["nothing"], QUERY, same_word=True) == []


def test_layers_are_counted_from_either_end(tiny: Elmo) -> None:
    expected = nearest(tiny, CORPUS, QUERY, k=3, layer="top")
    for layer in (-1, "-1", 2, "2"):
        assert nearest(tiny, CORPUS, QUERY, k=3, layer=layer) == expected
