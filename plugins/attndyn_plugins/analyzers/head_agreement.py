"""Whether the heads of a layer move together: correlation and lag of their attention curves."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase, SubFigure
from pydantic import Field

from attndyn.analysis.agreement import pairwise_agreement
from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.attention_curves import HEAD_DIMS, focus, mean_over_queries
from attndyn.analysis.records import describe, group
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions

ONE_HEAD = "one head a layer: nothing to compare"
PAIR = ("replica", "layer", "head", "other_head")
CURVES = {"entropy": "entropies of attention", "focus": "attentions to the most frequent token"}
MEASURES = {
    "correlation": ("correlation over training of the heads' {}", "1"),
    "lag": ("steps by which the other head follows, from the heads' {}", "step"),
    "lagged_correlation": ("correlation at that lag of the heads' {}", "1"),
}


@analyzer("head_agreement")
class HeadAgreement(Analyzer):
    """Correlation and lag of the heads of a layer: entropy, and attention to the most frequent token."""

    class Options(AnalyzerOptions):
        """How far to look for a lag, and what is too little to judge by."""

        kind: Literal["head_agreement"] = "head_agreement"
        max_lag: float = Field(default=0.25, ge=0, lt=1, description="longest lag, as a share of the record")
        min_change: float = Field(
            default=1e-4, ge=0, description="range below which a curve is flat (nats; attention)"
        )
        min_correlation: float = Field(
            default=0.5, ge=-1, le=1, description="curves less alike at every lag have no lag"
        )

    options: HeadAgreement.Options
    requires = ("attention",)
    title = "Agreement of the heads"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Agreement of every pair of heads of a layer, NaN for a head with itself.

        Curves are `entropy` and `focus` (replica, step, layer, head): entropy of attention in nats, and
        attention to the most frequent token, means over queries weighted by π. For each,
        `*_correlation(replica, layer, head, other_head)` is Pearson's over training, `*_lag` the steps by
        which the other head's curve follows where the two fit best, and `*_lagged_correlation` how well they
        fit there. `*_agreement(replica, layer)` is the mean correlation over pairs, `*_spread(replica,
        layer)` the mean absolute lag. A head that hardly changes is NaN; so is all with one head a layer,
        and the attribute `note` says so. Trends that all heads share count as agreement.
        """
        recorded = group(trajectory, "attention")
        curves = {
            "entropy": recorded["entropy"].load(),
            "focus": focus(trajectory, recorded["attention"].load()),
        }
        found = xr.Dataset()
        for name, values in curves.items():
            mean = mean_over_queries(trajectory, values).transpose(*HEAD_DIMS)
            units = "nats" if name == "entropy" else "1"
            found[name] = describe(mean, f"{CURVES[name]}, mean over queries weighted by π", units=units)
            found.update(self._pairs(name, mean))
        if recorded.sizes["head"] == 1:
            found.attrs["note"] = ONE_HEAD
        return found

    def _pairs(self, name: str, curves: xr.DataArray) -> xr.Dataset:
        o, steps = self.options, curves["step"].values.astype(float)
        n_replicas, _, n_layers, n_heads = curves.shape
        table = np.empty((len(MEASURES), n_replicas, n_layers, n_heads, n_heads))
        for replica, layer in np.ndindex(n_replicas, n_layers):
            heads = curves.values[replica, :, layer].T.astype(float)
            table[:, replica, layer] = pairwise_agreement(
                steps, heads, o.max_lag, o.min_change, o.min_correlation
            )
        coords = {"replica": curves["replica"]}
        found = xr.Dataset(coords=coords)
        for (measure, (what, units)), values in zip(MEASURES.items(), table, strict=True):
            array = xr.DataArray(values, dims=PAIR, coords=coords)
            found[f"{name}_{measure}"] = describe(array, what.format(CURVES[name]), units=units)
        pairs = ("head", "other_head")
        found[f"{name}_agreement"] = describe(
            found[f"{name}_correlation"].mean(pairs), f"mean correlation over pairs of the {CURVES[name]}"
        )
        found[f"{name}_spread"] = describe(
            abs(found[f"{name}_lag"]).mean(pairs), f"mean lag over pairs of the {CURVES[name]}", units="step"
        )
        return found

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Entropy of each head of first, middle and last layer above; agreement and lag by layer below."""
        if "note" in result.attrs:
            figure.supxlabel(result.attrs["note"])
            _draw_heads(figure, result["entropy"])
            return
        rows = cast(list[SubFigure], figure.subfigures(2, 1, height_ratios=[1.2, 1]))
        _draw_heads(rows[0], result["entropy"])
        agreement, spread = rows[1].subplots(1, 2)
        for name, color in zip(CURVES, (style.color(0), style.color(1)), strict=True):
            _draw_layers(agreement, result[f"{name}_agreement"], name, color)
            _draw_layers(spread, result[f"{name}_spread"], name, color)
        agreement.set_ylim(-1.05, 1.05)
        spread.set_ylim(bottom=0)
        style.label_axes(agreement, x="layer", y="correlation of heads")
        style.label_axes(spread, x="layer", y="mean lag", units="steps")
        style.legend(rows[1])


def _draw_heads(figure: FigureBase, entropy: xr.DataArray) -> None:
    n_layers = entropy.sizes["layer"]
    shown = sorted({0, (n_layers - 1) // 2, n_layers - 1})
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for ax, layer in zip(axes, shown, strict=True):
        x = style.step_axis(ax, entropy)
        for head in range(min(entropy.sizes["head"], len(style.PALETTE))):
            style.line_with_band(ax, x, entropy.isel(layer=layer, head=head), style.color(head), str(head))
        style.label_axes(ax, y="entropy", units="nats", title=f"layer {layer}")
        ax.label_outer()
    style.legend(figure, "head:")


def _draw_layers(ax: Axes, values: xr.DataArray, label: str, color: str) -> None:
    """A quantity (replica, layer) over the layers."""
    layers = np.arange(values.sizes["layer"])
    style.line_with_band(ax, layers, values, color, label, marker=".")
    ax.set_xticks(layers[:: 1 + (len(layers) - 1) // 8])
