"""At which stage a patience rule on the loss would end the training, and what would never have been seen."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import xarray as xr
import yaml
from matplotlib.figure import FigureBase
from pydantic import Field

from attndyn.analysis.analyzer import Analyzer
from attndyn.analysis.records import describe, group
from attndyn.analysis.settings import settings
from attndyn.analysis.stage_table import HEAD
from attndyn.analysis.stages import StageOptions
from attndyn.analysis.stopping import diverged, stopping_step
from attndyn.analysis.timeline import stage_labels
from attndyn.registry import analyzer
from attndyn.report import style
from attndyn.spec.base import AnalyzerOptions
from attndyn_plugins.analyzers.stages import Stages

GOES_ON, DIVERGED = "goes on", "diverged"


@analyzer("early_stopping")
class EarlyStopping(Analyzer):
    """The step and stage at which training would be stopped, for several patience values."""

    class Options(AnalyzerOptions):
        """The rule: no improvement of the smoothed loss by `min_delta` for `patience` steps."""

        kind: Literal["early_stopping"] = "early_stopping"
        patience: tuple[Annotated[float, Field(gt=0)], ...] = Field(
            default=(50, 100, 200, 400), min_length=1, strict=False, description="in steps, each tried"
        )
        min_delta: float = Field(default=1e-3, ge=0, description="least improvement, in nats")
        memory: float = Field(
            default=50.0, ge=0, description="of the running mean of the loss, in steps; 0: no smoothing"
        )
        stages: StageOptions = Field(
            default=StageOptions(), description="how boundaries are read; as those of `stages`, if it has any"
        )

    options: EarlyStopping.Options
    requires = ("loss", "attention", "parameters")
    title = "Early stopping"

    def analyze(self, trajectory: xr.DataTree) -> xr.Dataset:
        """Where training would stop; docs/stages.md.

        `stop_step(patience, replica)`, NaN where training goes on to the end or the loss diverges first;
        `stop_stage(patience, replica, layer, head)`, the stage by then, `goes on` or `diverged`;
        `missed(patience, replica, layer, head, boundary)`, 1 for a boundary of the record after the stop, 0
        for one before it, NaN for an absent one; `missed_share(patience, setting, layer, head, boundary)`,
        their mean over the replicas of each setting; `stopped_share(patience, setting)`, the share that stops
        of those replicas that do not diverge before, NaN if all do.
        """
        found = Stages(self.options.stages).analyze(trajectory)
        true = found["boundary_step"].transpose(*HEAD, "boundary")
        loss = group(trajectory, "loss")["loss"].load().transpose("replica", "step")
        steps = loss["step"].values.astype(float)
        patience = sorted(set(self.options.patience))
        stops = np.array([[self._stop(steps, one, wait) for one in loss.values] for wait in patience])
        waits = xr.IndexVariable("patience", np.asarray(patience, float), {"units": "step"})
        coords = {"patience": waits, **({"replica": loss["replica"]} if "replica" in loss.coords else {})}
        stop = xr.DataArray(stops, dims=("patience", "replica"), coords=coords)
        lost = stop.isnull() & xr.DataArray(_lost(trajectory, loss), dims="replica")
        missed = (stop < true).where(true.notnull()).transpose("patience", *HEAD, "boundary")
        groups = settings(trajectory)
        labels = xr.IndexVariable("setting", [setting.label for setting in groups])

        def share(values: xr.DataArray) -> xr.DataArray:
            parts = [values.isel(replica=list(setting.replicas)).mean("replica") for setting in groups]
            return xr.concat(parts, labels).transpose("patience", "setting", ...)

        return xr.Dataset(
            {
                "stop_step": describe(stop, "step at which training would be stopped", units="step"),
                "stop_stage": describe(
                    _stages(stop, lost, true, steps), "stage at which it would be stopped"
                ),
                "missed": describe(missed, "whether the boundary comes after the stop"),
                "missed_share": describe(
                    share(missed), "share of the replicas with the boundary that stop before it"
                ),
                "stopped_share": describe(
                    share(stop.notnull().where(~lost)),
                    "share of the replicas that stop, of those that do not diverge",
                ),
            }
        )

    def _stop(self, steps: np.ndarray, loss: np.ndarray, patience: float) -> float:
        return stopping_step(steps, loss, patience, self.options.min_delta, self.options.memory)

    def draw(self, result: xr.Dataset, trajectory: xr.DataTree, figure: FigureBase) -> None:
        """The loss with the stop of every replica above; how many stop before each boundary below.

        Of several heads the first layer's first one is shown.
        """
        above, below = figure.subplots(2, 1)
        loss = group(trajectory, "loss")["loss"].load().transpose("replica", "step")
        x = style.step_axis(above, loss)
        style.line_with_band(above, x, loss, "0.5", "loss")
        rows = result["missed_share"].isel(layer=0, head=0).mean("setting")
        at = np.arange(rows.sizes["boundary"])
        width = 0.8 / rows.sizes["patience"]
        for number, wait in enumerate(result["patience"].values):
            stops = result["stop_step"].sel(patience=wait).values
            stops = np.interp(stops[np.isfinite(stops)], loss["step"].values, x)
            color, label = style.color(number), f"patience {wait:g}"
            for stop in stops:
                above.axvline(stop, color=color, linewidth=0.7)
            left = at + (number + 0.5) * width - 0.4
            below.bar(left, rows.sel(patience=wait).values, width=width, color=color, label=label)
        names = [name.replace("_", " ") for name in rows["boundary"].values.tolist()]
        below.set_xticks(at, names, rotation=90)
        below.set_ylim(0, 1.02)
        style.label_axes(above, y="loss", units="nats")
        style.label_axes(below, y="missed in")
        style.legend(figure)


def _lost(trajectory: xr.DataTree, loss: xr.DataArray) -> np.ndarray:
    """Whether each replica diverged, by the bound of its run, shape (replica,)."""
    max_loss = float(yaml.safe_load(trajectory.attrs["spec_yaml"])["training"]["max_loss"])
    return np.array([diverged(one, max_loss) for one in loss.values])


def _stages(stop: xr.DataArray, lost: xr.DataArray, true: xr.DataArray, steps: np.ndarray) -> xr.DataArray:
    """The stage of every replica, layer and head at its stop, (patience, replica, layer, head)."""
    names = true["boundary"].values.tolist()
    labels = np.full((stop.sizes["patience"], *true.shape[:3]), GOES_ON, dtype=object)
    labels[lost.values] = DIVERGED
    for place in np.ndindex(labels.shape):
        at = float(stop.values[place[:2]])
        if np.isfinite(at):
            known = dict(zip(names, true.values[place[1:]].tolist(), strict=True))
            labels[place] = stage_labels(known, np.array([steps[0], at]))[-1]
    coords = {name: true[name] for name in HEAD if name in true.coords} | {"patience": stop["patience"]}
    return xr.DataArray(labels.astype(str), dims=("patience", *HEAD), coords=coords)
