"""Retraction and regrowth of embeddings by band of frequency: token by token, and of the mean norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field, model_validator

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.over_replicas import with_band
from attndyn.analysis.records import describe, group, over_steps
from attndyn.analysis.retraction import Event, RetractionOptions, find_retractions
from attndyn.analysis.series import Array, until_divergence
from attndyn.analysis.spectra import row_norms
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.simulation.token_bands import BANDS, bands

#: records below which nothing is said of a retraction
FEWEST = 4
QUANTITIES = {
    "depth": ("largest loss of embedding norm, relative to the peak before it; 0 where there is none", "1"),
    "start": ("step at which a tenth of the loss has happened", "step"),
    "trough": ("step of the smallest norm", "step"),
    "recovery": ("step at which half of the loss is regained", "step"),
}


@analyzer("band_retraction")
class BandRetraction(Analyzer):
    """The deepest retraction of every token, summed up by band, and that of a band's mean norm."""

    class Options(RetractionOptions):
        """What counts as a retraction, and where bands end."""

        kind: Literal["band_retraction"] = "band_retraction"
        high: float = Field(
            default=0.5, gt=0, lt=1, description="share of the text that the high band makes up"
        )
        medium: float = Field(
            default=0.9, gt=0, lt=1, description="share that it and the medium band make up"
        )

        @model_validator(mode="after")
        def _ordered(self) -> BandRetraction.Options:
            if self.medium <= self.high:
                raise ValueError(f"medium is {self.medium}; must be more than high, {self.high}")
            return self

    options: BandRetraction.Options
    requires = ("parameters",)
    title = "Retraction by frequency"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """By token and by band (docs/corpora.md); NaN where absent or, for a depth, not known.

        `depth`, `start`, `trough`, `recovery` `(replica, token)` are those of the analyzer `retraction`.
        `band_depth(replica, band)` is the mean depth of a band's tokens, `band_share` the share of them that
        retract, `band_regrown` of these the share that regrows, `band_start`, … medians over those that have
        the step. `band_norm(replica, step, band)` is the mean norm and `mean_depth`, `mean_start`, …
        (replica, band) the retraction of this curve; where tokens retract at different times it is less deep.
        `…_band` have the median and the 10-90 % range over replicas.
        """
        weight = group(trajectory, "parameters")["W_0"]
        norms = over_steps(lambda block: xr.Dataset({"norm": row_norms(block)}), weight)["norm"]
        norms = norms.transpose("replica", "step", "token")
        pi = trajectory.dataset["pi"].transpose("replica", "token")
        number = bands(pi.values, pi["token"].values.tolist(), self.options.high, self.options.medium)
        member = number[..., None] == np.arange(len(BANDS))
        mean = _mean_norms(norms.values, member)
        steps = norms["step"].values.astype(float)
        coords: dict[str, Any] = {"band": list(BANDS), "replica": norms["replica"], "token": norms["token"]}
        of_token = self._table(steps, norms.values)
        found = {
            "band_norm": describe(_array(mean, ("replica", "step", "band"), coords), "mean embedding norm")
        }
        found["band_norm"] = found["band_norm"].assign_coords(step=norms["step"])
        for index, (name, (what, units)) in enumerate(QUANTITIES.items()):
            every = _array(of_token[..., index], ("replica", "token"), coords)
            found[name] = describe(every, what, units=units)
            summed = _over_bands(every.values, member, np.mean if name == "depth" else np.median)
            found |= self._named(f"band_{name}", f"{what}; of a band's tokens", units, summed, coords)
            of_mean = self._table(steps, mean)[..., index]
            found |= self._named(
                f"mean_{name}", f"{what}; of the mean norm of a band", units, of_mean, coords
            )
        depth, recovery = of_token[..., 0], of_token[..., 3]
        retracts = np.where(np.isfinite(depth), depth > 0, np.nan)
        regrown = np.where(depth > 0, np.isfinite(recovery), np.nan)
        for name, values, what in (
            ("band_share", retracts, "share of a band's tokens that retract"),
            ("band_regrown", regrown, "share of a band's retracting tokens that regrow"),
        ):
            found |= self._named(name, what, "1", _over_bands(values, member, np.mean), coords)
        return xr.Dataset(found)

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Mean norms by band above; depth of each token against its frequency below, of one replica."""
        norm, depth = figure.subplots(2, 1)
        x = style.step_axis(norm, result["band_norm"])
        pi = trajectory.dataset["pi"].transpose("replica", "token").values[0]
        number = bands(pi[None], result["token"].values.tolist(), self.options.high, self.options.medium)[0]
        for index, name in enumerate(BANDS):
            if not (number == index).any():
                continue
            color = style.color(index)
            style.line_with_band(norm, x, result["band_norm"].sel(band=name), color, style.shorten(name))
            here = (number == index) & (pi > 0)
            depth.plot(pi[here], result["depth"].isel(replica=0).values[here], ".", color=color, markersize=3)
        depth.set_xscale("log" if (pi > 0).any() else "linear")
        depth.set_ylim(-0.02, 1.02)
        norm.set_ylim(bottom=0)
        style.label_axes(norm, y="mean norm")
        style.label_axes(depth, x="frequency of the token", y="depth")
        style.legend(figure)

    def _table(self, steps: Array, curves: Array) -> Array:
        """`QUANTITIES` of `curves (replica, step, n)`, (replica, n, quantity)."""
        table = np.empty((curves.shape[0], curves.shape[2], len(QUANTITIES)))
        for place in np.ndindex(table.shape[:2]):
            curve = curves[place[0], :, place[1]]
            table[place] = _deepest(steps, curve, self.options)
        return table

    @staticmethod
    def _named(
        name: str, what: str, units: str, values: Array, coords: Mapping[str, Any]
    ) -> dict[str, xr.DataArray]:
        return with_band(_array(values, ("replica", "band"), coords), name, what, units)


def _deepest(steps: Array, curve: Array, options: RetractionOptions) -> tuple[float, ...]:
    nan = float("nan")
    until, norms = until_divergence(steps, curve)
    if len(until) < FEWEST:
        return (nan,) * len(QUANTITIES)
    events: list[Event] = find_retractions(until, norms, options.min_depth, options.noise_factor)
    if not events:  # diverged: what would have come is not known
        return (0.0 if len(until) == len(curve) else nan, nan, nan, nan)
    event = max(events, key=lambda event: event.depth)
    return (event.depth, event.retraction_start, event.trough_step, event.regrowth_step)


def _mean_norms(norms: Array, member: Array) -> Array:
    """Mean over the tokens of each band, (replica, step, band); NaN for a band without tokens."""
    with np.errstate(invalid="ignore"):
        weights = member / member.sum(axis=1, keepdims=True)
    return np.asarray(norms @ weights, float)


def _over_bands(values: Array, member: Array, function: Callable[[Array], Any]) -> Array:
    """`function` of the finite values of a band's tokens, (replica, band); NaN where there are none."""
    out = np.full((len(values), member.shape[2]), np.nan)
    for replica, band in np.ndindex(out.shape):
        chosen = values[replica][member[replica, :, band] & np.isfinite(values[replica])]
        if len(chosen):
            out[replica, band] = function(chosen)
    return out


def _array(values: Array, dims: tuple[str, ...], coords: Mapping[str, Any]) -> xr.DataArray:
    return xr.DataArray(values, dims=dims, coords={dim: coords[dim] for dim in dims if dim in coords})
