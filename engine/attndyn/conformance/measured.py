"""A run as expectations see it: numbers by label, one for each replica."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attndyn import registry
from attndyn.analysis.settings import settings
from attndyn.errors import AttndynError
from attndyn.registry import nearest
from attndyn.spec import Spec
from attndyn.spec.base import Path
from attndyn.spec.selection import ENDS, Curves, Selection

TAKEN: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "range": np.ptp,
}


class SelectionError(AttndynError):
    """A selection names what is not there.

    Attributes:
        path: place in the selection.
    """

    def __init__(self, path: Path, message: str):
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Picked:
    """What a selection gives.

    Attributes:
        values: shape (replica,); NaN where the boundary it is read at is absent, or the replica diverged.
        replicas: their indices in the run, shape (replica,).
        lost: which have no value because they diverged, shape (replica,).
        lowest: the smallest value that this number could have had in the run: that of the variable with
            these labels, in all replicas at all steps.
        highest: the largest.
        units: of the values.
        moves: whether it was read from a curve; if not, `lowest` and `highest` are but those of the replicas.
        bounds: what it cannot be below or above in any run.
    """

    values: NDArray[np.float64]
    replicas: NDArray[np.intp]
    lost: NDArray[np.bool_]
    lowest: float
    highest: float
    units: str
    moves: bool = True
    bounds: tuple[float, float] = (-math.inf, math.inf)


class Measured:
    """A trajectory and what the spec's analyzers make of it, computed when first asked for.

    Args:
        spec: whose analyzers and options are used; it may differ from that of the run in these.
        trajectory: of the run.
    """

    def __init__(self, spec: Spec, trajectory: xr.DataTree):
        self.spec = spec
        self.trajectory = trajectory
        self._results: dict[str, xr.Dataset] = {}

    @cached_property
    def seeds(self) -> NDArray[np.int64]:
        """Seed of each replica, shape (replica,)."""
        return np.asarray(self.trajectory.dataset["seed"].values, np.int64)

    def result(self, analyzer: str) -> xr.Dataset:
        """What an analyzer of the spec makes of the trajectory."""
        if analyzer not in self._results:
            options = next((o for o in self.spec.analyzers if o.kind == analyzer), None)
            if options is None:
                message = f"'{self.spec.name}' has no analyzer '{analyzer}'"
                raise SelectionError(("analyzer",), message)
            with np.errstate(over="ignore", invalid="ignore"):
                self._results[analyzer] = registry.get("analyzer", analyzer)(options).analyze(self.trajectory)
        return self._results[analyzer]

    @cached_property
    def lost(self) -> NDArray[np.bool_]:
        """Which replicas diverged, shape (replica,).

        Those of a run that ended before its last step, which it does once all have diverged; those of which
        a probe has nothing any more at its last record; and those whose loss is then above the bound.
        """
        probes = [probe.to_dataset(inherit=False) for probe in self.trajectory.children.values()]
        found = np.full(len(self.seeds), any(self._cut(p["step"].values) for p in probes if "step" in p))
        for probe in probes:
            curves = [a for a in probe.data_vars.values() if _is_curve(a)]
            gone = [_nothing(array.isel(step=-1)) for array in curves]
            # one that never had anything is no sign, unless there is nothing else
            had = [~_nothing(array.isel(step=0)) for array in curves]
            found |= np.any([g & h for g, h in zip(gone, had, strict=True)], axis=0)
            found |= bool(curves) & np.all(gone, axis=0)
        if "loss" in self.trajectory.children:
            last = self.trajectory.children["loss"].to_dataset(inherit=False)["loss"].isel(step=-1)
            found |= last.values > self.spec.training.max_loss
        return found

    def _cut(self, steps: NDArray[Any]) -> bool:
        """Whether a probe's records end before the run was to end."""
        return len(steps) > 0 and float(steps[-1]) < self.spec.training.steps

    def settings_of(self, replicas: NDArray[np.intp]) -> NDArray[np.str_]:
        """What varies of each replica beside its seed, in words, shape (replica,)."""
        named = {place: each.label for each in settings(self.trajectory) for place in each.replicas}
        return np.array([named[int(replica)] for replica in replicas])

    def coordinate(self, name: str) -> NDArray[np.float64]:
        """What varies between the replicas, by the name of its coordinate, shape (replica,).

        Raises:
            SelectionError: nothing of that name varies, or its values are no numbers.
        """
        root = self.trajectory.dataset
        known = {str(k): c.values for k, c in root.coords.items() if c.dims == ("replica",)}
        known = {k: values for k, values in known.items() if k not in ("replica", "seed")}
        if name not in known:
            nothing = "nothing varies but the seed"
            raise SelectionError(
                (), f"no such thing varies; {nearest(name, list(known)) if known else nothing}"
            )
        if known[name].dtype.kind not in "iuf":
            raise SelectionError((), "its values are no numbers")
        return known[name].astype(float)

    def curves(self, selection: Selection) -> xr.DataArray:
        """The variable at its labels: dimensions `replica` and, where it is recorded over steps, `step`.

        Of `Curves` the dimensions that have no label are there too. The coordinate `_place` has the number of
        each replica in the run.

        Raises:
            SelectionError: there is no such variable or label, or a dimension needs one.
        """
        if selection.probe is not None:
            if selection.probe not in self.trajectory.children:
                raise SelectionError(("probe",), f"'{self.spec.name}' has no probe '{selection.probe}'")
            source = self.trajectory.children[selection.probe].to_dataset(inherit=False)
        else:
            source = self.result(str(selection.analyzer))
        if selection.variable not in source:
            names = [str(name) for name in source.data_vars]
            raise SelectionError(("variable",), f"no such variable; {nearest(selection.variable, names)}")
        array = source[selection.variable]
        if "replica" not in array.dims:
            raise SelectionError(("variable",), "has no dimension 'replica': it is no number of each replica")
        if array.dtype.kind not in "bifu":
            raise SelectionError(("variable",), "holds words, not numbers")
        array = array.assign_coords(self._replica_coordinates(array)).astype(float, keep_attrs=True)
        for dim, label in selection.labels.items():
            array = _at_label(array, dim, label)
        if isinstance(selection, Curves) and selection.across is None:
            return array.transpose("replica", ...)
        return self._reduced(array, selection)

    def pick(self, selection: Selection) -> Picked:
        """One number for each replica.

        Raises:
            SelectionError: see `curves`; or when it is read is missing, or more than is needed.
        """
        curves = self.curves(selection)
        replicas = curves["_place"].values.astype(np.intp)
        lost = self.lost[replicas]
        seen = curves.values if lost.all() else curves.values[~lost]  # one that diverges has been everywhere
        values = self._in_time(curves, selection, replicas)
        units = str(curves.attrs.get("units", "1"))
        low, high = _span(seen[np.isfinite(seen)])
        bounds = _bounds(selection, curves.attrs)
        if selection.take in ("step_of_min", "step_of_max"):
            low, high, units = *_span(curves["step"].values.astype(float)), "step"
        elif selection.take == "range":
            low, high = 0.0 * low, high - low
        values = np.where(np.isfinite(values), values, np.nan)
        gone = lost & np.isnan(values)
        return Picked(values, replicas, gone, low, high, units, "step" in curves.dims, bounds)

    def check(self, selection: Selection) -> None:
        """Look for mistakes in a selection, on a run of the same labels that may be too short to pick from.

        Raises:
            SelectionError: see `pick`.
        """
        curves = self.curves(selection)
        if not isinstance(selection, Curves):
            _needs_time(curves, selection)
        for path, name in selection.boundaries.items():
            self._boundary(name, selection, np.arange(1), path)

    def _replica_coordinates(self, array: xr.DataArray) -> dict[str, Any]:
        """The root's coordinates of the replicas, so that these can be chosen by what varies between them."""
        root = self.trajectory.dataset
        own = {str(k): c.variable for k, c in root.coords.items() if c.dims == ("replica",)}
        place = ("replica", np.arange(array.sizes["replica"]))
        return {name: c for name, c in own.items() if name not in array.dims} | {"_place": place}

    def _reduced(self, array: xr.DataArray, selection: Selection) -> xr.DataArray:
        attrs = array.attrs
        left = [dim for dim in array.dims if dim not in ("replica", "step")]
        long = [str(dim) for dim in left if array.sizes[dim] != 1]
        if long and selection.across is None:
            labels = [str(v) for v in _coordinate(array, long[0]).tolist()[:8]]
            message = f"the dimension '{long[0]}' needs a label ({', '.join(labels)}), or give across"
            raise SelectionError(("variable",), message)
        if selection.across is not None and not long:
            raise SelectionError(("across",), "there is no dimension left to take it over")
        short = [dim for dim in left if array.sizes[dim] == 1]
        array = array.squeeze(short, drop=True)
        if long:
            # a NaN among them is not passed over: `max` would speak of the others only
            array = getattr(array, str(selection.across))(long, skipna=False)
        array.attrs = attrs
        return array.transpose("replica", ...)

    def _in_time(
        self, curves: xr.DataArray, selection: Selection, replicas: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        _needs_time(curves, selection)
        if "step" not in curves.dims:  # it speaks of the whole run
            return np.where(self.lost[replicas], np.nan, curves.values)
        steps = curves["step"].values.astype(float)
        if selection.window is None:
            when = selection.at if selection.at is not None else selection.step
            at = self._edges(when, selection, replicas, steps, ("at",))
            last = self.spec.training.steps if self._cut(steps) else steps[-1]
            if isinstance(when, int) and not steps[0] <= when <= last:
                message = f"step {when} is not on record, which goes from {steps[0]:g} to {steps[-1]:g}"
                raise SelectionError(("step",), message)
            return np.array([_read(steps, y, t) for y, t in zip(curves.values, at, strict=True)])
        start, end = (
            self._edges(edge, selection, replicas, steps, ("window", i))
            for i, edge in enumerate(selection.window)
        )
        known = np.isfinite(start) & np.isfinite(end)
        if known.any() and not any(
            ((a <= steps) & (steps <= b)).any() for a, b in zip(start[known], end[known], strict=True)
        ):
            raise SelectionError(("window",), "there is no record in it")
        rows = zip(curves.values, start, end, strict=True)
        return np.array([_over(steps, y, a, b, str(selection.take)) for y, a, b in rows])

    def _edges(
        self,
        edge: Any,
        selection: Selection,
        replicas: NDArray[np.intp],
        steps: NDArray[np.float64],
        path: Path,
    ) -> NDArray[np.float64]:
        """The step that an edge means in each replica.

        NaN where it is a boundary that is absent, or a step that the replica did not live to see.
        """
        if edge == "first":
            return np.full(len(replicas), steps[0])
        if edge == "last":
            return np.where(self.lost[replicas], np.nan, steps[-1])
        if isinstance(edge, str):
            return self._boundary(edge, selection, replicas, path)
        return np.full(len(replicas), np.nan if self._cut(steps) and edge > steps[-1] else float(edge))

    def _boundary(
        self, name: str, selection: Selection, replicas: NDArray[np.intp], path: Path
    ) -> NDArray[np.float64]:
        """Step of a boundary of the stages in each replica, shape (replica,).

        It is that of the layers and heads that the selection names, the median over those that have it.
        """
        found = self.result("stages")["boundary_step"]
        labels = [str(label) for label in found["boundary"].values]
        if name not in labels:
            raise SelectionError(path, f"no such boundary; {nearest(name, [*ENDS, *labels])}")
        found = found.isel(boundary=labels.index(name))
        for dim in ("layer", "head"):
            if dim in selection.labels:
                found = _at_label(found, dim, selection.labels[dim])
        steps = found.median(["layer", "head"], skipna=True)
        return np.asarray(steps.values[replicas], np.float64)


def _needs_time(curves: xr.DataArray, selection: Selection) -> None:
    timed = selection.step is not None or selection.at is not None or selection.window is not None
    if "step" in curves.dims and not timed:
        raise SelectionError(("variable",), "is recorded over steps; give step, at, or window and take")
    if "step" not in curves.dims and timed:
        raise SelectionError(("variable",), "is no curve over steps; step, at and window mean nothing for it")


def _at_label(array: xr.DataArray, dim: str, label: Any) -> xr.DataArray:
    """The array at a label of a dimension, or of a coordinate along one."""
    if dim not in array.dims and not (dim in array.coords and array[dim].dims == ("replica",)):
        names = [str(name) for name in (*array.dims, *_chosen_by(array)) if name not in ("replica", "step")]
        raise SelectionError(("labels", dim), f"no such dimension of the variable; {nearest(dim, names)}")
    if dim == "step":
        raise SelectionError(("labels", dim), "give step, at or window beside labels")
    found = _coordinate(array, dim)
    places = [_place(found.tolist(), each, dim) for each in (label if isinstance(label, list) else [label])]
    if dim in array.dims and dim != "replica":
        return array.isel({dim: places})
    same = np.isin(found, found[places])
    return array.isel(replica=np.flatnonzero(same))


def _chosen_by(array: xr.DataArray) -> Sequence[str]:
    return [str(n) for n, c in array.coords.items() if c.dims == ("replica",) and not str(n).startswith("_")]


def _coordinate(array: xr.DataArray, dim: str) -> NDArray[Any]:
    return array[dim].values if dim in array.coords else np.arange(array.sizes[dim])


def _place(found: list[Any], label: Any, dim: str) -> int:
    """Where a label stands; numbers are compared as such, and so are words that are numbers."""
    for place, each in enumerate(found):
        numbers = isinstance(each, int | float) and isinstance(label, int | float)
        if math.isclose(each, label, rel_tol=1e-9) if numbers else str(each) == str(label):
            return place
    known = list(dict.fromkeys(map(str, found)))
    raise SelectionError(("labels", dim), f"no label {label!r}; {nearest(str(label), known)}")


def _read(steps: NDArray[np.float64], values: NDArray[np.float64], at: float) -> float:
    """A curve at a step, straight between records; NaN outside the record."""
    if not steps[0] <= at <= steps[-1]:  # NaN, too
        return np.nan
    after = int(np.searchsorted(steps, at))
    if steps[after] == at:  # not through a NaN beside it
        return float(values[after])
    return float(np.interp(at, steps[after - 1 : after + 1], values[after - 1 : after + 1]))


def _over(
    steps: NDArray[np.float64], values: NDArray[np.float64], start: float, end: float, take: str
) -> float:
    """What is taken of a curve between two steps, both included; NaN if a NaN or no record is among them."""
    inside = (steps >= start) & (steps <= end)
    if not (np.isfinite(start) and np.isfinite(end)) or not inside.any():
        return np.nan
    within, at = values[inside], steps[inside]
    if not np.isfinite(within).all():
        return np.nan
    if take.startswith("step_of_"):
        return float(at[within.argmin() if take == "step_of_min" else within.argmax()])
    return float(TAKEN[take](within))


def _bounds(selection: Selection, attrs: Mapping[Any, Any]) -> tuple[float, float]:
    """What the number that a selection gives cannot be below or above in any run, as its variable says."""
    low, high = (
        float(attrs.get(name, other)) for name, other in (("valid_min", -math.inf), ("valid_max", math.inf))
    )
    if selection.take == "range":
        return 0.0, high - low
    return (0.0, math.inf) if selection.take in ("step_of_min", "step_of_max") else (low, high)


def _is_curve(array: xr.DataArray) -> bool:
    return {"replica", "step"} <= set(array.dims) and array.dtype.kind == "f"


def _nothing(record: xr.DataArray) -> NDArray[np.bool_]:
    """Whether a record is NaN throughout, shape (replica,)."""
    return np.asarray(record.isnull().all([dim for dim in record.dims if dim != "replica"]).values)


def _span(values: NDArray[np.float64]) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if values.size else (np.nan, np.nan)
