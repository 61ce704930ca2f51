"""Pictures: the learning curve is drawn for any numbers that a run may log."""

import math
from pathlib import Path

import pytest

from elmokit.figures import MAX_PERPLEXITY, draw_curve

pytest.importorskip("matplotlib", reason="needs elmokit[plot]")


def rows(values: list[float], losses: list[float] | None = None) -> list[dict[str, float]]:
    return [
        {
            "step": i + 1,
            "tokens": 1000.0 * i,
            "loss": losses[i] if losses else 5.0,
            "valid_forward": value,
            "valid_backward": value,
            "valid_mean": value,
        }
        for i, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [100.0],
        [200.0, 150.0, 120.0],
        [1e61, 300.0, 1e308],
        [math.inf, 1e308, math.inf],
        [math.nan, math.nan],
        [math.nan, 100.0, math.inf],
        [1.0, 1.0],
        [0.0, 5e-324],
        [1e6, 90.0, 1e5],
    ],
)
def test_any_curve_is_drawn_without_a_warning(values: list[float], tmp_path: Path) -> None:
    # Warnings are errors in these tests.
    assert draw_curve(rows(values), tmp_path / "curve.png", is_sampled=True)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_losses_of_any_size_are_drawn(tmp_path: Path) -> None:
    losses = [math.nan, math.inf, -1.0, 1e30, 4.0]
    assert draw_curve(rows([100.0] * 5, losses), tmp_path / "curve.png", is_sampled=False)


@pytest.mark.parametrize("values", [[1e61, 300.0, math.inf], [200.0, 120.0], [math.nan]])
def test_labels_are_short_and_the_axis_is_capped(
    values: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("elmokit.figures.save_axes", lambda axes, path: seen.append(axes))
    draw_curve(rows(values), tmp_path / "curve.png", is_sampled=True)
    axes = seen[0]
    axes.figure.canvas.draw()
    labels = [tick.get_text() for tick in axes.get_yticklabels(which="both")]
    assert any(labels) and max(map(len, labels)) <= 6
    assert axes.get_ylim()[1] <= 1.3 * MAX_PERPLEXITY
