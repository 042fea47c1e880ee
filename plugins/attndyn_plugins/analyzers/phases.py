"""Rises and falls of attention to frequent tokens, measured by the ratio of attention to frequency."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.over_replicas import with_band
from attndyn.analysis.phases import PhaseOptions, find_phases
from attndyn.analysis.records import describe, group
from attndyn.analysis.series import Array, band
from attndyn.registry import analyzer
from attndyn.report import style

#: tops whose steps differ by no more than this share are drawn as one
NEAR = 0.2
COUNTS = {
    "phases": "rises and falls of attention that have begun",
    "falls_first": "whether attention falls before it first rises",
}
HEADS = ("replica", "layer", "head")
STEPS = {
    "rise_onset": ("step at which a tenth of the rise has happened", "step"),
    "peak": ("step of the middle of the top", "step"),
    "fall_onset": ("step at which the fall begins", "step"),
    "fall_end": ("step at which a tenth of the fall is left", "step"),
    "height": ("how far the ratio of attention to frequency rises from the trough before", "1"),
    "depth": ("how far it falls after the top", "1"),
}


@analyzer("phases")
class Phases(Analyzer):
    """How many phases attention to every named token and to the bands of frequency goes through, and when."""

    class Options(PhaseOptions):
        """What counts as a rise or a fall."""

        kind: Literal["phases"] = "phases"

    options: Phases.Options
    requires = ("token_classes",)
    title = "Phases of attention to frequent tokens"
    numbers = ("phases", "falls_first", "rise_onset", "peak", "fall_onset", "fall_end")

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Cycles and phases by `of`: named tokens, and bands as `[high]`, `[medium]`, `[low]`.

        `ratio(replica, step, layer, head, of)` is attention over what uniform attention gives, 1 at first;
        NaN for what does not occur. `phases(replica, layer, head, of)` counts all rises and falls that have
        begun (a rise and a fall are 2), NaN for what does not occur and where a replica diverged.
        `falls_first(replica, layer, head, of)` is 1 where attention falls before it first rises, which is not
        counted, else 0. `rise_onset`, `peak`, `fall_onset`, `fall_end`, `height`, `depth`
        (replica, layer, head, of, cycle) describe the first `cycles` rises and falls, NaN where absent.
        `…_band` have the median and the 10-90 % range over the replicas that have it. docs/corpora.md defines
        them.
        """
        ratio = _ratio(group(trajectory, "token_classes"))
        ratio = ratio.transpose(*HEADS, "of", "step")
        steps = ratio["step"].values.astype(float)
        shape = ratio.shape[:-1]
        counts = {name: np.full(shape, np.nan) for name in COUNTS}
        table = np.full((*shape, self.options.cycles, len(STEPS)), np.nan)
        for place in np.ndindex(shape):
            found = find_phases(steps, ratio.values[place], self.options)
            counts["phases"][place], counts["falls_first"][place] = found.number, found.falls_first
            for number, cycle in enumerate(found.cycles[: self.options.cycles]):
                table[(*place, number)] = [getattr(cycle, name) for name in STEPS]
        coords = {"of": ratio["of"]} | {d: ratio[d] for d in HEADS if d in ratio.coords}
        dims = (*HEADS, "of")
        result: dict[str, xr.DataArray] = {}
        for name, what in COUNTS.items():
            result |= with_band(xr.DataArray(counts[name], dims=dims, coords=coords), name, what)
        for number, (name, (what, units)) in enumerate(STEPS.items()):
            values = xr.DataArray(table[..., number], dims=(*dims, "cycle"), coords=coords)
            result |= with_band(values, name, what, units)
        result["ratio"] = describe(
            ratio.transpose("replica", "step", "layer", "head", "of"),
            "attention over its uniform share",
            r"A / \pi",
        )
        return xr.Dataset(result)

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """The ratio over training, a curve a token, a panel a head; dots mark tops that replicas share.

        A dot marks where the median is highest between the begin of a rise and that of the fall after it, if
        the replicas have their tops at about the same step.
        """
        panels = style.layer_heads(result["ratio"])
        cycles = [style.layer_heads(result[name]) for name in ("rise_onset", "peak", "fall_onset")]
        lines = style.token_lines(trajectory, result["of"].values.tolist())
        dots: dict[str, Any] = {"marker": ".", "markersize": 6, "linestyle": "none"}
        axes = style.panel_grid(figure, len(panels), sharex=True, sharey=True)
        for ax, (title, ratio), *of_head in zip(axes, panels, *cycles, strict=True):
            x = style.step_axis(ax, ratio)
            style.token_curves(ax, x, ratio, "of", trajectory)
            for token, line in lines.items():
                curve = ratio.sel(of=token).transpose("replica", "step")
                places = [steps.sel(of=token).transpose("replica", "cycle").values for _, steps in of_head]
                median = band(curve.values).median
                at = _tops(curve["step"].values, median, *places)
                ax.plot(x[at], median[at], color=line["color"], **dots)
            ax.axhline(1.0, label="uniform", **style.REFERENCE)
            style.label_axes(ax, y="attention / frequency", title=title)
            ax.label_outer()
        style.log_y(*axes)
        style.legend(figure)


def _tops(steps: Array, curve: Array, begins: Array, peaks: Array, ends: Array) -> NDArray[np.intp]:
    """Records at which a median curve tops out, of the cycles (replica, cycle) that most replicas share."""
    over = band(peaks)
    shared = (over.share >= 0.5) & (over.p90 - over.p10 <= NEAR * over.median)
    between = zip(band(begins).median[shared], band(ends).median[shared], strict=True)
    inside = [np.flatnonzero((steps >= begin) & (steps <= end)) for begin, end in between]
    return np.array([each[curve[each].argmax()] for each in inside if len(each)], dtype=np.intp)


def _ratio(classes: xr.Dataset) -> xr.DataArray:
    """Attention over its uniform share, of named tokens and of bands other than that of `<unk>`."""
    tokens, bands = _over(classes, "token", "named"), _over(classes, "band", "band").isel(of=slice(0, 3))
    labels = [*tokens["of"].values.tolist(), *(f"[{name}]" for name in bands["of"].values.tolist())]
    both = xr.concat(
        [tokens.drop_vars("of"), bands.drop_vars("of")], "of", coords="minimal", compat="override"
    )
    return both.assign_coords(of=labels)


def _over(classes: xr.Dataset, name: str, dim: str) -> xr.DataArray:
    attention, uniform = classes[f"attention_{name}"], classes[f"uniform_{name}"]
    return (attention / uniform.where(uniform > 0)).rename({dim: "of"})
