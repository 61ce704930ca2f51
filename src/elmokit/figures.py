"""All pictures: learning curves, layer weights, and the paper's Figures 1 and 2.

They are drawn by matplotlib (elmokit[plot]). A run that has a picture beside its results does
without where that is not installed; `require_matplotlib` is for those that are about a picture.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, pstdev
from typing import Any, NamedTuple

from .errors import MissingExtra
from .files.write import whole_file

ORANGE, BLUE, GREY, INK = "#c60", "#06c", "#888", "#222"
LARGE, MEDIUM, SMALL = 17, 14, 12
"""Font sizes of the figures that are for a slide."""

MAX_PERPLEXITY = 1e6
"""Top of the axis: a model this bad guesses, however bad it is beyond that."""
LABEL_ALL_BELOW = 10.0
"""An axis that spans less than this factor has labels between the powers of ten, too."""
GAP = 0.6
"""Columns between the two places of the heat map."""


def new_axes(width: float, height: float) -> Any | None:
    """The axes of a new figure, its size in inches; None without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def save_axes(axes: Any, path: Path) -> None:
    """Write the figure of `axes` as PNG."""
    with whole_file(path) as temporary:
        axes.figure.savefig(temporary, format="png", dpi=120)


def require_matplotlib() -> None:
    """Fail without matplotlib before anything is trained for a picture."""
    if new_axes(1, 1) is None:
        raise MissingExtra("plot", "matplotlib")


def draw_curve(rows: list[dict[str, Any]], path: Path, is_sampled: bool) -> bool:
    """Draw perplexity against tokens; False if matplotlib is not installed.

    Values beyond `MAX_PERPLEXITY` are drawn there; NaN leaves a gap.
    """
    axes = new_axes(7, 4.2)
    if axes is None:
        return False
    tested = [row for row in rows if "valid_mean" in row]
    trained = [row for row in rows if row["step"] > 0]
    series = [
        ("training (sampled)" if is_sampled else "training", "#9bb", "-", trained,
         [math.exp(min(row["loss"], 20.0)) for row in trained]),
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


def draw_layer_weights(mixes: Sequence[dict[str, Any]], path: Path, title: str) -> bool:
    """Draw softmax(s) by layer and place, its mean over the seeds; False without matplotlib.

    Args:
        mixes: `TaskEmbedding.layer_weights()` of each seed.
        path: The PNG file to write.
        title: What stands above it.
    """
    axes = new_axes(5.2, 3.4)
    if axes is None:
        return False
    places = list(mixes[0])
    num_layers = len(mixes[0][places[0]]["weights"])
    width = 0.8 / len(places)
    for i, place in enumerate(places):
        columns = list(zip(*(mix[place]["weights"] for mix in mixes), strict=True))
        gamma = mean(mix[place]["gamma"] for mix in mixes)
        at = [layer + (i - (len(places) - 1) / 2) * width for layer in range(num_layers)]
        spread = [pstdev(c) for c in columns] if len(mixes) > 1 else None
        bars = axes.bar(
            at, [mean(c) for c in columns], 0.9 * width, yerr=spread, ecolor="#555", capsize=3,
            color=ORANGE if place == "input" else BLUE, label=f"{place} (γ = {gamma:.2f})",
        )  # fmt: skip
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.axhline(1 / num_layers, color=GREY, lw=1, ls=":", zorder=0)
    axes.set(title=title, xlabel="layer of the biLM", ylabel="weight", ylim=(0, 1.1))
    axes.set_xticks(range(num_layers))
    axes.legend(frameon=False)
    save_axes(axes, path)
    return True


class Scores(NamedTuple):
    """Mean and deviation of the scores at each fraction of the training data."""

    means: Sequence[float]
    deviations: Sequence[float]


class Panel(NamedTuple):
    """A task in Figure 1."""

    title: str
    x_label: str
    fractions: Sequence[float]
    with_elmo: Scores
    without: Scores


def draw_fractions(panels: Sequence[Panel], path: Path) -> None:
    """Draw Figure 1: one panel per task, the score against the fraction of its training data."""
    figure = _figure(8.6 if len(panels) == 1 else 6.4 * len(panels), 5.6)
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(all_axes, panels, strict=True):
        _draw_panel(axes, panel)
    save_axes(all_axes[0], path)


def _draw_panel(axes: Any, panel: Panel) -> None:
    percents = [100 * fraction for fraction in panel.fractions]
    lines = (("with ELMo", ORANGE, panel.with_elmo), ("without", BLUE, panel.without))
    for _, color, (means, deviations) in lines:
        ranges = [(m - d, m + d) for m, d in zip(means, deviations, strict=True)]
        axes.fill_between(percents, *zip(*ranges, strict=True), color=color, alpha=0.18, lw=0)
        axes.plot(percents, means, color=color, lw=2.5, marker="o", ms=6, clip_on=False)
    axes.set_xscale("log")
    axes.set_xticks(percents, [f"{percent:g} %" for percent in percents])
    axes.minorticks_off()
    axes.set_xlim(percents[0] * 0.9, percents[-1])
    whole = panel.without.means[-1]
    axes.axhline(whole, color=BLUE, lw=1.2, ls=":", zorder=0)
    axes.annotate(
        "all data, without ELMo", (percents[0], whole), (0, 5), textcoords="offset points",
        color=BLUE, fontsize=SMALL,
    )  # fmt: skip
    highest = max(lines, key=lambda line: line[2].means[-1])
    for line in lines:  # each is named at its right end, the higher one above its point
        name, color, scores = line
        end, is_higher = scores.means[-1], line is highest
        axes.annotate(
            f"{name}\n{end:.1f}", (100, end), (12, 4 if is_higher else -4),
            textcoords="offset points", va="bottom" if is_higher else "top", color=color,
            fontsize=MEDIUM, fontweight="bold", annotation_clip=False,
        )  # fmt: skip
    axes.set_title(panel.title, fontsize=LARGE, loc="left", color=INK, pad=14)
    axes.set_xlabel(panel.x_label, fontsize=MEDIUM, color=INK)
    _plain(axes)
    axes.grid(axis="y", color="#ddd", lw=0.8)
    axes.set_axisbelow(True)


class Mix(NamedTuple):
    """A column of Figure 2: what a task model weighs the layers with, from layer 0 up, and γ."""

    title: str
    place: str
    weights: Sequence[float]
    gamma: float


def draw_heat_map(columns: Sequence[Mix], path: Path) -> None:
    """Draw Figure 2: one row per layer, one column per task, the two places side by side.

    Orange is more than an equal share of the weight, blue is less.
    """
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    num_layers = len(columns[0].weights)
    equal = 1 / num_layers
    most = max(max(c.weights) for c in columns)
    norm = TwoSlopeNorm(equal, 0, max(2 * equal, most))
    colors = LinearSegmentedColormap.from_list("weights", [BLUE, "#fff", ORANGE])
    at = _positions(columns)
    width = 1.45 if len(columns) <= 6 else 1.0
    figure = _figure(3.4 + width * (at[-1] + 1), 2.3 + 0.9 * num_layers)
    axes = figure.add_subplot()
    for x, column in zip(at, columns, strict=True):
        _draw_column(axes, x, column, colors, norm)
    axes.set(xlim=(-0.5, at[-1] + 0.5), ylim=(-0.5, num_layers - 0.5))
    axes.set_xticks(at, [f"{c.title}\nγ {c.gamma:.2f}" for c in columns])
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


def _draw_column(axes: Any, x: float, column: Mix, colors: Any, norm: Any) -> None:
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


def _positions(columns: Sequence[Mix]) -> list[float]:
    """The x of each column; there is a gap between the two places."""
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
