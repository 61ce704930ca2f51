"""Results as text: columns that line up, in any script."""

import unicodedata
from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first column to the left and the others to the right.

    >>> print(format_table(["layer", "F1"], [["0", "61.0"], ["average", "6.5"]]))
    layer      F1
    0        61.0
    average   6.5
    """
    lines = [header, *rows]
    widths = [max(map(_columns, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell + _gap(cell, width) if i == 0 else _gap(cell, width) + cell
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def percent(fraction: float) -> str:
    """A fraction as the field writes it: 0.6537 is `65.4`."""
    return f"{100 * fraction:.1f}"


def _gap(cell: str, width: int) -> str:
    return " " * (width - _columns(cell))


def _columns(text: str) -> int:
    """Columns of a terminal that a text takes; most East Asian characters take two."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)
