"""The checks of a probe, on simulations of several layers and heads, and of one in the population limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.backend.numpy_backend import NumpyBackend
from attndyn.conformance import example_runs
from attndyn.conformance.diagnosis import deviation, replica_fault, same
from attndyn.conformance.faults import Check, Failure, Fault, blame
from attndyn.conformance.strict import DeviceArray, StrictBackend
from attndyn.errors import SpecError
from attndyn.simulation import Simulation
from attndyn.simulation.probe import Declaration, Probe, State
from attndyn.spec.base import ProbeOptions

FIXED: dict[str, Any] = {"every": 1, "steps": None, "count": None}


@dataclass(frozen=True)
class Watched:
    """A probe with one option set in a simulation.

    Attributes:
        cls: the probe.
        options: its options.
        form: the simulation's, of `example_runs.FORMS`.
        source: the file it is in.
    """

    cls: type[Probe]
    options: ProbeOptions
    form: str
    source: str

    def state(self, backend: Backend, replica: int | None = None) -> tuple[Probe, State]:
        """The probe in a fresh simulation (of all replicas or one), and the state before step 0."""
        simulation = example_runs.simulation(self.form, backend)
        if replica is not None:
            simulation = Simulation(simulation.replicas.specs[replica], backend)
        loss = simulation.evaluate(0)
        return self.cls(self.options, simulation), State(0, simulation.parameters, simulation.gradients, loss)

    @property
    def refused(self) -> str:
        """What the probe says against the spec of the form; nothing if it can be made."""
        try:
            self.cls(self.options, example_runs.simulation(self.form, NumpyBackend()))
        except SpecError as error:
            return str(error)
        except Exception:  # a fault, which a check shows
            return ""
        return ""

    @cached_property
    def usual(self) -> tuple[Probe, State]:
        """The same on NumPy in float64; no check changes it."""
        return self.state(NumpyBackend())

    @cached_property
    def declared(self) -> Declaration:
        """What the probe declares."""
        return self.usual[0].declare()

    def values(self, backend: Backend, replica: int | None = None) -> dict[str, np.ndarray]:
        """What a fresh probe measures, on the host."""
        probe, state = self.state(backend, replica)
        return {name: np.array(backend.to_host(v)) for name, v in probe.measure(state).items()}


def declaration(case: Watched) -> Iterator[Failure]:
    """What is declared is what is measured: names, axes, labels; with long name and units."""
    probe, state = case.usual
    declared, measured = case.declared, probe.measure(state)
    for name in sorted(declared.variables.keys() ^ measured.keys()):
        what = "is declared and not measured" if name in declared.variables else "is measured, not declared"
        yield Failure(Fault.DECLARATION, name, what)
    sizes: dict[str, int] = {name: len(labels) for name, labels in declared.labels.items()}
    for name, variable in declared.variables.items():
        if not variable.long_name or not variable.units:
            yield Failure(Fault.UNLABELLED, name, "needs a long_name and units (1 where it has none)")
        if len(variable.dims) != len(variable.shape) or {"replica", "step"} & set(variable.dims):
            detail = f"has dims {variable.dims} for the shape {variable.shape}: a name for each axis but two"
            yield Failure(Fault.DECLARATION, name, f"{detail}, replica and step")
            continue
        for dim, size in zip(variable.dims, variable.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                yield Failure(Fault.SHAPE, name, f"has {size} along {dim}, others have {sizes[dim]}")
        if name in measured:
            yield from _shape(name, np.shape(measured[name]), (len(state.loss), *variable.shape))
            if not variable.nan_where and np.isnan(measured[name]).any():
                yield Failure(Fault.NOT_FINITE, name, "is NaN somewhere and does not declare it: nan_where")
    yield from _fixed(
        declared, sizes | {"replica": len(state.loss), "token": len(probe.simulation.data.tokens)}
    )


def _fixed(declared: Declaration, sizes: dict[str, int]) -> Iterator[Failure]:
    """What is fixed has a name, and an axis as long as the dimension that it says."""
    for name, fixed in declared.fixed.items():
        if not fixed.long_name:
            yield Failure(Fault.UNLABELLED, name, "needs a long_name")
        found, known = np.shape(fixed.values), tuple(sizes.get(dim) for dim in fixed.dims)
        if len(found) != len(known) or any(
            n not in (None, size) for size, n in zip(found, known, strict=True)
        ):
            yield Failure(Fault.SHAPE, name, f"has shape {found} for the dims {fixed.dims}")


def _shape(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> Iterator[Failure]:
    if found == wanted:
        return
    detail = f"is measured with shape {found}, declared with {wanted}"
    if found[:1] != wanted[:1]:
        yield Failure(Fault.LOST_REPLICA, name, detail)
    else:
        swapped = sorted(found) == sorted(wanted)
        yield Failure(Fault.SWAPPED_AXES if swapped else Fault.SHAPE, name, detail)


def replicas(case: Watched) -> Iterator[Failure]:
    """What is measured of a replica does not depend on those beside it."""
    together = case.values(NumpyBackend())
    n_replicas = len(case.usual[1].loss)
    alone = [case.values(NumpyBackend(), replica) for replica in range(n_replicas)]
    for name, found in together.items():
        fault = replica_fault(name, found, np.concatenate([np.atleast_1d(one[name]) for one in alone]))
        if fault:
            yield fault


def untouched(case: Watched) -> Iterator[Failure]:
    """The state is left as it was, and nothing measured is a view of it."""
    probe, state = case.state(NumpyBackend())
    arrays = {"parameters": state.parameters.flat, "gradients": state.gradients.flat, "loss": state.loss}
    before = {name: array.copy() for name, array in arrays.items()}
    measured = probe.measure(state)
    for name, array in arrays.items():
        if not np.array_equal(array, before[name], equal_nan=True):
            yield Failure(Fault.INPUT_MODIFIED, f"state's {name}", "is changed by measure")
        for variable, values in measured.items():
            if np.shares_memory(values, array):
                yield Failure(Fault.VIEW, variable, f"shares its memory with the {name}: return a copy")


def repeatable(case: Watched) -> Iterator[Failure]:
    """Measuring again, or with a fresh probe, gives the same bits."""
    first, second = (case.values(NumpyBackend()) for _ in range(2))
    probe, state = case.usual
    probe.measure(state)
    again = probe.measure(state)
    for name, array in first.items():
        if not np.array_equal(second[name], array, equal_nan=True):
            yield Failure(Fault.RANDOM, name, "differs between two probes in the same state")
        elif not np.array_equal(again[name], array, equal_nan=True):
            yield Failure(Fault.HIDDEN_STATE, name, "depends on what was measured before")


def dtype(case: Watched) -> Iterator[Failure]:
    """What is measured has the precision of the run."""
    for precision in ("float64", "float32"):
        for name, array in case.values(NumpyBackend(precision)).items():
            if array.dtype != precision:
                yield Failure(Fault.DTYPE, name, f"is {array.dtype} in a run of {precision}")


def purity(case: Watched) -> Iterator[Failure]:
    """On the device stand-in nothing is taken off the device, and the numbers are NumPy's."""
    expected = case.values(Backend(np))
    strict = StrictBackend()
    module = strict.xp
    try:
        probe, state = case.state(strict)
        probe.declare()
        before = module.downloads
        measured: dict[str, Array] = probe.measure(state)
        moved = module.downloads - before
    except TypeError as error:
        yield Failure(Fault.HOST_LEAK, "measure", f"mixes host and device: {blame(error, case.source)}")
        return
    if moved:
        yield Failure(Fault.HOST_LEAK, "measure", f"moves {moved} arrays off the device, every time")
    for name, array in measured.items():
        if not isinstance(array, DeviceArray):
            yield Failure(Fault.HOST_LEAK, name, f"is on the host ({type(array).__name__})")
        elif not same(found := strict.to_host(array), expected[name]):
            detail = f"differs {deviation(found, expected[name])} from NumPy's on the device stand-in"
            yield Failure(Fault.HOST_LEAK, name, detail)


CHECKS: dict[str, Check] = {
    "declared = measured": declaration,
    "replicas are independent": replicas,
    "state untouched, no views": untouched,
    "repeatable": repeatable,
    "dtype is kept": dtype,
    "nothing leaves the device": purity,
}
