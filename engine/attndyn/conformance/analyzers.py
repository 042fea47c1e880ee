"""The checks of an analyzer, on trajectories of several layers and heads, and on awkward ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from attndyn.analysis.analyzer import Analyzer
from attndyn.conformance.example_runs import with_axes_reversed
from attndyn.conformance.faults import Check, Failure, Fault
from attndyn.spec.base import AnalyzerOptions


@dataclass(frozen=True)
class Reading:
    """An analyzer with one option set, and a trajectory.

    Attributes:
        cls: the analyzer.
        options: its options.
        trajectory: what it reads; it is given copies.
        eventful: whether there is something to be drawn.
    """

    cls: type[Analyzer]
    options: AnalyzerOptions
    trajectory: xr.DataTree
    eventful: bool

    def copy(self) -> xr.DataTree:
        """The trajectory, to do with as one likes."""
        return self.trajectory.copy(deep=True)

    @cached_property
    def outcome(self) -> tuple[xr.Dataset, xr.DataTree]:
        """What a fresh analyzer makes of the trajectory, and the trajectory as it leaves it."""
        given = self.copy()
        return self.cls(self.options).analyze(given), given


def labelled(case: Reading) -> Iterator[Failure]:
    """A dataset with variables; each has a long name, units, and names for its axes; it can be filed."""
    result, _ = case.outcome
    if not isinstance(result, xr.Dataset) or not result.data_vars:
        yield Failure(Fault.UNLABELLED, "result", f"is a {type(result).__name__}; a Dataset with variables")
        return
    for name, array in result.data_vars.items():
        missing = [key for key in ("long_name", "units") if not array.attrs.get(key)]
        if missing:
            yield Failure(Fault.UNLABELLED, str(name), f"has no {' and no '.join(missing)}")
        unnamed = [str(dim) for dim in array.dims if str(dim).startswith("dim_")]
        if unnamed:
            yield Failure(Fault.UNLABELLED, str(name), f"has an axis without a name of its own: {unnamed[0]}")
    for wanted in case.cls.numbers:
        if "replica" not in result.get(wanted, xr.DataArray(0)).dims:
            detail = "is among `numbers`, and no variable of the result over replicas"
            yield Failure(Fault.UNLABELLED, wanted, detail)
    with TemporaryDirectory() as folder:
        tree = xr.DataTree.from_dict({"result": result})
        tree.to_netcdf(Path(folder) / "analysis.nc", engine="netcdf4")


def untouched(case: Reading) -> Iterator[Failure]:
    """The trajectory is left as it was."""
    _, given = case.outcome
    for node, kept in zip(given.subtree, case.trajectory.subtree, strict=True):
        if not node.to_dataset(inherit=False).identical(kept.to_dataset(inherit=False)):
            yield Failure(Fault.INPUT_MODIFIED, f"trajectory's {node.path}", "is changed by analyze")


def repeatable(case: Reading) -> Iterator[Failure]:
    """Two analyses of a trajectory are the same, by two analyzers and by one."""
    first, _ = case.outcome
    other = case.cls(case.options)
    second, again = other.analyze(case.copy()), other.analyze(case.copy())
    for name, array in first.data_vars.items():
        if not second[name].identical(array):
            yield Failure(Fault.RANDOM, str(name), "differs between two analyses of the same trajectory")
        elif not again[name].identical(array):
            yield Failure(Fault.HIDDEN_STATE, str(name), "depends on what was analyzed before")


def by_name(case: Reading) -> Iterator[Failure]:
    """The result does not depend on the order of the trajectory's axes: they are looked up by name."""
    expected, _ = case.outcome
    found = case.cls(case.options).analyze(with_axes_reversed(case.trajectory))
    for name, array in expected.data_vars.items():
        if name not in found or not _agree(found[name], array):
            yield Failure(Fault.SWAPPED_AXES, str(name), "changes with the order of the trajectory's axes")


def _agree(found: xr.DataArray, expected: xr.DataArray) -> bool:
    if set(found.dims) != set(expected.dims):
        return False
    ordered = found.transpose(*expected.dims)
    if expected.dtype.kind != "f":
        return bool(ordered.equals(expected))
    try:
        xr.testing.assert_allclose(ordered, expected, rtol=1e-9, atol=1e-9)
    except AssertionError:
        return False
    return True


def drawn(case: Reading) -> Iterator[Failure]:
    """The result can be drawn; where there is something to be seen it is, and an axis has a label."""
    result, given = case.outcome
    before = result.copy(deep=True)
    figure = Figure(layout="constrained")
    case.cls(case.options).draw(result, given, figure)
    FigureCanvasAgg(figure).draw()
    axes = figure.get_axes()  # those of subfigures are among them
    if case.eventful and not any(ax.has_data() for ax in axes):
        yield Failure(Fault.NOTHING_DRAWN, "draw", "leaves the figure empty")
    elif not any(ax.get_xlabel() or ax.get_ylabel() or ax.get_title() for ax in axes):
        yield Failure(Fault.UNLABELLED, "draw", "labels no axis")
    if not result.identical(before):
        yield Failure(Fault.INPUT_MODIFIED, "result", "is changed by draw")


CHECKS: dict[str, Check] = {
    "labelled results": labelled,
    "trajectory untouched": untouched,
    "repeatable": repeatable,
    "axes by name": by_name,
    "drawn": drawn,
}
