"""Snapshots of the attention map, and the attention that the most frequent token gets."""

from __future__ import annotations

from typing import Literal, cast

import xarray as xr
from matplotlib.figure import FigureBase, SubFigure
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, frequencies, group, nearest_records, telling_records
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions


@analyzer("attention_maps")
class AttentionMaps(Analyzer):
    """Attention maps at a few steps, and over all steps the attention to the most frequent token."""

    class Options(AnalyzerOptions):
        """Which snapshots to keep: listed steps, or a number of them."""

        kind: Literal["attention_maps"] = "attention_maps"
        count: int = Field(default=6, ge=1, le=64, description="snapshots, closer where the map changes")
        steps: list[int] | None = Field(
            default=None, min_length=1, max_length=64, description="snapshots at the records nearest to these"
        )

    options: AttentionMaps.Options
    requires = ("attention",)
    title = "Attention maps"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Snapshots, and attention to the most frequent token k* = argmax π of the replica.

        `attention(replica, snapshot, layer, head, query, key)` with coordinate `snapshot` = its step;
        `focus(replica, step, layer, head, query)`, the attention A_ik* of each query to that token, and
        `focus_ratio`, the same divided by π_k*, its value when attention follows frequency alone. All
        dimensionless; NaN where a record is not finite. Where tokens were lumped, k* is among the recorded
        keys, each of which may stand for several tokens.
        """
        attention = group(trajectory, "attention")["attention"]
        attention = attention.transpose("replica", "step", "layer", "head", "query", "key").load()
        pi = frequencies(trajectory, attention, "key")
        top = pi.argmax("key")
        focus = attention.isel(key=top).drop_vars("key", errors="ignore")
        found = xr.Dataset(
            {
                "attention": describe(self._snapshots(attention), "attention map", "A"),
                "focus": describe(focus, "attention to the most frequent token", r"A_{ik^*}"),
                "focus_ratio": describe(
                    focus / pi.isel(key=top).drop_vars("key", errors="ignore"),
                    "attention to the most frequent token over its frequency",
                    r"A_{ik^*}/\pi_{k^*}",
                ),
            }
        )
        return found.assign_coords(top_token=("replica", pi["key"].values[top.values]))

    def _snapshots(self, attention: xr.DataArray) -> xr.DataArray:
        records = (
            telling_records(self.options.count, attention.isel(replica=0))
            if self.options.steps is None
            else nearest_records(attention["step"].values, self.options.steps)
        )
        steps = attention["step"].values[records]
        chosen = attention.isel(step=records).drop_vars(["step", "time"], errors="ignore")
        return chosen.rename(step="snapshot").assign_coords(
            snapshot=("snapshot", steps, {"long_name": "step of the snapshot", "units": "step"})
        )

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Maps of the first replica in a row for each head, and below the attention ratio of every query."""
        maps = style.layer_heads(result["attention"].isel(replica=0), limit=2)
        ratios = style.layer_heads(result["focus_ratio"], limit=2)
        parts = cast(list[SubFigure], figure.subfigures(2, 1, height_ratios=[len(maps), 1.3]))
        top, bottom = parts
        _draw_maps(top, maps)
        colors = style.token_colors(trajectory, result["query"].values.tolist())
        axes = style.panel_grid(bottom, len(ratios), sharex=True, sharey=True)
        for ax, (title, ratio) in zip(axes, ratios, strict=True):
            x = style.step_axis(ax, ratio)
            for query, color in colors.items():
                style.line_with_band(ax, x, ratio.sel(query=query), color, f"query {style.shorten(query)}")
            ax.axhline(1, **style.REFERENCE)
            style.label_axes(ax, y=_ratio_label(result), title=title)
            ax.label_outer()
        style.legend(bottom)


def _draw_maps(figure: SubFigure, maps: list[tuple[str, xr.DataArray]]) -> None:
    count = maps[0][1].sizes["snapshot"]
    axes = figure.subplots(len(maps), count, squeeze=False)
    for row, (title, snapshots) in zip(axes, maps, strict=True):
        queries, keys = snapshots["query"].values, snapshots["key"].values
        for ax, snapshot in zip(row, snapshots, strict=True):
            image = style.heatmap(ax, snapshot, queries, keys, (0, 1), style.SEQUENTIAL)
            ax.label_outer()
        style.label_axes(row[0], y=title or "query")
    style.title_snapshots(axes[0], maps[0][1]["snapshot"].values)
    for ax in axes[-1]:
        style.label_axes(ax, x="key")
    figure.colorbar(image, ax=axes, label="attention", shrink=0.8, aspect=12)


def _ratio_label(result: xr.Dataset) -> str:
    tokens = set(result["top_token"].values.tolist())
    name = style.shorten(tokens.pop()) if len(tokens) == 1 else "top token"
    return f"attention to {name} / its π"
