"""Unicode normalisation that remembers where every character came from.

The same Korean word takes 3 bytes a syllable in NFC and up to 9 in NFD, the form that macOS gives
file names, so unnormalised text changes every character id. Tokens are cut from the normalised
text; `align` leads their offsets back to the text that the user passed.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from ..errors import ConfigError, quoted
from .charclass import composing

# CPython sorts a run of marks by insertion; longer runs than this are sorted here instead.
_LONG_RUN = 32


@dataclass(frozen=True, slots=True)
class Alignment:
    """A normalised text, and the way from its offsets to those of the original.

    The columns hold, for every stretch that normalisation changed, its start and end in the
    normalised text and in the original, in text order; everything between them was copied.
    """

    text: str
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    source_starts: tuple[int, ...] = ()
    source_ends: tuple[int, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether normalisation changed nothing."""
        return not self.starts

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The shortest span of the original that holds all of `text[start:end]`."""
        first = bisect_right(self.starts, start) - 1
        last = bisect_left(self.starts, end) - 1
        if first >= 0:
            inside = start < self.ends[first]
            start = self.source_starts[first] if inside else start + self._shift(first)
        if last >= 0:
            inside = end < self.ends[last]
            end = self.source_ends[last] if inside else end + self._shift(last)
        return start, end

    def _shift(self, stretch: int) -> int:
        return self.source_ends[stretch] - self.ends[stretch]


def normalize(text: str, form: str | None) -> str:
    """`text` in the given normal form: "NFC", or None to leave it as it is."""
    if not _changes(text, form):
        return text
    return unicodedata.normalize("NFC", _long_run().sub(_sorted_run, text))


def align(text: str, form: str | None) -> Alignment:
    """The normalised text together with the way back to the original offsets.

    Example:
        >>> align("cafe\\u0301s", "NFC").source(0, 4)
        (0, 5)
    """
    if not _changes(text, form):
        return Alignment(text)
    parts: list[str] = []
    columns: list[tuple[int, int, int, int]] = []
    copied = shift = 0
    for match in _unit().finditer(text):
        normal = normalize(match[0], form)
        if normal == match[0]:
            continue
        start, end = match.span()
        parts += text[copied:start], normal
        columns.append((start + shift, start + shift + len(normal), start, end))
        shift += len(normal) - (end - start)
        copied = end
    return Alignment("".join([*parts, text[copied:]]), *zip(*columns, strict=True))


def without_surrogates(text: str) -> str:
    """`text` with U+FFFD for every lone surrogate, which no UTF-8 or UTF-16 library accepts."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _changes(text: str, form: str | None) -> bool:
    if form not in ("NFC", None):
        raise ConfigError(f"normalization={quoted(form)}: expected 'NFC' or None")
    return form == "NFC" and not unicodedata.is_normalized("NFC", text)


@cache
def _unit() -> re.Pattern[str]:
    """What normalises independently of its neighbours: a base and all that can merge with it.

    Plain ASCII and whitespace are passed over: nothing merges with them, and only two of the
    typographic spaces change on their own.
    """
    jamo = "[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|[\uac00-\ud7a3][\u11a8-\u11c2]"
    base = rf"{jamo}|[^\s\x00-\x7f]|[!-~](?=[{composing()}])"
    return re.compile(rf"(?:{base})[{composing()}]*+|[\u2000\u2001]")


@cache
def _long_run() -> re.Pattern[str]:
    return re.compile(rf"[{composing()}]{{{_LONG_RUN},}}+")


def _sorted_run(match: re.Match[str]) -> str:
    """The run decomposed and in canonical order, which leaves CPython nothing to sort."""
    chars = [part for char in match[0] for part in unicodedata.normalize("NFD", char)]
    groups = groupby(chars, key=lambda char: unicodedata.combining(char) > 0)
    return "".join(
        "".join(sorted(group, key=unicodedata.combining) if combines else group)
        for combines, group in groups
    )
