"""Results as text: columns that line up on a terminal, in any script."""

import unicodedata
from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of cells: numbers to the right, the first column and words to the left.

    >>> print(format_table(["layer", "F1"], [["0", "61.0"], ["average", "6.5"]]))
    layer      F1
    0        61.0
    average   6.5
    """
    lines = [header, *rows]
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    is_number = [False, *(cell[:1] == "-" or cell[:1].isdigit() for cell in rows[0][1:])]
    return "\n".join(
        "  ".join(
            gap + cell if right else cell + gap
            for cell, width, right in zip(line, widths, is_number, strict=True)
            for gap in [" " * (width - width_of(cell))]
        ).rstrip()
        for line in lines
    )


def percent(fraction: float) -> str:
    """A fraction as the field writes it: 0.6537 is `65.4`."""
    return f"{100 * fraction:.1f}"


def width_of(text: str) -> int:
    """Columns of a terminal that a text takes; most East Asian characters take two."""
    return sum(map(_width_of_character, text))


def _width_of_character(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0  # joins the character before it: accents, and the vowels and codas of NFD Hangul
    return 1 + (unicodedata.east_asian_width(char) in "WF")
