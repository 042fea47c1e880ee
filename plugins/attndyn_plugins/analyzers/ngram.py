"""How near predictions come to unigram, bigram and the attention-weighted bigram over training, and when."""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.ngrams import NAMES, Approach, approach, captured, nearest
from attndyn.analysis.over_replicas import with_band
from attndyn.analysis.records import describe, group
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions

REFERENCES = ("unigram", "bigram", "pseudo_bigram")
HEADS = ("replica", "layer", "head")
FOUND = {
    "closest_step": (
        "step at which the KL divergence of the reference from the predictions is least",
        "step",
    ),
    "closest_kl": ("least KL divergence of the reference from the predictions", "nats"),
    "most_captured": ("largest share of what the reference tells that predictions have", "1"),
    "reached_step": ("step at which that share reaches the level", "step"),
}


@analyzer("ngram")
class NGram(Analyzer):
    """KL of three references from the predictions, when each is closest, and whether it is taken up."""

    class Options(AnalyzerOptions):
        """When predictions have taken up a reference, and when a reference tells nothing."""

        kind: Literal["ngram"] = "ngram"
        level: float = Field(default=0.5, gt=0, le=1, description="share of what it tells that takes it up")
        least: float = Field(default=0.01, gt=0, description="nats below which a reference tells nothing")

    options: NGram.Options
    requires = ("predictions",)
    title = "Predictions against n-grams"
    numbers = ("taken_up", "reached_step", "most_captured", "closest_step", "closest_kl")

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """By `reference`, for every layer and head, on which only the pseudo-2-gram depends.

        `kl` and `captured` `(replica, layer, head, reference, step)`: the divergence, and the share of what
        the reference tells that the predictions have, NaN where that is too little. `closest_step`,
        `closest_kl`, `most_captured` and `reached_step` `(replica, layer, head, reference)` sum them up,
        `taken_up` is the verdict, and `nearest(replica, layer, head, step)` the number of the nearest
        reference, -1 where there is none. docs/corpora.md defines them.
        """
        probe = group(trajectory, "predictions")
        kl = _stack(probe, "kl")
        steps = kl["step"].values.astype(float)
        share = captured(kl.values, _stack(probe, "information").values, self.options.least)
        table = np.empty((*kl.shape[:-1], len(FOUND)))
        for place in np.ndindex(kl.shape[:-1]):
            table[place] = approach(steps, kl.values[place], share[place], self.options.level)
        assert Approach._fields == tuple(FOUND)
        found = {
            "kl": describe(kl, "KL divergence of the reference from the predictions", r"KL(q \| p)", "nats"),
            "captured": describe(
                kl.copy(data=share), "share of what the reference tells that predictions have"
            ),
        }
        one = kl.isel(step=0, drop=True).drop_vars("time", errors="ignore")
        for number, (name, (what, units)) in enumerate(FOUND.items()):
            found |= with_band(one.copy(data=table[..., number]), name, what, units)
        most = found["most_captured"]
        found["taken_up"] = describe(most >= self.options.level, "whether predictions take up the reference")
        by_record = np.moveaxis(kl.values, kl.get_axis_num("reference"), -1)
        found["nearest"] = describe(
            kl.isel(reference=0, drop=True).copy(data=nearest(by_record)), "number of the nearest reference"
        )
        return xr.Dataset(found)

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """The three divergences above, the shares taken up below; the median head where there are several."""
        divergence, share = figure.subplots(2, 1, sharex=True)
        for ax, name, label, units in (
            (divergence, "kl", r"$KL(q\,\|\,p)$", "nats"),
            (share, "captured", "share taken up", "1"),
        ):
            x = style.step_axis(ax, result[name])
            over_heads = result[name].median(["layer", "head"], skipna=False)
            for number, reference in enumerate(REFERENCES):
                curves = over_heads.sel(reference=reference)
                style.line_with_band(ax, x, curves, style.color(number), NAMES[reference])
            style.label_axes(ax, y=label, units=units)
            ax.label_outer()
        share.axhline(self.options.level, label=f"taken up ({self.options.level:g})", **style.REFERENCE)
        if not bool(result["captured"].notnull().any()):
            style.say(share, f"no reference tells least, {self.options.least:g} nats")
        share.set_ylim(-0.25, 1.02)
        style.legend(figure)


def _stack(probe: xr.Dataset, name: str) -> xr.DataArray:
    """`name` of all references, (replica, layer, head, reference, step)."""
    like = probe[f"{name}_pseudo_bigram"].transpose(*HEADS, "step")
    parts = [
        probe[f"{name}_{reference}"].broadcast_like(like).transpose(*HEADS, "step")
        for reference in REFERENCES
    ]
    stacked = xr.concat(
        parts, xr.IndexVariable("reference", list(REFERENCES)), coords="minimal", compat="override"
    )
    return stacked.transpose(*HEADS, "reference", "step").astype(float)
