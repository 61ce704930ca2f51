"""The learning curve of a run as a picture."""

import math
from pathlib import Path
from typing import Any

from .figure import new_axes, save_axes


def draw_curve(rows: list[dict[str, Any]], path: Path, is_sampled: bool) -> bool:
    """Draw perplexity against tokens; False if matplotlib is not installed."""
    axes = new_axes(7, 4.2)
    if axes is None:
        return False
    tokens = [row["tokens"] / 1e6 for row in rows]
    name = "training (sampled)" if is_sampled else "training"
    axes.plot(
        tokens, [math.exp(min(row["loss"], 20)) for row in rows], lw=1, color="#9bb", label=name
    )
    tested = [row for row in rows if "valid_mean" in row]
    for key, color in (("valid_forward", "#c60"), ("valid_backward", "#06c")):
        label = f"held-out, {key.removeprefix('valid_')}"
        values = [row[key] for row in tested]
        axes.plot([r["tokens"] / 1e6 for r in tested], values, "o-", ms=3, color=color, label=label)
    axes.set(xlabel="million tokens read", ylabel="perplexity", yscale="log")
    for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        ticks(lambda value, _: f"{value:,.0f}")  # 200 says more than 2 x 10²
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    save_axes(axes, path)
    return True
