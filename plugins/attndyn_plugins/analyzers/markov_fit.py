"""Whether predictions are those of a first-order chain, for how long, and how far back attention looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.ngrams import first_span, markov_order
from attndyn.analysis.over_replicas import with_band
from attndyn.analysis.records import describe, group
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions, Flaw

STRETCHES = {"holds": ("of first order at most", 0), "first_order": ("of first order", 1)}
SPAN = {
    "from": ("first step at which predictions are {}", "step"),
    "until": ("step at which they no longer are", "step"),
    "steps": ("how long they are, up to the end of the record", "step"),
}
PLACES = {"0": "the token itself", "1": "the token before"}


@analyzer("markov_fit")
class MarkovFit(Analyzer):
    """The order of the predictions over training, and the attention to the last tokens."""

    class Options(AnalyzerOptions):
        """When predictions are of first order."""

        kind: Literal["markov_fit"] = "markov_fit"
        level: float = Field(default=0.9, gt=0, le=1, description="share of their spread for the last token")
        low: float = Field(default=0.8, gt=0, le=1, description="share below which that has ended")
        least: float = Field(default=0.01, gt=0, description="spread in nats below which they are all alike")

        def flaws(self) -> Iterator[Flaw]:
            """What has begun does not end above the share at which it began."""
            if self.low > self.level:
                yield Flaw(("low",), f"is {self.low}; allowed: at most level, {self.level}")

    options: MarkovFit.Options
    requires = ("token_classes", "predictions")
    title = "Order of the predictions"
    numbers = ("order", "token_share", "fit_share", "holds_from", "holds_steps", "first_order_from")

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """The Markov approximation holds where the order is at most 1; docs/corpora.md says when that is.

        `order(replica, step)`: 0, 1, or 2 for more, -1 unknown; `token_share`, `residual`, `spread` and
        `fit_share` as recorded; `holds_from`, `holds_until`, `holds_steps` `(replica)` of the first stretch
        of order 0 or 1, and `first_order_from` and so on of that of order 1, with bands;
        `attention_lag(replica, step, layer, head, lag)` and `uniform_lag`, at their own steps.
        """
        fit = group(trajectory, "predictions")
        share, spread, residual, fit_share = (
            fit[name].transpose("replica", "step").astype(float)
            for name in ("token_share", "spread", "residual", "fit_share")
        )
        steps = share["step"].values.astype(float)
        o = self.options
        order = np.stack(
            [
                markov_order(a, b, o.level, o.low, o.least)
                for a, b in zip(share.values, spread.values, strict=True)
            ]
        )
        one = share.isel(step=0, drop=True).drop_vars("time", errors="ignore")
        found = {
            "order": describe(share.copy(data=order), "order of the predictions, 2 for more than 1"),
            "token_share": describe(share, "share of the spread of predictions that the last token explains"),
            "spread": describe(spread, "KL of the predictions from their mean", units="nats"),
            "residual": describe(residual, "KL of the predictions from a first-order fit", units="nats"),
            "fit_share": describe(fit_share, "share of the queries that these are taken from"),
        }
        for stretch, (of, least) in STRETCHES.items():
            spans = np.array([first_span(steps, (row >= least) & (row <= 1)) for row in order])
            for number, (name, (what, units)) in enumerate(SPAN.items()):
                found |= with_band(
                    one.copy(data=spans[:, number]), f"{stretch}_{name}", what.format(of), units
                )
        classes = group(trajectory, "token_classes").rename({"step": "attention_step"})
        classes = classes.drop_vars("time", errors="ignore")
        for name in ("attention_lag", "uniform_lag"):
            lag = classes[name].transpose("replica", "attention_step", ..., "lag")
            found[name] = describe(lag.load(), str(classes[name].attrs["long_name"]))
        return xr.Dataset(found)

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """What the last token explains above; below, attention by distance over uniform attention's."""
        fit, attention = figure.subplots(2, 1)
        x = style.step_axis(fit, result["token_share"])
        told = result["token_share"].where(result["spread"] >= self.options.least)
        style.line_with_band(fit, x, told, style.color(6), "share of the spread for the last token")
        for number, (name, level) in enumerate((("level", self.options.level), ("low", self.options.low))):
            line = style.REFERENCE | {"linestyle": style.DASHES[2 + number]}
            fit.axhline(level, label=f"{name} ({level:g})", **line)
        if not bool(told.notnull().any()):
            style.say(fit, _why_blank(result, self.options.least))
        fit.set_xlim(x[0], max(x[-1], x[0] + 1))
        fit.set_ylim(-0.02, 1.05)
        style.label_axes(fit, y="share")
        uniform = result["uniform_lag"]
        ratio = (result["attention_lag"] / uniform.where(uniform > 0)).mean(["layer", "head"], skipna=False)
        x = style.step_axis(attention, group(trajectory, "token_classes"))
        for number, lag in enumerate(ratio["lag"].values.tolist()):
            curves = ratio.sel(lag=lag).transpose("replica", ...)
            if bool(curves.notnull().any()):  # nothing is later in a causal model
                label = PLACES.get(lag, f"{lag} before" if lag.isdigit() else lag)
                style.line_with_band(attention, x, curves, style.color(number), label)
        attention.axhline(1.0, label="uniform", **style.REFERENCE)
        low, high = attention.get_ylim()
        attention.set_ylim(min(low, 0.99), max(high, 1.01))
        style.label_axes(attention, y="attention / uniform")
        style.legend(figure)


def _why_blank(result: xr.Dataset, least: float) -> str:
    """Why there is no curve of the share that the last token explains."""
    if bool(result["spread"].notnull().any()):
        return f"order 0: the spread is below least, {least:g} nats"
    return "unknown: no token is a query in `repeats` contexts"
