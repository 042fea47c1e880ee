"""The labelled dataset of the stage detector, from what was found for each replica, layer and head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attndyn.analysis.cycle import Cycle
from attndyn.analysis.records import describe
from attndyn.analysis.series import Array, band
from attndyn.analysis.settings import Setting
from attndyn.analysis.stages import Detection
from attndyn.analysis.timeline import OF_ATTENTION, boundaries, order_faults, stage_labels

HEAD = ("replica", "layer", "head")
EVENTS = {
    "focus_onset": "rise_onset",
    "focus_peak": "peak",
    "dilution_onset": "fall_onset",
    "dilution_end": "fall_end",
}


@dataclass(frozen=True)
class StageTable:
    """Turns detections into variables; docs/stages.md lists them.

    Attributes:
        found: a `Detection` for each (replica, layer, head).
        coords: coordinates of those dimensions, where they have any.
        queries: labels of the query tokens, shape (query,).
        query_ranks: rank by frequency of each of them, shape (replica, query).
        ranked: labels of tokens by rank, shape (replica, rank).
        steps: coordinate of the attention's records, at which the stages are labelled, shape (step,).
        parameter_steps: steps of the parameters' records, shape (record,).
        settings: which replicas repeat one another; medians and bands are over those of one setting.
    """

    found: NDArray[Any]
    coords: Mapping[str, Any]
    queries: NDArray[Any]
    query_ranks: NDArray[np.intp]
    ranked: NDArray[Any]
    steps: xr.DataArray
    parameter_steps: Array
    settings: Sequence[Setting]

    def dataset(self) -> xr.Dataset:
        """Everything, in one dataset."""
        parts = (self._boundaries, self._depths, self._directions, self._queries, self._tokens, self._stages)
        return xr.Dataset({name: array for part in parts for name, array in part().items()})

    def _boundaries(self) -> dict[str, xr.DataArray]:
        labels = list(boundaries(self.found.flat[0]))
        steps = self._each(lambda found, _: list(boundaries(found).values()), boundary=labels)
        resolution = self._each(lambda found, _: self._resolution(boundaries(found)), boundary=labels)
        of = [band(steps.values[list(setting.replicas)]) for setting in self.settings]
        dims = {"setting": [setting.label for setting in self.settings]}
        coords = {name: steps[name] for name in ("layer", "head", "boundary") if name in steps.coords} | dims

        def summary(field: str, what: str, units: str) -> xr.DataArray:
            values = np.stack([getattr(over, field) for over in of])
            array = xr.DataArray(values, dims=("setting", "layer", "head", "boundary"), coords=coords)
            return describe(array.transpose("boundary", ...), what, units=units)

        present = "over the replicas of the setting that have the boundary"
        return {
            "boundary_step": describe(
                steps.transpose("boundary", ...),
                "step of a boundary between stages",
                units="step",
                valid=(0.0, None),
            ),
            "boundary_resolution": describe(
                resolution.transpose("boundary", ...), "probe interval in which the step lies", units="step"
            ),
            "boundary_median": summary("median", f"median step {present}", "step"),
            "boundary_p10": summary("p10", f"10th percentile of the step {present}", "step"),
            "boundary_p90": summary("p90", f"90th percentile of the step {present}", "step"),
            "boundary_share": summary("share", "share of the setting's replicas that have the boundary", "1"),
            "replica_setting": describe(self._setting_of_replica(), "setting of the replica"),
        }

    def _resolution(self, steps: Mapping[str, float]) -> list[float]:
        """Interval between the records around each boundary, of the probe that it is read from."""
        attention = np.asarray(self.steps.values, float)
        return [
            _interval(attention if label in OF_ATTENTION else self.parameter_steps, step)
            for label, step in steps.items()
        ]

    def _setting_of_replica(self) -> xr.DataArray:
        label = {replica: setting.label for setting in self.settings for replica in setting.replicas}
        return xr.DataArray([label[replica] for replica in range(len(self.found))], dims="replica")

    def _depths(self) -> dict[str, xr.DataArray]:
        rise = self._each(lambda found, _: found.cycles[0].height)
        fall = self._each(lambda found, _: found.cycles[0].depth)
        most = "of the least attention any query gives the most frequent token"
        return {
            "focus_depth": describe(
                rise, f"rise {most} above its stationary probability", symbol=r"\Delta A_+"
            ),
            "dilution_depth": describe(fall, f"fall {most} after its peak", symbol=r"\Delta A_-"),
        }

    def _directions(self) -> dict[str, xr.DataArray]:
        """Openings of the tokens' directions, common to all layers and heads as the embedding is."""
        whats = {
            "onset": "begins to part",
            "step": "has parted",
            "completion": "has gone nine tenths of its way",
        }

        def opening(name: str) -> xr.DataArray:
            each = self._each(lambda found, _: [getattr(d, name) for d in found.directions], **self._rank())
            return each.isel(layer=0, head=0, drop=True)

        long_name = "step at which the embedding of the token {} from those of higher rank"
        return {
            f"direction_{name}": describe(opening(name), long_name.format(what), units="step")
            for name, what in whats.items()
        }

    def _queries(self) -> dict[str, xr.DataArray]:
        def cycles(found: Detection, replica: int) -> list[Cycle]:
            return [found.queries[rank] for rank in self.query_ranks[replica]]

        return self._cycles("query", "of the query on the most frequent token", cycles, query=self.queries)

    def _tokens(self) -> dict[str, xr.DataArray]:
        labels = xr.DataArray(self.ranked, dims=("replica", "rank"), coords=self._rank())
        cycles = self._cycles(
            "token",
            "on the token among those of its rank and higher",
            lambda found, _: found.cycles,
            **self._rank(),
        )
        return {"token_at_rank": describe(labels, "token of each rank by stationary probability"), **cycles}

    def _cycles(
        self, prefix: str, what: str, cycles: Callable[[Detection, int], Any], **dim: Any
    ) -> dict[str, xr.DataArray]:
        """Boundaries, depths and presence of the `cycles` of each detection, along the dimension `dim`."""

        def of_each(field: str) -> xr.DataArray:
            return self._each(lambda found, at: [getattr(cycle, field) for cycle in cycles(found, at)], **dim)

        height, depth = of_each("height"), of_each("depth")
        events = xr.IndexVariable("event", list(EVENTS))
        boundary = xr.concat([of_each(field) for field in EVENTS.values()], events)
        return {
            f"{prefix}_boundary": describe(boundary, f"step of focus and dilution {what}", units="step"),
            f"{prefix}_focus_depth": describe(height, f"rise of attention {what}"),
            f"{prefix}_dilution_depth": describe(depth, f"fall of attention {what}"),
            f"{prefix}_dilutes": describe(depth.notnull(), f"whether attention {what} rises and falls"),
        }

    def _stages(self) -> dict[str, xr.DataArray]:
        at = np.asarray(self.steps.values, float)
        labels = self._each(lambda found, _: stage_labels(boundaries(found), at), step=self.steps)
        labels = labels.assign_coords(self.steps.coords)  # the time of each step, where it has one
        faults = self._each(
            lambda found, replica: "; ".join(order_faults(boundaries(found), self.ranked[replica].tolist()))
        )
        return {
            "stage": describe(labels, "furthest stage that has begun"),
            "in_order": describe(faults == "", "whether the stages are all there, one after another"),
            "order_fault": describe(faults, "what is missing or out of order among the stages"),
        }

    def _rank(self) -> dict[str, Any]:
        return {"rank": np.arange(self.ranked.shape[1])}

    def _each(self, function: Callable[[Detection, int], Any], **dim: Any) -> xr.DataArray:
        """`function(detection, replica)` of all, (replica, layer, head) and the dimension `dim` if given."""
        values = [function(found, place[0]) for place, found in np.ndenumerate(self.found)]
        shape = (*self.found.shape, *(len(labels) for labels in dim.values()))
        return xr.DataArray(
            np.array(values).reshape(shape), dims=(*HEAD, *dim), coords={**self.coords, **dim}
        )


def _interval(records: Array, step: float) -> float:
    """Distance between the two records around `step`; NaN for an absent boundary."""
    if not np.isfinite(step):
        return float("nan")
    after = int(np.clip(np.searchsorted(records, step), 1, len(records) - 1))
    return float(records[after] - records[after - 1])
