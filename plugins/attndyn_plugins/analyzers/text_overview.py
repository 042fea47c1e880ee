"""A run on text at a glance, in the layout of the paper's Figure 3: loss, attention, norms, n-grams."""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.ngrams import NAMES
from attndyn.analysis.records import describe, group
from attndyn.analysis.series import smooth
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions

HEADS = ("layer", "head")


@analyzer("text_overview")
class TextOverview(Analyzer):
    """Four panels over training, with bands over seeds; heads are averaged.

    The loss on what is held out stands beside that of the batches where the probe `held_out` recorded it.
    """

    class Options(AnalyzerOptions):
        """How much of the loss's noise is taken away."""

        kind: Literal["text_overview"] = "text_overview"
        smoothing: float = Field(
            default=0.02, ge=0, lt=1, description="width of the running mean, share of step"
        )

    options: TextOverview.Options
    requires = ("loss", "token_classes", "predictions")
    title = "Loss, attention, norms and n-grams"
    height = 5.6

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """What is drawn, each on the steps of its own probe.

        `loss(replica, loss_step)`, smoothed; where it was recorded, `held_out_loss(replica, held_out_step)`,
        as it is; `attention(replica, classes_step, named)` and `uniform(replica, named)`, means over layers
        and heads; `norm(replica, classes_step, band)`; `kl(replica, predictions_step, reference)` in nats.
        """
        loss = _own_steps(group(trajectory, "loss")["loss"], "loss")
        steps = loss["loss_step"].values.astype(float)
        width = self.options.smoothing * steps
        smoothed = np.array([_smooth(steps, curve, width) for curve in loss.values]).reshape(loss.shape)
        classes, predictions = group(trajectory, "token_classes"), group(trajectory, "predictions")
        references = ("unigram", "bigram", "pseudo_bigram")
        kl = xr.concat(
            [_mean(predictions[f"kl_{name}"]) for name in references],
            xr.IndexVariable("reference", list(references)),
            coords="minimal",
            compat="override",
        )
        uniform = classes["uniform_token"].isel(step=-1, drop=True).drop_vars("time", errors="ignore")
        attention = _own_steps(_mean(classes["attention_token"]), "classes")
        held_out = {}
        if "held_out" in trajectory.children:
            held_out["held_out_loss"] = _own_steps(group(trajectory, "held_out")["held_out_loss"], "held_out")
        return xr.Dataset(
            held_out
            | {
                "loss": describe(
                    loss.copy(data=smoothed), "cross-entropy of the next token, smoothed", "L", "nats"
                ),
                "attention": describe(attention, "attention to a token, mean over queries and heads", "A"),
                "uniform": describe(
                    uniform.transpose("replica", "named"), "the same, were attention uniform"
                ),
                "norm": describe(
                    _own_steps(classes["norm_band"], "classes"), "mean embedding norm of a band"
                ),
                "kl": describe(
                    _own_steps(kl, "predictions"),
                    "KL of the n-gram from the predictions",
                    r"KL(q \| p)",
                    "nats",
                ),
            }
        )

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """Loss and attention to the named tokens above; norms by band and the KL from n-grams below."""
        (loss, attention), (norm, kl) = figure.subplots(2, 2)
        x = style.step_axis(loss, group(trajectory, "loss"))
        style.line_with_band(loss, x, result["loss"], style.color(6), "batches")
        if "held_out_loss" in result:
            x = style.step_axis(loss, group(trajectory, "held_out"))
            style.line_with_band(loss, x, result["held_out_loss"], style.color(1), "held out")
            style.panel_legend(loss)
        x = style.step_axis(attention, group(trajectory, "token_classes"))
        style.token_curves(attention, x, result["attention"], "named", trajectory)
        for token, line in style.token_lines(trajectory, result["named"].values.tolist()).items():
            level = float(result["uniform"].sel(named=token).mean())
            attention.axhline(level, **style.REFERENCE | {"color": line["color"]})
        attention.plot([], [], label="uniform", **style.REFERENCE)
        _curves(norm, result["norm"], "band", style.step_axis(norm, group(trajectory, "token_classes")))
        _curves(kl, result["kl"], "reference", style.step_axis(kl, group(trajectory, "predictions")))
        for ax, label, units in (
            (loss, "loss", "nats"),
            (attention, "attention to the token", "1"),
            (norm, "mean norm", "1"),
            (kl, "KL(n-gram‖p)", "nats"),
        ):
            style.label_axes(ax, y=label, units=units)
        for ax in (attention, norm, kl):
            ax.set_ylim(bottom=0)
            handles, _ = ax.get_legend_handles_labels()
            if handles:
                style.panel_legend(ax)


def _curves(ax: Axes, values: xr.DataArray, dim: str, x: np.ndarray) -> None:
    """A curve with its band for each label that has one."""
    for number, label in enumerate(values[dim].values.tolist()):
        curves = values.sel({dim: label})
        if bool(curves.notnull().any()):
            style.line_with_band(ax, x, curves, style.color(number), NAMES.get(label, label))


def _mean(array: xr.DataArray) -> xr.DataArray:
    return array.mean([dim for dim in HEADS if dim in array.dims], skipna=False)


def _own_steps(array: xr.DataArray, probe: str) -> xr.DataArray:
    """With the steps of its probe as a dimension of its own: probes record at different steps."""
    named = array.drop_vars("time", errors="ignore").rename({"step": f"{probe}_step"})
    return named.transpose("replica", f"{probe}_step", ...).load()


def _smooth(steps: np.ndarray, curve: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The running mean up to the first value that is not finite."""
    bad = ~np.isfinite(curve)
    end = int(np.argmax(bad)) if bad.any() else len(curve)
    out = np.full(len(curve), np.nan)
    out[:end] = smooth(steps[:end], curve[:end].astype(float), width[:end])
    return out
