"""How far every weight has condensed onto one direction, and whether that is the predicted one."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, group, over_steps
from attndyn.analysis.spectra import (
    Array,
    abs_cosine,
    energy_share,
    per_matrix,
    spectrum,
    weight_matrices,
)
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions

UNIFORM = 1e-12


@analyzer("condensation")
class Condensation(Analyzer):
    """Energy share of every weight's leading direction, the inverse of its stable rank; where it points."""

    class Options(AnalyzerOptions):
        """No options of its own."""

        kind: Literal["condensation"] = "condensation"

    requires = ("parameters",)
    title = "Condensation of the weights"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Rank and alignment, all dimensionless, NaN for a zero or not-finite matrix.

        For every weight W, layer and head where it has them: `energy_share_W(replica, step[, layer, head])`,
        the share of the squared Frobenius norm that its leading direction holds, and its inverse, the stable
        rank `stable_rank_W`. `alignment_W_0(replica, step)` is the |cosine| of W_0's leading left singular
        vector with π, `alignment_W_1` that of W_1's leading right one with π - 1/d: the directions on which
        gradient flow from small initial weights condenses (arXiv:2605.01199, stage I).
        """
        pi = trajectory.dataset["pi"].transpose("replica", "token").values[:, None]
        excess = pi - 1 / pi.shape[-1]
        excess[np.abs(excess).max(axis=-1) < UNIFORM] = 0  # a uniform π predicts no direction for W_1
        targets = {"W_0": ("left", pi, r"\pi"), "W_1": ("right", excess, r"\pi - 1/d")}
        parameters = group(trajectory, "parameters")
        found = xr.Dataset()
        for name, weight in weight_matrices(parameters).items():
            found.update(over_steps(partial(_condensation, name, targets.get(name)), weight))
        return found

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Energy share of every weight above; below, how W_0 and W_1 align with the predicted directions."""
        share, alignment = figure.subplots(2, 1, sharex=True)
        for name in _names(result, "energy_share_"):
            for number, (_, curve) in enumerate(style.layer_heads(result[f"energy_share_{name}"])):
                label = style.math_label(name) if number == 0 else "_"
                x = style.step_axis(share, curve)
                style.line_with_band(share, x, curve, label=label, **style.weight_line(name))
        for name in _names(result, "alignment_"):
            curve = result[f"alignment_{name}"]
            label = f"{style.math_label(name)} with ${curve.attrs['symbol']}$"
            x = style.step_axis(alignment, curve)
            style.line_with_band(alignment, x, curve, label=label, **style.weight_line(name))
        style.label_axes(share, y=r"$\sigma_1^2\,/\,\Sigma_k\sigma_k^2$")
        style.label_axes(alignment, y="|cos|")
        for ax in (share, alignment):
            ax.set_ylim(0, 1.04)
            style.panel_legend(ax)
        share.set_xlabel("")


def _condensation(name: str, target: tuple[str, Array, str] | None, weight: xr.DataArray) -> xr.Dataset:
    found = spectrum(weight.values)
    share = per_matrix(weight, energy_share(found.values))
    quantities = {
        f"energy_share_{name}": describe(
            share,
            f"share of the energy of {name} in its leading direction",
            r"\sigma_1^2/\sum_k\sigma_k^2",
            valid=(0.0, 1.0),
        ),
        f"stable_rank_{name}": describe(1 / share, f"stable rank of {name}", r"\|W\|_F^2/\|W\|_2^2"),
    }
    if target:
        side, direction, symbol = target
        cosine = per_matrix(weight, abs_cosine(getattr(found, side), direction))
        quantities[f"alignment_{name}"] = describe(
            cosine, f"|cosine| of {name}'s leading {side} singular vector with {symbol}", symbol
        )
    return xr.Dataset(quantities)


def _names(result: xr.Dataset, prefix: str) -> list[str]:
    return [str(name).removeprefix(prefix) for name in result.data_vars if str(name).startswith(prefix)]
