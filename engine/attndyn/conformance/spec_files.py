"""The checks of what a spec's run leaves on disk: the documented layout, resuming, analyses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import xarray as xr

from attndyn import __version__
from attndyn.conformance import analyzers
from attndyn.conformance.faults import Failure, Fault
from attndyn.conformance.trial import Trial
from attndyn.runs import StatusSink
from attndyn.simulation import Simulation
from attndyn.simulation.probe import Declaration
from attndyn.trajectory import TrajectoryWriter
from attndyn.trajectory.schema import CONVENTIONS, PAIRS
from attndyn.trajectory.writer import read_checkpoint

#: the root's coordinates, which every trajectory has
ROOT = {
    "replica": ("replica",),
    "seed": ("replica",),
    "token": ("token",),
    "next_token": ("next_token",),
    "pi": ("replica", "token"),
    "transition": ("replica", "token", "next_token"),
}


def _off(subject: str, detail: str) -> Failure:
    return Failure(Fault.OFF_FORMAT, subject, detail)


def layout(trial: Trial) -> Iterator[Failure]:
    """`trajectory.nc` opens as a tree with the documented root, and a group as declared for every probe."""
    tree = trial.run.trajectory
    simulation = Simulation(trial.spec, "numpy")
    yield from _root_attributes(tree, simulation)
    yield from _root_coordinates(tree, simulation)
    beside = {PAIRS} if simulation.data.pairs is not None else set()
    groups, probes = set(tree.children) - beside, set(simulation.probes)
    for name in sorted(groups ^ probes):
        yield _off(
            f"group /{name}", "is missing" if name in probes else "is there; the spec has no such probe"
        )
    for name in sorted(groups & probes):
        dataset = tree[name].to_dataset()
        yield from _steps(name, dataset, simulation)
        yield from _variables(name, dataset, simulation.probes[name].declare(), simulation)
        yield from _labels(name, dataset)


def _root_attributes(tree: xr.DataTree, simulation: Simulation) -> Iterator[Failure]:
    spec = simulation.spec
    expected = {
        "title": spec.name,
        "Conventions": CONVENTIONS,
        "attndyn_version": __version__,
        "spec_yaml": spec.to_yaml(),
        "spec_sha256": spec.sha256,
        "backend": "numpy",
        "dtype": spec.training.dtype,
        "representation": simulation.representation,
    }
    for name, value in expected.items():
        if tree.attrs.get(name) != value:
            yield _off(
                f"root attribute {name}", f"is {tree.attrs.get(name)!r:.60}; {value!r:.60} it should be"
            )
    for name in sorted({"created", "plugins"} - set(tree.attrs)):
        yield _off(f"root attribute {name}", "is missing")
    try:
        datetime.fromisoformat(str(tree.attrs.get("created")))
    except ValueError:
        yield _off("root attribute created", f"is no time: {tree.attrs.get('created')!r:.60}")


def _root_coordinates(tree: xr.DataTree, simulation: Simulation) -> Iterator[Failure]:
    replicas = simulation.replicas
    varied = {replicas.coordinates[p]: v for p, v in replicas.varied.items() if np.ndim(v[0]) == 0}
    absent = {"next_token", "transition"} if simulation.data.transition is None else set()
    expected = ROOT | dict.fromkeys(varied, ("replica",))
    for name, dims in expected.items():
        if name in absent:
            continue
        if name not in tree.coords:
            yield _off(f"coordinate {name}", "is missing at the root")
        elif tree.coords[name].dims != dims:
            yield _off(f"coordinate {name}", f"has dims {tree.coords[name].dims}, expected {dims}")
    for name, values in ({"seed": replicas.seeds} | varied).items():
        if name in tree.coords and tree.coords[name].to_numpy().tolist() != list(values):
            yield _off(f"coordinate {name}", "has other values than the replicas of the spec")
    yield from _labels("", tree.to_dataset())


def _steps(group: str, dataset: xr.Dataset, simulation: Simulation) -> Iterator[Failure]:
    """Every step from 0 to the end, and the time where the optimizer has one."""
    steps = np.arange(simulation.steps + 1)
    if "step" not in dataset.coords or not np.array_equal(dataset["step"], steps):
        yield _off(f"{group}/step", f"is not every step from 0 to the final state, {simulation.steps}")
        return
    time = simulation.optimizer.time(steps)
    if (time is None) != ("time" not in dataset.coords):
        yield _off(f"{group}/time", "is missing" if time is not None else "is there; the optimizer has none")
    elif time is not None:
        found = dataset["time"].to_numpy()
        expected = time if found.ndim == 2 else time[0]
        if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-12, atol=0):
            yield _off(f"{group}/time", "is not the optimizer's")


def _variables(
    group: str, dataset: xr.Dataset, declaration: Declaration, simulation: Simulation
) -> Iterator[Failure]:
    for name in sorted(set(dataset.data_vars) ^ set(declaration.variables), key=str):
        detail = "is missing" if name in declaration.variables else "is there; the probe does not declare it"
        yield _off(f"{group}/{name}", detail)
    sizes = len(simulation.replicas.seeds), simulation.steps + 1
    for name, declared in declaration.variables.items():
        if name not in dataset:
            continue
        array, subject = dataset[name], f"{group}/{name}"
        dims, shape = ("replica", "step", *declared.dims), (*sizes, *declared.shape)
        if array.dims != dims or array.shape != shape:
            yield _off(subject, f"is {array.dims} {array.shape}, expected {dims} {shape}")
        if array.dtype != simulation.backend.dtype:
            yield Failure(Fault.DTYPE, subject, f"is {array.dtype} in a run in {simulation.backend.dtype}")
        if declared.symbol and array.attrs.get("symbol") != declared.symbol:
            yield Failure(Fault.UNLABELLED, subject, f"has not the symbol {declared.symbol}")
        if np.isinf(array).any() or (array.isnull().any() and not declared.nan_where):
            detail = "has entries that are infinite" + ("" if declared.nan_where else " or NaN")
            yield Failure(Fault.NOT_FINITE, subject, detail)
    if group == "loss" and dataset["loss"].attrs.get("units") != "nats":
        yield Failure(Fault.UNLABELLED, "loss/loss", "is not in nats")


def _labels(group: str, dataset: xr.Dataset) -> Iterator[Failure]:
    """Everything has a long name and units, coordinates too; a dimension that is a token has labels."""
    for name, array in dataset.variables.items():
        missing = [key for key in ("long_name", "units") if not array.attrs.get(key)]
        if missing:
            yield Failure(Fault.UNLABELLED, f"{group}/{name}", f"has no {' and no '.join(missing)}")
    for dim in sorted({"token", "next_token", "query", "key"} & set(map(str, dataset.dims))):
        if dim not in dataset.coords:
            yield Failure(Fault.UNLABELLED, f"{group}/{dim}", "is a dimension of tokens without labels")


def beside(trial: Trial) -> Iterator[Failure]:
    """`spec.yaml` loads back to an equal spec, `status.json` says how the run ended."""
    if trial.run.spec != trial.spec or trial.run.spec.sha256 != trial.spec.sha256:
        yield _off("spec.yaml", "loads back to another spec")
    steps = trial.spec.training.steps
    expected = {"state": "complete", "step": steps, "steps": steps, "diverged": []}
    if trial.run.status != expected:
        yield _off("status.json", f"says {trial.run.status}; {expected} it should be")


def resumed(trial: Trial) -> Iterator[Failure]:
    """A run interrupted half-way and gone on with leaves the same bits as one that was not."""
    half = trial.spec.training.steps // 2
    begun = trial.carried_out("resumed", Simulation(trial.spec, "numpy"), stop=half)
    if begun.status["state"] != "interrupted" or begun.status["step"] != half:
        yield Failure(Fault.NOT_RESTORED, "run", f"told to stop at step {half} is {begun.status}")
        return
    simulation = Simulation(trial.spec, "numpy")
    simulation.restore(read_checkpoint(begun.directory))
    simulation.run([TrajectoryWriter(begun.directory, resume=True), StatusSink(begun.directory)])
    whole, found = trial.run.trajectory, begun.trajectory
    for name, group in whole.children.items():
        for variable, array in group.to_dataset().variables.items():
            again = found[name].to_dataset().variables[variable]
            if not np.array_equal(again, array, equal_nan=array.dtype.kind == "f"):
                detail = "of a resumed run differs from that of an uninterrupted one"
                yield Failure(Fault.NOT_RESTORED, f"{name}/{variable}", detail)
    begun.close()
    expected, last = (read_checkpoint(run.directory) for run in (trial.run, begun))
    for name, values in expected.items():
        if not np.array_equal(values, last[name], equal_nan=values.dtype.kind == "f"):
            detail = "of a resumed run differs from that of an uninterrupted one"
            yield Failure(Fault.NOT_RESTORED, f"checkpoint's {name}", detail)


def analyses(trial: Trial) -> Iterator[Failure]:
    """The spec's analyzers read the short trajectory, and what they give is labelled and can be filed."""
    tree = trial.run.trajectory.load()
    for options in trial.spec.analyzers:
        cls = type(trial.run.analyzer(options.kind))
        reading = analyzers.Reading(cls, options, tree, eventful=False)
        for failure in analyzers.labelled(reading):
            yield Failure(failure.fault, f"{options.kind}: {failure.subject}", failure.detail)
