"""Sizes of token embeddings and output columns; when embeddings retract and when they grow again."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, group, over_steps
from attndyn.analysis.retraction import EVENT, RetractionOptions, find_retractions
from attndyn.analysis.spectra import row_norms
from attndyn.registry import analyzer
from attndyn.report import style


@analyzer("norms")
class Norms(Analyzer):
    """Norms of the rows of W_0 and the columns of W_1, and the retractions of every embedding."""

    class Options(RetractionOptions):
        """What counts as a retraction."""

        kind: Literal["norms"] = "norms"

    options: Norms.Options
    requires = ("parameters",)
    title = "Norms of token embeddings"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Norms over training and retraction events.

        `embedding_norm(replica, step, token)`, `output_norm(replica, step, next_token)`. A retraction is a
        fall of the embedding norm, from a peak that it had grown to, by at least `min_depth` of the peak and
        `noise_factor` standard deviations of the noise; it ends at the lowest point before a rise that is as
        clear. In order of time, padded with NaN, (replica, token, event): `retraction_start`, where a tenth
        of the loss has happened (a long flat top has no sharp peak), `trough_step`, `regrowth_step`, where
        half of the loss is regained before the next retraction; `peak_norm`, `trough_norm`, `depth` =
        1 - trough/peak. Of a retraction still under way at the end, or at a divergence, the two later steps
        are NaN and the depth is that reached so far.
        """
        parameters = group(trajectory, "parameters")
        found = xr.Dataset()
        for name, weight, what in (("embedding", "W_0", "row of W_0"), ("output", "W_1", "column of W_1")):
            found.update(over_steps(partial(_norms, f"{name}_norm", what), parameters[weight]))
        found.update(self._events(found["embedding_norm"].transpose("replica", "token", "step")))
        return found

    def _events(self, norms: xr.DataArray) -> xr.Dataset:
        steps = norms["step"].values
        thresholds = self.options.min_depth, self.options.noise_factor
        events = [
            [find_retractions(steps, curve, *thresholds) for curve in replica] for replica in norms.values
        ]
        longest = max((len(found) for replica in events for found in replica), default=0)
        shape = (norms.sizes["replica"], norms.sizes["token"], max(longest, 1))
        table = np.full((len(EVENT), *shape), np.nan)
        for replica, tokens in enumerate(events):
            for token, found in enumerate(tokens):
                table[:, replica, token, : len(found)] = np.reshape(found, (-1, len(EVENT))).T
        dims = ("replica", "token", "event")
        return xr.Dataset(
            {
                name: describe(xr.DataArray(values, dims=dims), long_name, units=units)
                for (name, (long_name, units)), values in zip(EVENT.items(), table, strict=True)
            }
        )

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Norms of embeddings above, with the troughs of their retractions, and of output columns below."""
        embedding, output = figure.subplots(2, 1, sharex=True)
        _draw_norms(embedding, result["embedding_norm"], trajectory, "token")
        _draw_norms(output, result["output_norm"], trajectory, "next_token")
        style.label_axes(embedding, y=r"$|W_0[i,:]|$")
        style.label_axes(output, y=r"$|W_1[:,i]|$")
        _mark_troughs(embedding, result, trajectory)
        embedding.set_xlabel("")
        style.legend(figure)


def _norms(name: str, what: str, block: xr.DataArray) -> xr.Dataset:
    norms = row_norms(block)
    return xr.Dataset({name: describe(norms, f"norm of the token's {what}", r"\|\cdot\|")})


def _draw_norms(ax: Axes, norms: xr.DataArray, trajectory: xr.DataTree, dim: str) -> None:
    x = style.step_axis(ax, norms)
    style.token_curves(ax, x, norms, dim, trajectory)
    ax.set_ylim(bottom=0)


def _mark_troughs(ax: Axes, result: xr.Dataset, trajectory: xr.DataTree) -> None:
    x = style.step_axis(ax, result["embedding_norm"])
    points: dict[str, Any] = {"marker": "v", "markersize": 3, "alpha": 0.6, "linestyle": "none"}
    for token, line in style.token_lines(trajectory, result["token"].values.tolist()).items():
        events = result.sel(token=token)
        at = np.interp(events["trough_step"].values.ravel(), result["step"].values, x)
        ax.plot(at, events["trough_norm"].values.ravel(), color=line["color"], clip_on=False, **points)
