"""How much of every weight lies outside its leading direction: flat, then rising as new directions open."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, group, over_steps
from attndyn.analysis.spectra import energy_share, per_matrix, spectrum, weight_matrices
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions


@analyzer("projection")
class Projection(Analyzer):
    """Norm of the part of every weight orthogonal to its leading direction, now and at condensation."""

    class Options(AnalyzerOptions):
        """When a weight counts as condensed, which fixes its reference direction."""

        kind: Literal["projection"] = "projection"
        condensed: float = Field(
            default=0.95, gt=0, le=1, description="energy share of the leading direction"
        )

    options: Projection.Options
    requires = ("parameters",)
    title = "Part of the weights outside their leading direction"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Orthogonal parts of every weight W, layer and head where it has them; Frobenius norms.

        The direction ŵ is in the residual stream: the leading singular vector of W on the side of `model`
        (d_model), which is the one that W_0, W_1, W_Q and W_K share in the paper's rank-one stages. Two
        choices of ŵ, two questions:

        - its direction at condensation, the record where W is closest to rank one within the first stretch
          in which its energy share is at least `condensed` (over all records, if there is no such stretch):
          `orthogonal_W(replica, step[, layer, head])` = ‖W - W ŵ ŵᵀ‖. This is the quantity that is flat at
          the size of the initial weights while training runs inside the condensed direction, whichever way
          W moves along it, and rises when a new direction opens. `reference_step_W(replica[, layer, head])`.
        - its own leading direction at every step: `residual_W`, the distance of W from the nearest matrix of
          rank one. It ignores rotations of ŵ, and is 0 for a rank-one matrix.

        `orthogonal_relative_W` and `residual_relative_W` are the same over ‖W‖. Not-finite records are NaN.
        """
        found = xr.Dataset()
        for name, weight in weight_matrices(group(trajectory, "parameters")).items():
            side = "model" if "model" in weight.dims[-2:] else str(weight.dims[-1])
            own = over_steps(partial(_own, side), weight)
            record = _condensed_record(own["share"], self.options.condensed)
            reference = own["direction"].isel(step=record)
            direction = reference.drop_vars(["step", "time"], errors="ignore")
            orthogonal = over_steps(partial(_orthogonal, direction, side), weight)["orthogonal"]
            found.update(_quantities(name, own, orthogonal))
            found[f"reference_step_{name}"] = describe(
                reference["step"].drop_vars(["step", "time"], errors="ignore"),
                f"step at which the reference direction of {name} was taken",
                units="step",
            )
        return found

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Norms of the parts outside the direction at condensation (above) and the present one (below)."""
        orthogonal, residual = figure.subplots(2, 1, sharex=True, sharey=True)
        prefix = "residual_relative_"
        names = [str(name).removeprefix(prefix) for name in result if str(name).startswith(prefix)]
        for name in names:
            for ax, kind in ((orthogonal, "orthogonal"), (residual, "residual")):
                for number, (_, curve) in enumerate(style.layer_heads(result[f"{kind}_{name}"])):
                    label = style.math_label(name) if number == 0 else "_"
                    x = style.step_axis(ax, curve)
                    style.line_with_band(ax, x, curve, label=label, **style.weight_line(name))
        style.label_axes(orthogonal, y=r"$\|W - W\hat{w}\hat{w}^T\|$", title="direction at condensation")
        style.label_axes(residual, y=r"$(\Sigma_{k>1}\sigma_k^2)^{1/2}$", title="direction at each step")
        orthogonal.set_xlabel("")
        style.legend(figure)


def _own(side: str, weight: xr.DataArray) -> xr.Dataset:
    """Norm, residual and leading direction on `side` of every matrix by itself."""
    found = spectrum(weight.values)
    row, column = weight.dims[-2:]
    direction = weight.isel({column if side == row else row: 0}, drop=True)
    return xr.Dataset(
        {
            "share": per_matrix(weight, energy_share(found.values)),
            "norm": per_matrix(weight, np.linalg.norm(found.values, axis=-1)),
            "residual": per_matrix(weight, np.linalg.norm(found.values[..., 1:], axis=-1)),
            "direction": direction.copy(data=found.left if side == row else found.right),
        }
    )


def _orthogonal(direction: xr.DataArray, side: str, weight: xr.DataArray) -> xr.Dataset:
    """Norm of the part orthogonal to a fixed unit `direction` along `side`."""
    matrices = weight.dims[-2:]
    weight = weight.where(np.isfinite(weight)).astype(np.float64)
    # the part itself and not |W|² - |W ŵ|², whose rounding would hide parts below 1e-8 of the whole
    part = weight - xr.dot(weight, direction, dim=side) * direction
    norm = np.sqrt((part**2).sum(matrices, skipna=False))
    return xr.Dataset({"orthogonal": norm.transpose(*weight.dims[:-2])})


def _condensed_record(share: xr.DataArray, condensed: float) -> xr.DataArray:
    """The record of the largest share within the first stretch that reaches `condensed`, else overall."""
    values = share.transpose(..., "step")
    reached = values.values >= condensed
    begun = np.maximum.accumulate(reached, axis=-1)
    ended = np.maximum.accumulate(begun & ~reached, axis=-1)
    eligible = np.where(reached.any(axis=-1, keepdims=True), begun & ~ended, True)
    record = np.where(eligible & np.isfinite(values.values), values.values, -1).argmax(axis=-1)
    return xr.DataArray(record, dims=values.dims[:-1])


def _quantities(name: str, own: xr.Dataset, orthogonal: xr.DataArray) -> dict[str, xr.DataArray]:
    norm = own["norm"].where(own["norm"] > 0)
    reference, present = f"the direction of {name} at condensation", f"the leading direction of {name}"
    return {
        f"orthogonal_{name}": describe(
            orthogonal, f"norm of {name} outside {reference}", r"\|W - W\hat w\hat w^T\|_F"
        ),
        f"orthogonal_relative_{name}": describe(orthogonal / norm, f"share of the norm outside {reference}"),
        f"residual_{name}": describe(
            own["residual"], f"norm of {name} outside {present}", r"(\sum_{k>1}\sigma_k^2)^{1/2}"
        ),
        f"residual_relative_{name}": describe(own["residual"] / norm, f"share of the norm outside {present}"),
    }
