"""Running text → sentences, by punctuation and a short list of abbreviations.

A sentence ends at a run of `. ? ! …`, with the quotes and brackets that close it, before a blank
and a word that does not begin in lower case; `。！？` need no blank. Korean, which ends its
sentences in the same way, and text that is already tokenised (`end . " Next`) need nothing more.

Not covered: ends without punctuation (headings are lines of their own), German ordinals (`3. Mai`).
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np

from ..errors import ConfigError, quoted

log = logging.getLogger(__name__)

T = TypeVar("T")

SentenceMode: TypeAlias = Literal["lines", "split", "wrapped"]
SENTENCE_MODES: tuple[SentenceMode, ...] = get_args(SentenceMode)

TextMode: TypeAlias = Literal["lines", "split", "auto"]
"""How sentences are found where each text, such as a line of a file, keeps an entry of its own."""

FoundMode: TypeAlias = Literal["lines", "split"]
"""What `auto` chooses from."""

SAMPLED_LINES = 10_000
"""Lines, at most, that `auto` looks at."""

_STOPS = ".?!\u2026"
_FULL_STOPS = "\u3002\uff01\uff1f\uff61"
_CLOSERS = "\u201d\u2019\u00bb\u203a)\\]}\u300d\u300f\uff09\u3011\u3009\u300b"
_END = re.compile(rf"[{_STOPS}{_FULL_STOPS}]++[\"'{_CLOSERS}]*+")
# What closes a sentence after a blank: only where the stop stands alone, as tokenizers write it.
_LATE_CLOSERS = re.compile(rf"(?:\s+(?:''|[\"'{_CLOSERS}])(?!\S))*+")
_LAST_WORD = re.compile(r"[^\s(\[{\"'\u201c\u2018\u300c]*$")
_NEXT_WORD = re.compile(r"[^\w,;:]{0,20}+([\w']*+)")
_ENDED = re.compile(rf"[{_STOPS}{_FULL_STOPS}:][\"'\s{_CLOSERS}]*$")

# How far back to look for a word or a quote: text without ends must not cost its square.
_WORD_SPAN, _QUOTE_SPAN = 30, 1000
_MAX_PARAGRAPH = 10_000
"""Lines of a paragraph that `find_sentences` joins."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Always before a name.
_TITLES = _set(
    "mr mrs ms messrs dr prof rev hon gen gov sen rep lt col sgt capt maj adm cmdr pres st mt ft "
    "vs cf ed eds trans al"
)
_BEFORE_NUMBERS = _set("no nos fig figs vol vols pp p ch sec art op approx ca")
# These may also end a sentence, as initials and `U.S.` may.
_ABBREVIATIONS = _set(
    "jr sr inc ltd corp co bros dept univ assn ave blvd rd jan feb mar apr jun jul aug sep sept "
    "oct nov dec mon tue wed thu fri sat sun etc e.g i.e"
)
# Words that begin sentences, and hardly ever the second part of a name.
_OPENERS = _set(
    "the a an in on at it its he she they we you i but and or so this that these those there his "
    "her their our my as if when while after before since although however for from by with to "
    "what who why how where some many most one no not yes then now both each all"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph, in order; together they hold all but the blanks between them.

    Example:
        >>> split_sentences('Dr. Kim left at 3.15 p.m. on foot. "Why?" she asked. 몰라요. 그래요?')
        ['Dr. Kim left at 3.15 p.m. on foot.', '"Why?" she asked.', '몰라요.', '그래요?']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where each sentence of a paragraph starts and ends."""
    spans = []
    for start, end in pairwise([0, *_ends(text), len(text)]):
        piece = text[start:end]
        if stripped := piece.strip():
            start += piece.index(stripped)
            spans.append((start, start + len(stripped)))
    return spans


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """The paragraphs of hard-wrapped text: lines up to a blank one, joined."""
    return (text for _, text in _paragraphs(lines))


def find_sentences(
    lines: Iterable[str],
    mode: SentenceMode,
    split: Callable[[str], Iterable[str]] = split_sentences,
) -> Iterator[tuple[int, str]]:
    """The sentences of a text of any size, each with the number of its line, from 1.

    That of a paragraph of hard-wrapped text is its first line's. With "lines", each line is a
    sentence, the blank ones too. A paragraph without end is cut, so that memory stays bounded.
    `split` finds the sentences of a line or paragraph.
    """
    if mode == "lines":
        yield from enumerate(lines, 1)
        return
    is_wrapped = mode == "wrapped"
    units = _paragraphs(lines, _MAX_PARAGRAPH) if is_wrapped else enumerate(lines, 1)
    for number, unit in units:
        for sentence in split(unit):
            yield number, sentence


def _paragraphs(lines: Iterable[str], max_lines: int | None = None) -> Iterator[tuple[int, str]]:
    """Each paragraph, with the number of its first line."""
    first = 0
    paragraph: list[str] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if paragraph and (not text or len(paragraph) == max_lines):
            yield first, " ".join(paragraph)
            paragraph = []
        if text:
            first = first if paragraph else number
            paragraph.append(text)
    if paragraph:
        yield first, " ".join(paragraph)


@dataclass(frozen=True, slots=True)
class Choice:
    """How sentences are found, and why so."""

    mode: SentenceMode
    reason: str


def choose_mode(lines: Sequence[str]) -> Choice:
    """How a text with lines like these is best read; blank lines count."""
    filled = [line for line in lines if line.strip()]
    if _is_wrapped(lines):
        return Choice("wrapped", "sentences run over the ends of lines of even width")
    several = sum(len(split_sentences(line)) > 1 for line in filled)
    fraction = several / max(1, len(filled))
    return Choice(
        "split" if fraction > 0.2 else "lines",
        f"{fraction:.0%} of {len(filled):,} lines looked at hold several sentences",
    )


def with_text_mode(
    texts: Iterable[T], mode: TextMode | None
) -> tuple[Iterator[T], FoundMode | None]:
    """The texts, and how to find their sentences: "auto" looks at the first of them.

    None, for a caller who did not say, stays None.
    """
    rest = iter(texts)
    if mode is None or mode == "lines" or mode == "split":
        return rest, mode
    if str(mode) == "wrapped":
        raise ConfigError(
            "sentences='wrapped': each line has its own entry in the result, so a sentence cannot "
            "run over line ends; join the lines of each paragraph, then use 'split'"
        )
    if mode != "auto":
        raise ConfigError(f"sentences={quoted(mode)}: expected 'lines', 'split' or 'auto'")
    sample = list(islice(rest, SAMPLED_LINES))
    choice = choose_mode([text for text in sample if isinstance(text, str)])
    if choice.mode == "wrapped":
        log.warning(
            "sentences seem to run over the ends of lines, but each line is read on its own; join "
            "the lines of each paragraph first"
        )
    return chain(sample, rest), "split" if choice.mode == "split" else "lines"


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Whether many lines break off in a sentence, all of them at about the same width."""
    stripped = [line.strip() for line in lines]
    broken = [
        len(line)
        for line, following in pairwise(stripped)
        if line and following and not _ENDED.search(line[-20:])
    ]
    filled = sum(map(bool, stripped))
    if len(broken) < 10 or len(broken) < 0.3 * filled:
        return False
    median, width = np.percentile(broken, [50, 95])
    has_ends = any(end for line in stripped for end in _ends(line))
    return bool(width <= 200 and median >= 0.8 * width and has_ends)


def _ends(text: str) -> Iterator[int]:
    """Where sentences end inside `text`."""
    start = 0
    for match in _END.finditer(text):
        if match.end() == len(text):
            return
        end = _end(text, start, match)
        if end is not None:
            yield end
            start = end


def _end(text: str, start: int, match: re.Match[str]) -> int | None:
    """Where the sentence from `start` ends if it does at the stop of `match`."""
    begin, end = match.span()
    if any(stop in match[0] for stop in _FULL_STOPS):
        return end
    if not text[end].isspace():
        return None
    if begin > 0 and text[begin - 1].isspace():
        late = _LATE_CLOSERS.match(text, end)
        end = late.end() if late else end
        if text[end - 1] == '"' and text.count('"', max(start, end - _QUOTE_SPAN), end) % 2:
            end -= 1  # it opens the next sentence
    return None if _continues(text, start, begin, end) else end


def _continues(text: str, start: int, stop: int, end: int) -> bool:
    """Whether the sentence that began at `start` goes on after the stop at `stop`."""
    following = _NEXT_WORD.match(text, end)
    word = following[1] if following else ""
    # Without a word there is a comma or the like, or nothing that could be a sentence.
    if not word or word[0].islower():
        return True
    if text[stop] != "." or text[stop + 1] in _STOPS:
        return False
    window = text[max(start, stop - _WORD_SPAN) : stop]
    before = _LAST_WORD.search(window)
    return _is_abbreviated(before[0] if before else "", word, window.strip())


def _is_abbreviated(before: str, word: str, window: str) -> bool:
    """Whether the point after `before` ends an abbreviation rather than a sentence."""
    name = before.lower()
    if name in _BEFORE_NUMBERS:
        return word[0].isdigit()
    if name in _TITLES:
        return True
    if before.isdigit():
        return window == before  # the number of a list's item
    is_short = len(before) == 1 and before.isupper() and before.isascii()
    if is_short or name in _ABBREVIATIONS or re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", before):
        return word.lower() not in _OPENERS
    return False


WARM_UP_SENTENCES = (
    "The river was high that spring , and the ferry did not run for a week .",
    "Nobody in the village minded ; there was always something to repair .",
    "On the third day a letter came from the city , but it was addressed to someone else .",
    "She read it twice , put it back into its envelope and went on with her work .",
    '" How much longer ? " asked the boy at the door .',
    "By evening the water had fallen by two feet and the road could be seen again .",
    "봄비가 그치자 마을 사람들은 강가로 나왔다 .",
    "배는 아직 다니지 않았지만 아무도 서두르지 않았다 .",
    "아이는 문 앞에 서서 언제 떠나느냐고 물었다 .",
    "저녁이 되자 물이 빠지고 길이 다시 보였다 .",
)
"""Plain sentences in two languages that bring the LSTMs from zeros to where they are within a text.

For `state="warm"` where a model has no warm state of its own.
"""
