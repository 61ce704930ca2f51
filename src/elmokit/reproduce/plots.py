"""The paper's two figures as pictures for a slide."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra
from ..pretraining.figure import new_axes, save_axes
from .paper import score_name, title_of

if TYPE_CHECKING:
    from .arms import Outcome
    from .figure1 import Curve
    from .figure2 import Column

ELMO, BASELINE, GREY, INK = "#c60", "#06c", "#888", "#222"
LARGE, MEDIUM, SMALL = 17, 14, 12
HEIGHT = 5.6
GAP = 0.6
"""Columns between the two places of the heat map."""


def require_plots() -> None:
    """Fail without matplotlib before anything is trained for a picture."""
    if new_axes(1, 1) is None:
        raise MissingExtra("plot", "matplotlib")


def draw_shares(curves: Sequence["Curve"], path: Path) -> None:
    """Draw Figure 1: a panel a task, the score against the share of its training data."""
    figure = _figure(8.6 if len(curves) == 1 else 6.4 * len(curves), HEIGHT)
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, curve in zip(panels, curves, strict=True):
        _draw_curve(axes, curve)
    save_axes(panels[0], path)


def _draw_curve(axes: Any, curve: "Curve") -> None:
    shares = [100 * share for share in curve.shares]
    lines = (("with ELMo", ELMO, curve.with_elmo), ("without", BASELINE, curve.without))
    for _, color, outcomes in lines:
        means = [o.mean for o in outcomes]
        low, high = ([o.mean + sign * o.deviation for o in outcomes] for sign in (-1, 1))
        axes.fill_between(shares, low, high, color=color, alpha=0.18, lw=0)
        axes.plot(shares, means, color=color, lw=2.5, marker="o", ms=6, clip_on=False)
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{share:g} %" for share in shares])
    axes.minorticks_off()
    axes.set_xlim(shares[0] * 0.9, shares[-1])
    whole = curve.without[-1].mean
    axes.axhline(whole, color=BASELINE, lw=1.2, ls=":", zorder=0)
    axes.annotate(
        "all data, without ELMo", (shares[0], whole), (0, 5), textcoords="offset points",
        color=BASELINE, fontsize=SMALL,
    )  # fmt: skip
    _label_ends(axes, lines)
    examples = f"{curve.without[-1].num_examples:,}"
    title = f"{title_of(curve.task)}: {score_name(curve.metric)}, development data"
    axes.set_title(title, fontsize=LARGE, loc="left", color=INK, pad=14)
    num_seeds = len(curve.without[-1].scores)
    bands = f"\nbands: standard deviation of {num_seeds} seeds" if num_seeds > 1 else ""
    x_label = f"share of the {examples} training examples{bands}"
    axes.set_xlabel(x_label, fontsize=MEDIUM, color=INK)
    _plain(axes)
    axes.grid(axis="y", color="#ddd", lw=0.8)
    axes.set_axisbelow(True)


def _label_ends(axes: Any, lines: Sequence[tuple[str, str, Sequence["Outcome"]]]) -> None:
    """Name each line at its right end, the higher one above its point."""
    highest = max(lines, key=lambda line: line[2][-1].mean)
    for line in lines:
        name, color, outcomes = line
        end, is_higher = outcomes[-1].mean, line is highest
        axes.annotate(
            f"{name}\n{end:.1f}", (100, end), (12, 4 if is_higher else -4),
            textcoords="offset points", va="bottom" if is_higher else "top", color=color,
            fontsize=MEDIUM, fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def draw_heat_map(columns: Sequence["Column"], path: Path) -> None:
    """Draw Figure 2: a row a layer, a column a task, the two places side by side.

    Orange is more than an equal share of the weight, blue is less.
    """
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    num_layers = len(columns[0].weights)
    equal = 1 / num_layers
    most = max(max(c.weights) for c in columns)
    norm = TwoSlopeNorm(equal, 0, max(2 * equal, most))
    colors = LinearSegmentedColormap.from_list("weights", [BASELINE, "#fff", ELMO])
    at = _positions(columns)
    width = 1.45 if len(columns) <= 6 else 1.0
    figure = _figure(3.4 + width * (at[-1] + 1), 2.3 + 0.9 * num_layers)
    axes = figure.add_subplot()
    for x, column in zip(at, columns, strict=True):
        _draw_column(axes, x, column, colors, norm)
    axes.set(xlim=(-0.5, at[-1] + 0.5), ylim=(-0.5, num_layers - 0.5))
    axes.set_xticks(at, [f"{title_of(c.task)}\nγ {c.gamma:.2f}" for c in columns])
    names = [f"layer {i}" for i in range(num_layers)]
    names[0], names[-1] = "layer 0 (no context)", f"layer {num_layers - 1} (top)"
    axes.set_yticks(range(num_layers), names)
    for place in dict.fromkeys(c.place for c in columns):
        xs = [x for x, c in zip(at, columns, strict=True) if c.place == place]
        axes.text(
            sum(xs) / len(xs), num_layers - 0.38, f"at the {place}", fontsize=LARGE, color=INK,
            ha="center", va="bottom",
        )  # fmt: skip
    legend = f"weight of each layer; an equal share is {equal:.2f}:\norange is more, blue is less"
    axes.set_xlabel(legend, fontsize=SMALL, color=INK, labelpad=12)
    _plain(axes, "top", "right", "left", "bottom")
    save_axes(axes, path)


def _draw_column(axes: Any, x: float, column: "Column", colors: Any, norm: Any) -> None:
    from matplotlib.patches import Rectangle

    for layer, weight in enumerate(column.weights):
        color = colors(norm(weight))
        axes.add_patch(
            Rectangle((x - 0.48, layer - 0.48), 0.96, 0.96, facecolor=color, edgecolor="#ccc")
        )
        light = 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2]
        axes.text(
            x, layer, f"{weight:.2f}", ha="center", va="center", fontsize=LARGE,
            color=INK if light > 0.55 else "#fff",
        )  # fmt: skip


def _positions(columns: Sequence["Column"]) -> list[float]:
    """Where the columns stand: the places apart from each other."""
    at, x = [], 0.0
    for before, column in zip((columns[0], *columns), columns, strict=False):
        x += GAP if column.place != before.place else 0
        at.append(x)
        x += 1
    return at


def _figure(width: float, height: float) -> Any:
    axes = new_axes(width, height)
    if axes is None:
        raise MissingExtra("plot", "matplotlib")
    axes.figure.clear()
    return axes.figure


def _plain(axes: Any, *hidden: str) -> None:
    """Take away what no reader needs."""
    for side in hidden or ("top", "right"):
        axes.spines[side].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(GREY)
    axes.tick_params(labelsize=SMALL + 1, colors=INK, length=0)
