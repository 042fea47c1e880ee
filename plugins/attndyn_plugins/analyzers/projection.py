"""How much of every weight lies outside one direction: flat, then rising as new directions open."""

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
    """Norm of the part of every weight orthogonal to the condensed direction, and to its own leading one."""

    class Options(AnalyzerOptions):
        """When W_0 counts as condensed, which fixes the reference direction."""

        kind: Literal["projection"] = "projection"
        condensed: float = Field(
            default=0.95, gt=0, le=1, description="energy share of the leading direction"
        )

    options: Projection.Options
    requires = ("parameters",)
    title = "Orthogonal parts of the weights"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Orthogonal parts of every weight W, layer and head where it has them; Frobenius norms.

        On the rank-one invariant manifold of the paper all weights share one direction ŵ of the residual
        stream (d_model). It is taken from W_0, which condenses first: its leading right singular vector at
        `reference_step(replica)`, the record where W_0 is closest to rank one within the first stretch in
        which its energy share is at least `condensed` (over all records, if there is no such stretch).

        - `orthogonal_W(replica, step[, layer, head])` = ‖W - W ŵ ŵᵀ‖, the distance from that manifold. It is
          flat at the size of the initial weights as long as training moves along ŵ, in whatever way, and
          rises when a new direction opens. Weights that do not touch the residual stream have none.
        - `residual_W`, the distance from the nearest matrix of rank one, that is from W's own leading
          direction of the same step: 0 for a rank-one matrix, blind to a turn of that direction.

        `orthogonal_relative_W` and `residual_relative_W` are the same over ‖W‖. Not-finite records are NaN.
        """
        weights = weight_matrices(group(trajectory, "parameters"))
        reference = over_steps(_leading, weights["W_0"])
        record = _condensed_record(reference["share"], self.options.condensed)
        chosen = reference["direction"].isel(step=record)
        direction = chosen.drop_vars(["step", "time"], errors="ignore")
        found = xr.Dataset(
            {
                "reference_step": describe(
                    chosen["step"].drop_vars(["step", "time"], errors="ignore"),
                    "step at which the reference direction was taken",
                    units="step",
                ),
                "direction": describe(direction, "reference direction of the residual stream", r"\hat w"),
            }
        )
        for name, weight in weights.items():
            found.update(over_steps(partial(_residual, name), weight))
            if "model" in weight.dims[-2:]:
                found.update(over_steps(partial(_orthogonal, name, direction), weight))
        return found

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Norms of the parts outside the common direction (above) and each weight's own (below)."""
        orthogonal, residual = figure.subplots(2, 1, sharex=True, sharey=True)
        for ax, kind in ((orthogonal, "orthogonal"), (residual, "residual")):
            for name in _names(result, f"{kind}_relative_"):
                for number, (_, curve) in enumerate(style.layer_heads(result[f"{kind}_{name}"])):
                    label = style.math_label(name) if number == 0 else "_"
                    x = style.step_axis(ax, curve)
                    style.line_with_band(ax, x, curve, label=label, **style.weight_line(name))
        style.label_axes(
            orthogonal, y=r"$\|W - W\hat{w}\hat{w}^T\|$", title=r"outside $\hat{w}$, where $W_0$ condensed"
        )
        style.label_axes(
            residual, y=r"$(\Sigma_{k>1}\sigma_k^2)^{1/2}$", title="outside its own leading direction"
        )
        style.log_y(orthogonal, residual)
        orthogonal.set_xlabel("")
        style.legend(figure)


def _leading(weight: xr.DataArray) -> xr.Dataset:
    """Energy share and leading direction in the residual stream of W_0, (replica, step[, model])."""
    weight = weight.transpose(..., "token", "model")
    found = spectrum(weight.values)
    return xr.Dataset(
        {
            "share": per_matrix(weight, energy_share(found.values)),
            "direction": weight.isel(token=0, drop=True).copy(data=found.right),
        }
    )


def _condensed_record(share: xr.DataArray, condensed: float) -> xr.DataArray:
    """The record of the largest share within the first stretch that reaches `condensed`, else overall."""
    values = share.transpose("replica", "step").values
    reached = values >= condensed
    begun = np.maximum.accumulate(reached, axis=-1)
    ended = np.maximum.accumulate(begun & ~reached, axis=-1)
    eligible = np.where(reached.any(axis=-1, keepdims=True), begun & ~ended, True)
    record = np.where(eligible & np.isfinite(values), values, -1).argmax(axis=-1)
    return xr.DataArray(record, dims="replica")


def _residual(name: str, weight: xr.DataArray) -> xr.Dataset:
    values = spectrum(weight.values).values
    residual = per_matrix(weight, np.linalg.norm(values[..., 1:], axis=-1))
    norm = per_matrix(weight, np.linalg.norm(values, axis=-1))
    what, symbol = f"{name} outside its own leading direction", r"(\sum_{k>1}\sigma_k^2)^{1/2}"
    return _pair("residual", name, residual, norm, what, symbol)


def _orthogonal(name: str, direction: xr.DataArray, weight: xr.DataArray) -> xr.Dataset:
    matrix = weight.dims[-2:]
    weight = weight.where(np.isfinite(weight)).astype(np.float64)
    # the part itself and not |W|² - |W ŵ|², whose rounding would hide parts below 1e-8 of the whole
    part = weight - xr.dot(weight, direction, dim="model") * direction
    orthogonal, norm = ((array**2).sum(matrix, skipna=False) ** 0.5 for array in (part, weight))
    what, symbol = f"{name} outside the reference direction", r"\|W - W\hat w\hat w^T\|_F"
    return _pair("orthogonal", name, orthogonal, norm, what, symbol)


def _pair(kind: str, name: str, part: xr.DataArray, norm: xr.DataArray, what: str, symbol: str) -> xr.Dataset:
    """The part's norm as such, and relative to that of the whole; NaN for a zero matrix."""
    return xr.Dataset(
        {
            f"{kind}_{name}": describe(part, f"norm of {what}", symbol),
            f"{kind}_relative_{name}": describe(part / norm.where(norm > 0), f"share of the norm of {what}"),
        }
    )


def _names(result: xr.Dataset, prefix: str) -> list[str]:
    return [str(name).removeprefix(prefix) for name in result.data_vars if str(name).startswith(prefix)]
