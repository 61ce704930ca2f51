"""The learning curve of a run as a picture."""

import math
from pathlib import Path
from typing import Any

from .figure import new_axes, save_axes

MAX_PERPLEXITY = 1e6
"""Top of the axis: a model this bad guesses, however bad it is beyond that."""

LABEL_ALL_BELOW = 10.0
"""An axis that spans less than this factor has labels between the powers of ten, too."""


def draw_curve(rows: list[dict[str, Any]], path: Path, is_sampled: bool) -> bool:
    """Draw perplexity against tokens; False if matplotlib is not installed.

    Values beyond `MAX_PERPLEXITY` are drawn there; NaN leaves a gap.
    """
    axes = new_axes(7, 4.2)
    if axes is None:
        return False
    tested = [row for row in rows if "valid_mean" in row]
    series = [
        ("training (sampled)" if is_sampled else "training", "#9bb", "-", rows,
         [math.exp(min(row["loss"], 20.0)) for row in rows]),
        ("held-out, forward", "#c60", "o-", tested, [row["valid_forward"] for row in tested]),
        ("held-out, backward", "#06c", "o-", tested, [row["valid_backward"] for row in tested]),
    ]  # fmt: skip
    for label, color, style, points, values in series:
        tokens = [row["tokens"] / 1e6 for row in points]
        capped = [min(value, MAX_PERPLEXITY) for value in values]
        axes.plot(tokens, capped, style, lw=1, ms=3, color=color, label=label)
    axes.set(xlabel="million tokens read", ylabel="perplexity", yscale="log")
    _set_limits(axes, [value for *_, values in series for value in values])
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    save_axes(axes, path)
    return True


def _set_limits(axes: Any, values: list[float]) -> None:
    """Fit the axis to the values that can be drawn, with labels of a few characters."""
    drawn = [min(max(value, 1.0), MAX_PERPLEXITY) for value in values if not math.isnan(value)]
    low, high = min(drawn, default=1.0) / 1.2, max(drawn, default=10.0) * 1.2
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    is_narrow = high < LABEL_ALL_BELOW * low
    axes.yaxis.set_minor_formatter(lambda value, _: _short(value) if is_narrow else "")


def _short(value: float) -> str:
    """200 as it is, 20,000 as 20k: says more than 2 x 10²."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
