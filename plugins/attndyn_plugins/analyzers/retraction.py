"""How deep every token's embedding retracts, and when: figures that compare across architectures."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe
from attndyn.analysis.retraction import NORMS, RetractionOptions, deepest, embedding_norms, norms_group
from attndyn.analysis.series import Array, band
from attndyn.registry import analyzer
from attndyn.report import style

QUANTILES = [0.5, 0.1, 0.9]
QUANTITIES = {
    "depth": ("largest loss of embedding norm, relative to the peak before it; 0 where there is none", "1"),
    "growth": ("step at which the embedding has grown to half of that peak", "step"),
    "start": ("step at which a tenth of the loss has happened", "step"),
    "trough": ("step of the smallest norm", "step"),
    "recovery": ("step at which half of the loss is regained", "step"),
    "relative_start": ("start of the retraction over the step of growth", "1"),
}


@analyzer("retraction")
class Retraction(Analyzer):
    """Depth, start, trough and recovery of each token's deepest retraction, and of the medium tokens."""

    class Options(RetractionOptions):
        """What counts as a retraction."""

        kind: Literal["retraction"] = "retraction"

    options: Retraction.Options
    requires = (NORMS,)
    title = "Retraction of the embeddings"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """The deepest retraction (docs/stages.md) of every token, over the replicas, and of the medium ones.

        `depth(replica, token)` = 1 - trough/peak, 0 if no fall stands out and NaN if none can be told: fewer
        than `FEWEST` records, or divergence before one;
        `start`, `trough`, `recovery` `(replica, token)` in steps and NaN where not reached, `growth`, where
        the norm first had half of the peak that it falls from, and `relative_start` = start/growth, which
        neither a learning rate nor a number of layers rescales. `depth_band(quantile, token)` and so on have
        the median and the 10-90 % range over the replicas that have it, `share(token)` the share of the
        replicas, of those of which it can be told, in which the token retracts.

        Medium tokens are those neither the most frequent nor the rarest in the replica, `medium(replica,
        token)`. `medium_depth(replica)` is their mean depth, `medium_start`, … the medians over those that
        have the step; `medium_depth_band(quantile)` and so on as above.
        """
        norms = embedding_norms(trajectory)
        steps = norms["step"].values
        table = np.array([[deepest(steps, curve, self.options) for curve in each] for each in norms.values])
        medium = _medium(trajectory.dataset["pi"].transpose("replica", "token").values)
        dims = ("replica", "token")
        found = xr.Dataset(coords={dim: norms[dim] for dim in dims} | {"quantile": QUANTILES})
        found["medium"] = describe(
            xr.DataArray(medium, dims=dims), "whether neither the most frequent token nor the rarest"
        )
        for number, (name, (what, units)) in enumerate(QUANTITIES.items()):
            values = table[..., number]
            found.update(_with_bands(name, what, units, values, dims))
            summarise = np.nanmean if name == "depth" else np.nanmedian
            over_medium = _summary(values, medium, summarise)
            found.update(
                _with_bands(f"medium_{name}", f"{what}; medium tokens", units, over_medium, dims[:1])
            )
        share = (found["depth"] > 0).where(found["depth"].notnull()).mean("replica")
        found["share"] = describe(share, "share of the replicas in which the token retracts")
        return found

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Depth of each token's deepest retraction, replicas as dots, above; its timing below."""
        depth, timing = figure.subplots(2, 1)
        colors = style.token_colors(trajectory, result["token"].values.tolist())
        for row, (token, color) in enumerate(colors.items()):
            one = result.sel(token=token)
            _draw_range(depth, row, one["depth_band"], color)
            depth.plot(one["depth"], np.full(one.sizes["replica"], row), ".", color=color, markersize=3)
            _draw_timing(timing, row, one, color)
        names, total = list(style.distinct(colors).values()), result.sizes["token"]
        left_out = f" ({len(names)} of {total})" if len(names) < total else ""
        for ax in (depth, timing):
            ax.set_yticks(range(len(names)), names)
            ax.set_ylim(len(names) - 0.5, -0.5)
            style.label_axes(ax, y=f"token{left_out}")
        depth.set_xlim(-0.02, 1.02)
        style.label_axes(depth, x="depth, 1 - trough / peak")
        timing.set_xlim(left=0, right=max(float(norms_group(trajectory)["step"][-1]), 1))
        style.label_axes(timing, x="step")
        style.legend(figure)


def _medium(pi: Array) -> NDArray[np.bool_]:
    """Which tokens are neither the most frequent nor the rarest, (replica, token); ties by their order."""
    order = np.argsort(-pi, axis=1, kind="stable")
    medium = np.zeros(pi.shape, dtype=bool)
    np.put_along_axis(medium, order[:, 1:-1], True, axis=1)
    return medium


def _summary(values: Array, medium: NDArray[np.bool_], function: Any) -> Array:
    """`function` over the medium tokens that have a value, (replica,); NaN where none has."""
    chosen = [row[which & np.isfinite(row)] for row, which in zip(values, medium, strict=True)]
    return np.array([function(row) if len(row) else np.nan for row in chosen])


def _with_bands(name: str, what: str, units: str, values: Array, dims: tuple[str, ...]) -> xr.Dataset:
    """A quantity (replica, ...), and its median and 10-90 % range over replicas."""
    over = band(values)
    quantiles = xr.DataArray(np.stack([over.median, over.p10, over.p90]), dims=("quantile", *dims[1:]))
    return xr.Dataset(
        {
            name: describe(xr.DataArray(values, dims=dims), what, units=units),
            f"{name}_band": describe(quantiles, f"{what}; over replicas", units=units),
        }
    )


def _draw_range(ax: Axes, row: int, quantiles: xr.DataArray, color: str, **marks: Any) -> None:
    """The median of a band as a marker, on its 10-90 % range."""
    median, low, high = quantiles.sel(quantile=QUANTILES).values
    ax.plot([low, high], [row, row], color=color, linewidth=1, alpha=0.6)
    look: dict[str, Any] = {"color": color, "marker": "|", "markersize": 9, "linestyle": "none"}
    ax.plot([median], [row], **(look | marks))


def _draw_timing(ax: Axes, row: int, one: xr.Dataset, color: str) -> None:
    """Start, trough and recovery of one token, with their bands."""
    marks = {"start": ">", "trough": "v", "recovery": "o"}
    medians = [float(one[f"{name}_band"].sel(quantile=0.5)) for name in marks]
    ax.plot(medians, [row] * len(medians), color=color, linewidth=0.8, linestyle=style.DASHES[2])
    for name, marker in marks.items():
        label = name if row == 0 else "_"
        _draw_range(ax, row, one[f"{name}_band"], color, marker=marker, markersize=4, label=label)
