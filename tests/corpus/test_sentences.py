"""Running text falls into sentences; how a text is best read is seen from its lines."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.text.sentences import choose_mode, find_sentences, paragraphs, split_sentences

# A bar stands where a sentence ends; a blank after it belongs to neither.
ENGLISH = [
    "He left.| She stayed!| Why?| Nobody knows…",
    "Dr. Kim met Mr. and Mrs. Park on St. Mary's Ave. in Boston.| Prof. Lee came too.",
    "It costs 3.50 dollars, i.e. more than version 2.1 did.| 2.2 is free.",
    "See Fig. 3 and No. 7.| No.| That is all.",
    "J. R. R. Tolkien wrote it in the U.K. between the wars.",
    "She lives in the U.S.| The rest is known.",
    "The U.S. Senate met at 3 p.m. on Monday.| It ended at 5 p.m.| They left.",
    '"Stop!" she cried.| "Why?" he asked.| "Go on."| Then silence.',
    "He said (it was late.)| Then he left.| [1] is a note.",
    "“Come in.”| ‘Now.’| «Ici.»| Done.",
    "Wait... what?| Yes...| No.| And so on ...| The end.",
    "1. First things first.| 2. Then others.",
    "Visit www.example.com or ask.| File a.txt is there.",
    "What?!| Really?!| Yes.",
    "apples etc. are fruit.| Smith Inc. Holdings grew.",
]
KOREAN = [
    "비가 왔다.| 그래도 갔다!| 왜 갔을까?| 아무도 모른다…",
    "기온은 3.5도였다.| 2020년 1월 1일.| 1953년이다.",
    '그는 "가자."라고 말했다.| 우리는 갔다.',
    "제임스 얼 카터(1924년 ~ )는 대통령이다.| 조지아 공과대학교를 졸업하였다.",
]
UNSPACED = ["彼は言った。|「はい。」|そして。|本当？！|はい", "他来了。|你呢？|好！"]
TOKENISED = [
    "He left .| She stayed !| Why ?",
    'He said " Stop . "| Then he left .| " Go on . "| She went .',
    "`` Stop . ''| He left . )| The end .",
    "It cost $ 3.50 .| Mr. Smith paid .",
]


@pytest.mark.parametrize("marked", [*ENGLISH, *KOREAN, *UNSPACED, *TOKENISED])
def test_sentences_end_where_a_reader_ends_them(marked: str) -> None:
    expected = [sentence.strip() for sentence in marked.split("|")]
    assert split_sentences(marked.replace("|", "")) == expected


@given(st.text(st.sampled_from("aB1한 .?!…。！\"'”’»)]」(“\t\u2028\u00a0,;")))
def test_nothing_but_blanks_is_lost(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence.strip() for sentence in sentences)


@given(st.text())
def test_any_text_can_be_split(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("unit", ["A. ", ". ", "a", '. " ', "1. ", "…", "Mr. ", "e.g. "])
def test_text_without_ends_takes_linear_time(unit: str) -> None:
    # Squared, this would take minutes.
    assert "".join(split_sentences(unit * 100_000)).count(unit.strip()[:1]) >= 100_000


def test_paragraphs_are_joined_up_to_blank_lines() -> None:
    lines = ["", "One", " two. ", "", "\t", "Three"]
    assert list(paragraphs(lines)) == ["One two.", "Three"]
    assert list(paragraphs([])) == []


def running_text(num_sentences: int) -> list[str]:
    generator = random.Random(0)
    return [
        " ".join(
            ["The", *generator.choices(["cat", "elephant", "of", "a"], k=generator.randint(3, 25))]
        )
        for _ in range(num_sentences)
    ]


def wrapped(text: str, width: int = 70) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def test_mode_is_seen_from_the_text() -> None:
    sentences = [f"{sentence}." for sentence in running_text(300)]
    assert choose_mode(sentences).mode == "lines"
    pages = [" ".join(sentences[i : i + 5]) for i in range(0, 300, 5)]
    assert choose_mode(pages).mode == "split"
    book = [line for page in pages for line in [*wrapped(page), ""]]
    assert choose_mode(book).mode == "wrapped"


def test_sentences_without_any_punctuation_are_lines() -> None:
    # The Penn Treebank as language modellers have it: lower case, no marks.
    lines = [sentence.lower() for sentence in running_text(300)]
    assert choose_mode(lines).mode == "lines"
    assert choose_mode([]).mode == "lines"


def test_choice_says_why() -> None:
    choice = choose_mode(["One. Two.", "Three.", "", "Four. Five."])
    assert choice.mode == "split"
    assert choice.reason == "67% of 3 lines looked at hold several sentences"


def test_sentences_have_the_number_of_their_line() -> None:
    lines = ["", "One. Two", "three.", " ", "", "Four."]
    assert list(find_sentences(lines, "lines")) == list(enumerate(lines, 1))
    assert list(find_sentences(lines, "split")) == [
        (2, "One."), (2, "Two"), (3, "three."), (6, "Four."),
    ]  # fmt: skip
    assert list(find_sentences(lines, "wrapped")) == [(2, "One."), (2, "Two three."), (6, "Four.")]


def test_a_paragraph_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.text.sentences._MAX_PARAGRAPH", 2)
    found = list(find_sentences(["a", "b", "c", "d", "e"], "wrapped"))
    assert found == [(1, "a b"), (3, "c d"), (5, "e")]
