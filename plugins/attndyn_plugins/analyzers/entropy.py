"""How spread out attention is, against the spread of the tokens themselves."""

from __future__ import annotations

from typing import Literal

import xarray as xr
from matplotlib.figure import FigureBase
from scipy.special import entr

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.attention_curves import mean_over_queries
from attndyn.analysis.records import describe, group
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions


@analyzer("entropy")
class Entropy(Analyzer):
    """Entropy of attention per layer, head and query, its mean over queries, and the entropy of π."""

    class Options(AnalyzerOptions):
        """No options of its own."""

        kind: Literal["entropy"] = "entropy"

    requires = ("attention",)
    title = "Attention entropy"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Entropies in nats, of full rows of the map, whichever tokens it lumps together.

        `entropy(replica, step, layer, head, query)` as recorded; `mean_entropy(replica, step, layer, head)`,
        its mean over queries weighted by π; `stationary_entropy(replica)`, that of π, which is the entropy
        of attention that tells no token from another. NaN where a record is not finite.
        """
        entropy = group(trajectory, "attention")["entropy"].transpose("replica", "step", "layer", "head", ...)
        pi = trajectory.dataset["pi"]
        stationary = pi.copy(data=entr(pi.values)).sum("token")
        return xr.Dataset(
            {
                "entropy": describe(entropy.load(), "entropy of attention", r"H(A_i)", "nats"),
                "mean_entropy": describe(
                    mean_over_queries(trajectory, entropy),
                    "entropy of attention, mean over queries weighted by π",
                    r"\sum_i \pi_i H(A_i)",
                    "nats",
                ),
                "stationary_entropy": describe(stationary, "entropy of π", r"H(\pi)", "nats"),
            }
        )

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Entropy over training, one curve a query and their mean; a panel a head."""
        panels = style.layer_heads(result["entropy"])
        means = style.layer_heads(result["mean_entropy"])
        axes = style.panel_grid(figure, len(panels), sharex=True, sharey=True)
        for ax, (title, queries), (_, mean) in zip(axes, panels, means, strict=True):
            x = style.step_axis(ax, queries)
            style.token_curves(ax, x, queries, "query", trajectory)
            style.line_with_band(ax, x, mean, "black", "mean", linestyle=style.DASHES[1])
            ax.axhline(float(result["stationary_entropy"].mean()), label=r"$H(\pi)$", **style.REFERENCE)
            ax.set_ylim(bottom=0)
            style.label_axes(ax, y="entropy", units="nats", title=title)
            ax.label_outer()
        style.legend(figure, "query:")
