"""Unicode normalisation that remembers where every character came from.

The same Korean word takes 3 bytes per syllable in NFC and up to 9 in NFD, the form that macOS gives
file names, so unnormalised text changes every character id. Tokens are cut from the normalised
text; `align` leads their offsets back to the text that the user passed.

Below are character classes that `re` lacks, as bodies for `[...]`, built from `unicodedata` on
first use. Python's `\\w` leaves out combining marks, so a pattern of `\\w+` tears Devanagari, Thai
and vocalised Arabic words apart.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby

from ..errors import ConfigError, quoted

# CPython sorts a run of marks by insertion; longer runs than this are sorted here instead.
_LONG_RUN = 32
# Everything that combines lives in planes 0 and 1, plus the variation selectors of plane 14.
_CANDIDATES = (range(0x80, 0x20000), range(0xE0000, 0xE0200))


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


@cache
def marks() -> str:
    """The class of all combining marks (general categories Mn, Mc and Me)."""
    # No mark is \w, so this filter, which runs in C, spares most of the category lookups.
    others = re.findall(r"[^\w\s]", _candidates())
    return char_class(c for c in others if unicodedata.category(c)[0] == "M")


@cache
def composing() -> str:
    """The class of marks and of other characters that NFC may merge with the one before them.

    Conjoining jamo are left out: they merge with other jamo only.
    """
    seconds: set[str] = set()
    for char in _candidates():
        decomposition = unicodedata.decomposition(char)
        if decomposition and decomposition[0] != "<":
            seconds.update(chr(int(code, 16)) for code in decomposition.split()[1:])
    return marks() + char_class(c for c in seconds if unicodedata.category(c)[0] != "M")


def char_class(chars: Iterable[str]) -> str:
    """The body of a `[...]` that matches exactly these characters, as few ranges."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, chars)):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08X}-\\U{last:08X}" for first, last in ranges)


def _candidates() -> str:
    return "".join(map(chr, chain(*_CANDIDATES)))
