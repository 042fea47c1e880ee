"""Retraction and regrowth of embeddings by band of frequency: token by token, and of the mean norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.over_replicas import with_band
from attndyn.analysis.records import describe
from attndyn.analysis.retraction import FEWEST, NORMS, RetractionOptions, deepest, embedding_norms
from attndyn.analysis.series import Array
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.simulation.token_bands import BANDS, BandShares, bands

#: share of a band's falls that must have `FEWEST` records
RESOLVED = 0.5
QUANTITIES = {
    "depth": ("largest loss of embedding norm, relative to the peak before it; 0 where there is none", "1"),
    "start": ("step at which a tenth of the loss has happened", "step"),
    "trough": ("step of the smallest norm", "step"),
    "recovery": ("step at which half of the loss is regained", "step"),
    "records": ("records in the fall", "1"),
}
SHARES = {
    "share": "share of a band's tokens that retract",
    "regrown": "share of a band's retracting tokens that regrow",
    "resolved": "share of a band's retracting tokens with enough records in the fall",
}


@analyzer("band_retraction")
class BandRetraction(Analyzer):
    """The deepest retraction of every token, summed up by band, and that of a band's mean norm."""

    class Options(BandShares, RetractionOptions):
        """What counts as a retraction, and where bands end."""

        kind: Literal["band_retraction"] = "band_retraction"
        # the bends of thousands of coarse curves would count as noise, and hide more the coarser they are
        noise_factor: float = Field(
            default=0.0, ge=0, description="added to the smallest fall, in standard deviations of the noise"
        )

    options: BandRetraction.Options
    requires = (NORMS,)
    title = "Retraction by frequency"
    numbers = ("band_share", "band_regrown", "band_depth", "mean_depth")

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """By token and by band (docs/corpora.md); NaN where absent or, for a depth, not known.

        `depth`, `start`, `trough`, `recovery` `(replica, token)` are those of the analyzer `retraction`, by
        the options given here; `records` says how many records lie in the fall.
        `band_depth(replica, band)` is the mean depth of a band's tokens, `band_share` the share of them that
        retract, `band_regrown` of these the share that regrows, `band_start`, … medians over those that have
        the step. `band_resolved` is the share of the retracting tokens with `FEWEST` records in the fall; at
        less than `RESOLVED`, of all tokens where none of the band is seen to fall, nothing is said of it.
        `band_norm(replica, step, band)` is the mean norm and `mean_depth`, `mean_start`, … (replica, band)
        the retraction of this curve, NaN with fewer records; where tokens retract at different times it is
        less deep. `…_band` have the median and the 10-90 % range over replicas.
        """
        norms = embedding_norms(trajectory)
        pi = trajectory.dataset["pi"].transpose("replica", "token")
        number = bands(pi.values, pi["token"].values.tolist(), self.options.high, self.options.medium)
        member = number[..., None] == np.arange(len(BANDS))
        coords: dict[str, Any] = {"band": list(BANDS), "replica": norms["replica"], "token": norms["token"]}
        mean = _mean_norms(norms.values, member)
        found = {
            "band_norm": describe(_array(mean, ("replica", "band", "step"), coords), "mean embedding norm")
        }
        found["band_norm"] = found["band_norm"].assign_coords(step=norms["step"])
        tokens, of_mean = (self._table(norms["step"].values, curves) for curves in (norms.values, mean))
        for name, (what, units) in QUANTITIES.items():
            found[name] = describe(_array(tokens[name], ("replica", "token"), coords), what, units=units)
        by_band, clear = _by_band(tokens, member), of_mean["records"] >= FEWEST
        for name, (what, units) in QUANTITIES.items():
            if name != "records":
                of_band = f"{what}; of a band's tokens"
                found |= self._named(f"band_{name}", of_band, units, by_band[name], coords)
                values = np.where(clear | (of_mean["depth"] == 0), of_mean[name], np.nan)
                of_band = f"{what}; of the mean norm of a band"
                found |= self._named(f"mean_{name}", of_band, units, values, coords)
        for name, what in SHARES.items():
            found |= self._named(f"band_{name}", what, "1", by_band[name], coords)
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

    def _table(self, steps: Array, curves: Array) -> dict[str, Array]:
        """`QUANTITIES` of `curves (replica, n, step)`, each (replica, n)."""
        table = [[deepest(steps, curve, self.options) for curve in replica] for replica in curves]
        return {
            name: np.array([[getattr(each, name) for each in row] for row in table]) for name in QUANTITIES
        }

    @staticmethod
    def _named(
        name: str, what: str, units: str, values: Array, coords: Mapping[str, Any]
    ) -> dict[str, xr.DataArray]:
        return with_band(_array(values, ("replica", "band"), coords), name, what, units)


def _mean_norms(norms: Array, member: Array) -> Array:
    """Mean over the tokens of each band, (replica, band, step); NaN for a band without tokens."""
    with np.errstate(invalid="ignore"):
        weights = member / member.sum(axis=1, keepdims=True)
    return np.asarray(weights.swapaxes(1, 2) @ norms, float)


def _by_band(tokens: dict[str, Array], member: Array) -> dict[str, Array]:
    """What a band's tokens have together, of `QUANTITIES` and `SHARES`, each (replica, band)."""
    depth = tokens["depth"]
    falls = np.where(np.isfinite(depth), depth > 0, np.nan)
    shares = {
        "share": falls,
        "regrown": np.where(depth > 0, np.isfinite(tokens["recovery"]), np.nan),
        "resolved": np.where(depth > 0, tokens["records"] >= FEWEST, np.nan),
    }
    found = {
        name: _over_bands(values, member, np.mean if name in ("depth", *shares) else np.median)
        for name, values in (tokens | shares).items()
    }
    # where nothing of a band is seen to fall, the falls of the other bands tell whether it would have been
    everywhere = _over_bands(shares["resolved"], np.ones((*depth.shape, 1), dtype=bool), np.mean)
    resolved = np.where(np.isfinite(found["resolved"]), found["resolved"], everywhere)
    seen = ~(resolved < RESOLVED)
    return {
        name: values if name == "resolved" else np.where(seen, values, np.nan)
        for name, values in found.items()
    }


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
