"""One figure of all settings of a run: quantities that are one curve each, a colour a setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attndyn.analysis.records import frequencies
from attndyn.report import style
from attndyn.report.files import new_figure
from attndyn.report.views import View


def compared(shown: Sequence[View]) -> list[str]:
    """What is drawn: what was recorded of every setting."""
    return [title for _, title, _ in _panels(shown)]


def draw_comparison(shown: Sequence[View]) -> Figure:
    """Loss and mean attention entropy (layer 0, head 0) of every setting, as far as they are recorded."""
    panels = _panels(shown)
    figure = new_figure(2.6)
    for ax, (name, title, curve) in zip(style.panel_grid(figure, max(len(panels), 1)), panels, strict=False):
        for number, view in enumerate(shown):
            _draw(ax, curve(view), number, view.setting.label)
        style.label_axes(ax, y=name, units="nats", title=title)
    style.legend(figure)
    return figure


def _panels(shown: Sequence[View]) -> list[tuple[str, str, Callable[[View], xr.DataArray | None]]]:
    panels: list[tuple[str, str, Callable[[View], xr.DataArray | None]]] = [
        ("cross-entropy", "loss", _loss),
        ("entropy", "attention entropy, mean over queries", _entropy),
    ]
    return [panel for panel in panels if all(panel[2](view) is not None for view in shown)]


def _draw(ax: Axes, curve: xr.DataArray | None, number: int, label: str) -> None:
    assert curve is not None
    line = {"linestyle": style.DASHES[number % 2], "linewidth": 0.7}
    style.line_with_band(ax, style.step_axis(ax, curve), curve, style.color(number), label, **line)


def _loss(view: View) -> xr.DataArray | None:
    if "loss" not in view.trajectory.children:
        return None
    loss = view.trajectory["loss"]["loss"]
    return loss.where(np.isfinite(loss))


def _entropy(view: View) -> xr.DataArray | None:
    """Entropy of attention, mean over queries weighted by π."""
    if "attention" not in view.trajectory.children:
        return None
    _, entropy = style.layer_heads(view.trajectory["attention"].to_dataset()["entropy"], limit=1)[0]
    weights = frequencies(view.trajectory, entropy["query"].values, "query")
    return (entropy * weights).sum("query", skipna=False)
