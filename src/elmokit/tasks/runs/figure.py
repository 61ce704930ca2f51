"""The learned layer weights as a picture (as in the paper's Figure 2)."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from ...pretraining.figure import new_axes, save_axes

COLORS = {"input": "#c60", "output": "#06c"}


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
            at, [mean(c) for c in columns], 0.9 * width, yerr=spread,
            color=COLORS[place], ecolor="#555", capsize=3, label=f"{place} (γ = {gamma:.2f})",
        )  # fmt: skip
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.axhline(1 / num_layers, color="#888", lw=1, ls=":", zorder=0)
    axes.set(title=title, xlabel="layer of the biLM", ylabel="weight", ylim=(0, 1.1))
    axes.set_xticks(range(num_layers))
    axes.legend(frameon=False)
    save_axes(axes, path)
    return True
