"""Character classes that `re` lacks, built from `unicodedata` on first use.

Python's `\\w` leaves out combining marks, so a pattern of `\\w+` tears Devanagari, Thai and
vocalised Arabic words apart. The classes here are bodies for `[...]`.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import chain

# Everything that combines lives in planes 0 and 1, plus the variation selectors of plane 14.
_CANDIDATES = (range(0x80, 0x20000), range(0xE0000, 0xE0200))


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
