"""Pictures, where matplotlib is installed (elmokit[plot])."""

from pathlib import Path
from typing import Any

from ..files.write import whole_file


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
