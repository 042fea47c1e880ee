"""Snapshots of the attention map, and the attention that the most frequent token gets."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase, SubFigure
from numpy.typing import NDArray
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.attention_curves import top_key
from attndyn.analysis.records import describe, frequencies, group, nearest_records, telling_records
from attndyn.analysis.settings import replica_names, surviving
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions


@analyzer("attention_maps")
class AttentionMaps(Analyzer):
    """Attention maps at a few steps, and over all steps the attention to the most frequent token."""

    class Options(AnalyzerOptions):
        """Which snapshots to keep: listed steps, or a number of them."""

        kind: Literal["attention_maps"] = "attention_maps"
        count: int = Field(default=5, ge=2, le=64, description="snapshots at telling steps")
        steps: list[int] | None = Field(
            default=None, min_length=1, max_length=64, description="snapshots at the records nearest to these"
        )

    options: AttentionMaps.Options
    requires = ("attention",)
    title = "Attention maps"
    height = 4.6

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Snapshots, and attention to the most frequent token k* = argmax π of the replica.

        `attention(replica, snapshot, layer, head, query, key)` with coordinate `snapshot` = its step;
        `focus(replica, step, layer, head, query)`, the attention A_ik* of each query to that token, and
        `focus_ratio`, the same divided by π_k*, its value when attention follows frequency alone. All
        dimensionless; NaN where a record is not finite. Where the map lumps tokens together, k* is one of
        those that stand by themselves. `top_token(replica)` names it.
        """
        attention = group(trajectory, "attention")["attention"]
        attention = attention.transpose("replica", "step", "layer", "head", "query", "key").load()
        keys = attention["key"].values
        pi = frequencies(trajectory, keys, "key")
        top = top_key(trajectory, attention)
        focus = attention.isel(key=top).drop_vars("key")
        found = xr.Dataset(
            {
                "attention": describe(self._snapshots(attention, focus), "attention map", "A"),
                "focus": describe(focus, "attention to the most frequent token", r"A_{ik^*}"),
                "focus_ratio": describe(
                    focus / pi.isel(key=top).drop_vars("key"),
                    "attention to the most frequent token over its frequency",
                    r"A_{ik^*}/\pi_{k^*}",
                ),
            }
        )
        return found.assign_coords(top_token=("replica", keys[top.values]))

    def _snapshots(self, attention: xr.DataArray, focus: xr.DataArray) -> xr.DataArray:
        records = (
            _telling(attention, focus, self.options.count)
            if self.options.steps is None
            else nearest_records(attention["step"].values, self.options.steps)
        )
        steps = attention["step"].values[records]
        chosen = attention.isel(step=records).drop_vars(["step", "time"], errors="ignore")
        return chosen.rename(step="snapshot").assign_coords(
            snapshot=("snapshot", steps, {"long_name": "step of the snapshot", "units": "step"})
        )

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Maps above, of the first replica that did not diverge; below the attention ratio of every query."""
        parts = cast(list[SubFigure], figure.subfigures(2, 1, height_ratios=[1, 1.2]))
        replica = surviving(result["focus"])
        _draw_maps(parts[0], style.layer_heads(result["attention"].isel(replica=replica), limit=1)[0])
        parts[0].suptitle(style.shorten(replica_names(trajectory)[replica], 60), fontsize=7.5)
        token = _top_token(result)
        ratios = style.layer_heads(result["focus_ratio"], limit=2)
        axes = style.panel_grid(parts[1], len(ratios), sharex=True, sharey=True)
        for ax, (title, ratio) in zip(axes, ratios, strict=True):
            x = style.step_axis(ax, ratio)
            style.token_curves(ax, x, ratio, "query", trajectory)
            ax.axhline(1, **style.REFERENCE)
            title = title or f"attention to {token} over its frequency"
            style.label_axes(ax, y=r"$A\,/\,\pi$", title=title)
            ax.label_outer()
        style.legend(parts[1], "query:")


def _telling(attention: xr.DataArray, focus: xr.DataArray, count: int) -> NDArray[np.intp]:
    """Records along the way of all replicas' maps, and the one where the focus, a small change, peaks."""
    mean = focus.mean([dim for dim in focus.dims if dim != "step"]).values
    peak = int(np.where(np.isfinite(mean), mean, -1).argmax())
    return np.unique([*telling_records(count - 1, attention), peak])


def _draw_maps(figure: SubFigure, panel: tuple[str, xr.DataArray]) -> None:
    title, snapshots = panel
    axes = figure.subplots(1, snapshots.sizes["snapshot"], squeeze=False)[0]
    queries, keys = snapshots["query"].values, snapshots["key"].values
    for ax, snapshot in zip(axes, snapshots, strict=True):
        image = style.heatmap(ax, snapshot, queries, keys, (0, 1), style.SEQUENTIAL)
        ax.label_outer()
    style.title_snapshots(axes, snapshots["snapshot"].values)
    style.label_axes(axes[0], x="key", y=f"{title}\nquery" if title else "query")
    figure.colorbar(image, ax=axes, label="attention", shrink=0.8, aspect=12)


def _top_token(result: xr.Dataset) -> str:
    tokens = set(result["top_token"].values.tolist())
    return style.shorten(tokens.pop()) if len(tokens) == 1 else "top token"
